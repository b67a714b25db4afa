"""Time between failures, from jobs of which some still run: they are censored, not left out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

Outcome = Literal["completed", "running", "cancelled", "preempted", "timed out", "failed", "interrupted"]
FAILURES: Final = ("failed", "interrupted")
CONFIDENCE: Final = 0.95
SUSPECT_LEVEL: Final = 0.05  # probability that any healthy node is named, over all nodes


@dataclass(frozen=True)
class JobAttempt:
    """One start of a job, on the nodes that it held from begin to end, seconds since 1970.

    outcome  failed: its program; interrupted: its node or platform; all others are censored: they say only
             that nothing failed until then
    blamed   the node that failed, if the source names it

    The parts of its time are in seconds; None: the source does not say.
    """

    job: str
    nodes: tuple[str, ...]
    begin_at: float
    end_at: float
    outcome: Outcome
    blamed: str = ""
    productive_s: float | None = None
    checkpoint_s: float | None = None
    restart_s: float | None = None
    lost_s: float | None = None
    stall_s: float | None = None

    @property
    def duration_s(self) -> float:
        """From begin to end."""
        return self.end_at - self.begin_at


@dataclass(frozen=True)
class FailureRate:
    """Mean time between failures with its 95 % interval, at a constant rate.

    time_s     that was observed, of jobs or nodes that ran to their end, failed, or still run
    mean_s     None without a failure: `low_s` is then a one-sided bound
    high_s     None without a failure
    """

    failures: int
    time_s: float
    mean_s: float | None
    low_s: float
    high_s: float | None


def failure_rate(failures: int, time_s: float, confidence: float = CONFIDENCE) -> FailureRate:
    """Mean time between failures when this many were seen in this time.

    The interval is exact for a constant rate: 2T/chi2(1-a/2, 2d+2) to 2T/chi2(a/2, 2d). It is wide for the
    right end because observation ends with time, not with a failure. Without a failure, the lower bound is
    the rule of three, exactly: T / -ln(1 - confidence).

    Raises ValueError for a negative count, or no time.

    >>> rate = failure_rate(419, 54 * 86400.0)
    >>> [round(s / 3600, 2) for s in (rate.low_s, rate.mean_s, rate.high_s)]
    [2.81, 3.09, 3.41]
    """
    from scipy.stats import chi2

    if failures < 0 or not time_s > 0:
        raise ValueError(f"{failures} failures in {time_s} s: expected a count, and a time above 0")
    tail = (1 - confidence) / 2
    if failures == 0:
        return FailureRate(0, time_s, None, time_s / -math.log(1 - confidence), None)
    low = 2 * time_s / float(chi2.ppf(1 - tail, 2 * failures + 2))
    high = 2 * time_s / float(chi2.ppf(tail, 2 * failures))
    return FailureRate(failures, time_s, time_s / failures, low, high)


def of_jobs(attempts: Sequence[JobAttempt]) -> FailureRate | None:
    """Time between failures of a job while it runs; None if no job ran for any time."""
    time_s = math.fsum(attempt.duration_s for attempt in attempts)
    failed = sum(attempt.outcome in FAILURES for attempt in attempts)
    return failure_rate(failed, time_s) if time_s > 0 else None


def of_nodes(attempts: Sequence[JobAttempt]) -> FailureRate | None:
    """Node-time between failures: the time of a job counts once for each of its nodes."""
    time_s = math.fsum(attempt.duration_s * len(attempt.nodes) for attempt in attempts)
    failed = sum(attempt.outcome in FAILURES for attempt in attempts if attempt.nodes)
    return failure_rate(failed, time_s) if time_s > 0 else None


# Nodes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class NodeFailures:
    """A node's share of the failures.

    failures   with this node: named by the source, or the job had only this node
    p          probability of at least as many if all nodes fail at the same rate, corrected for the number
               of nodes (Holm)
    suspect    whether p is below 5 %
    """

    node: str
    failures: int
    time_s: float
    p: float
    suspect: bool


def by_node(attempts: Iterable[JobAttempt]) -> list[NodeFailures]:
    """Each node's failures, compared with the rate of all others; the worst first.

    A failure of a job on several nodes counts for a node only if the source names it.
    """
    from scipy.stats import binom

    time_s: dict[str, float] = {}
    failures: dict[str, int] = {}
    for attempt in attempts:
        for node in attempt.nodes:
            time_s[node] = time_s.get(node, 0.0) + attempt.duration_s
        named = attempt.blamed or (attempt.nodes[0] if len(attempt.nodes) == 1 else "")
        if attempt.outcome in FAILURES and named in time_s:
            failures[named] = failures.get(named, 0) + 1
    total, whole_s = sum(failures.values()), math.fsum(time_s.values())
    chances = {
        node: float(binom.sf(failures.get(node, 0) - 1, total, own_s / whole_s)) if total and whole_s else 1.0
        for node, own_s in time_s.items()
    }
    corrected = _holm(chances)
    found = [
        NodeFailures(node, failures.get(node, 0), own_s, corrected[node], corrected[node] < SUSPECT_LEVEL)
        for node, own_s in time_s.items()
    ]
    return sorted(found, key=lambda one: (one.p, -one.failures, one.node))


def _holm(chances: Mapping[str, float]) -> dict[str, float]:
    """P values corrected so that any healthy node is named with at most the level's probability."""
    corrected, worst = {}, 0.0
    for rank, (node, p) in enumerate(sorted(chances.items(), key=lambda one: one[1])):
        worst = max(worst, min(1.0, p * (len(chances) - rank)))
        corrected[node] = worst
    return corrected
