"""How often each doubt is raised by results that MLPerf accepted, over four whole rounds of training.

Counted by `python benchmarks/accepted.py` over the closed and open results of each round as imported. A
result is one system's runs of one benchmark at one size.
"""

from __future__ import annotations

from collections.abc import Mapping

RESULTS: Mapping[str, int] = {"v1.1": 183, "v2.0": 262, "v3.0": 260, "v4.0": 202}
RAISED: Mapping[str, tuple[int, ...]] = {
    "one-session": (183, 262, 260, 202),
    "cannot-tell": (168, 237, 236, 174),
    "placeholder": (4, 33, 74, 98),
    "failed-runs-left-out": (22, 25, 37, 10),
    "too-few-runs": (18, 14, 33, 17),
    "drift": (2, 10, 14, 6),
    "one-far-off": (7, 13, 7, 5),
    "dependence": (2, 6, 4, 4),
    "two-modes": (2, 1, 1, 5),
    "order-unknown": (1, 0, 0, 2),
    "same-run-twice": (1, 0, 0, 2),
    "above-best-known": (0, 2, 1, 0),
    "mixed-runs": (0, 2, 0, 0),
    "copied-values": (0, 0, 0, 2),
}
REASONS: Mapping[str, str] = {
    "one-session": "A submission is one series of runs: it does not show what another day would give.",
    "cannot-tell": "A note. MLPerf asks for 3, 5 or 10 runs, which hide most drifts and correlations.",
    "placeholder": "Correct for these logs: submitters left placeholders for themselves or the platform.",
    "failed-runs-left-out": "The rules allow a run that misses its target and count it as the slowest; "
    "the mean of the other runs is faster than that.",
    "too-few-runs": "The rules ask for three runs of GPT-3; elsewhere four of five runs reached the target.",
    "drift": "For one metric 1.25 % is chance, and a result has up to four. The others rise or fall "
    "steadily, by 0.1 to 12 %.",
    "one-far-off": "Times have heavier tails than normal runs, for which 1.25 % is chance. Each of these "
    "runs moves the mean by 0.2 % or more, apart from what its length explains.",
}
"""Doubts that more than 3 % of the results raise: why they are raised, and correctly."""
