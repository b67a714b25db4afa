"""How often doubts are raised: by simulated runs with and without a problem, and by results MLPerf accepted.

Simulated by `python benchmarks/doubts.py`, which prints this table; a test repeats it with fewer sets.

Counted by `python benchmarks/accepted.py` over the closed and open results of each round as imported. A
result is one system's runs of one benchmark at one size.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

RUNS = (3, 5, 10, 40)
COVERED_UNDER_DRIFT = {
    "known": {3: 0.87, 5: 0.80, 10: 0.59, 40: 0.31},
    "unknown": {3: 0.87, 5: 0.72, 10: 0.44, 40: 0.01},
}
"""By unpaired intervals of runs that drift by one spread either way, whether or not their order is known.

Source: `python benchmarks/statistics`.
"""


@dataclass(frozen=True)
class DetectionRates:
    """One test's rates by number of runs, for pairs or for one side alone.

    trouble      what the test looks for, relative to the run-to-run spread
    power        share of sets with the problem in which it is detected
    slight       a lesser problem, and how often it is detected
    false_alarm  share of sets of normal runs without a problem that raise the doubt
    heavy_tails  the same for t3 runs
    clean        what the runs without a problem are
    """

    trouble: str
    power: Mapping[int, float]
    slight: tuple[str, Mapping[int, float]] | None
    false_alarm: Mapping[int, float]
    heavy_tails: Mapping[int, float]
    clean: str = "independent"

    def troubles(self) -> list[tuple[str, Mapping[int, float]]]:
        """Each problem with the share of sets in which it is detected, the lesser one first."""
        return [*([] if self.slight is None else [self.slight]), (self.trouble, self.power)]


POWER: dict[str, DetectionRates] = {
    "drift": DetectionRates(
        "a drift of ±2 spreads",
        {3: 0.044, 5: 0.227, 10: 0.778, 40: 1.0},
        ("a drift of ±1 spread", {3: 0.023, 5: 0.056, 10: 0.196, 40: 0.865}),
        {3: 0.013, 5: 0.012, 10: 0.012, 40: 0.013},
        {3: 0.012, 5: 0.012, 10: 0.009, 40: 0.011},
    ),
    "dependence": DetectionRates(
        "a correlation of 0.5 from run to run",
        {3: 0.0, 5: 0.0, 10: 0.087, 40: 0.665},
        None,
        {3: 0.0, 5: 0.0, 10: 0.008, 40: 0.01},
        {3: 0.0, 5: 0.0, 10: 0.007, 40: 0.013},
    ),
    "two-modes": DetectionRates(
        "two groups 10 spreads apart",
        {3: 0.0, 5: 0.184, 10: 0.905, 40: 1.0},
        ("two groups 6 spreads apart", {3: 0.0, 5: 0.052, 10: 0.297, 40: 0.925}),
        {3: 0.0, 5: 0.006, 10: 0.003, 40: 0.0},
        {3: 0.0, 5: 0.003, 10: 0.004, 40: 0.0},
    ),
    "one-far-off": DetectionRates(
        "one run 10 spreads off",
        {3: 0.043, 5: 0.544, 10: 0.999, 40: 1.0},
        ("one run 5 spreads off", {3: 0.021, 5: 0.129, 10: 0.521, 40: 0.823}),
        {3: 0.012, 5: 0.013, 10: 0.011, 40: 0.013},
        {3: 0.014, 5: 0.037, 10: 0.111, 40: 0.407},
    ),
    "warm-up": DetectionRates(
        "a first quarter that is slower by 5 spreads of a window",
        {3: 0.938, 5: 1.0, 10: 1.0, 40: 1.0},
        ("a first quarter that is slower by 2 spreads of a window", {3: 0.372, 5: 0.911, 10: 1.0, 40: 1.0}),
        {3: 0.013, 5: 0.012, 10: 0.013, 40: 0.013},
        {3: 0.011, 5: 0.008, 10: 0.011, 40: 0.011},
    ),
    "learns-nothing": DetectionRates(
        "a loss that only fluctuates",
        {3: 0.801, 5: 0.807, 10: 0.797, 40: 0.798},
        None,
        {3: 0.013, 5: 0.001, 10: 0.0, 40: 0.0},
        {3: 0.123, 5: 0.049, 10: 0.011, 40: 0.001},
        "a loss that falls by 2 spreads of a window",
    ),
}


def shown_at(n: int) -> int:
    """The tabulated number of runs to use for n: the largest that is not above it, else the smallest."""
    return max((size for size in RUNS if size <= n), default=RUNS[0])


RESULTS: Mapping[str, int] = {"v1.1": 183, "v2.0": 262, "v3.0": 260, "v4.0": 202}
RAISED: Mapping[str, tuple[int, ...]] = {
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
