"""The unit of replication: runs, or the sessions that they belong to.

Runs of one session share its conditions: the same allocation, temperature and day. Their spread may be 0.05 %
while the next session differs by 0.5 %. So as soon as a side has several sessions, each session counts once,
with the mean of its runs (of its blocks' log-ratios if the sides are paired), and the claim is about the
systems. If only one side has several, the other's session is taken to differ as theirs do. If both sides
were measured in the same sessions, each session is a pair, and the effect of the day on both cancels. With
one session per side, only its runs count, and the claim is about these sessions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from assay.analyse.comparison.groups import Sample

Session = tuple[str, str]


def session_of(sample: Sample) -> Session:
    """Suite and session of a run."""
    return sample.result.run.suite, sample.result.run.session


def sessions(samples: Iterable[Sample]) -> tuple[Session, ...]:
    """The sessions that runs come from, in the order of their first occurrence."""
    return tuple(dict.fromkeys(map(session_of, samples)))


def replicated(a: int, b: int) -> bool:
    """Whether sessions are the unit of replication: a side has several."""
    return max(a, b) > 1


def shared(a: Sequence[Sample], b: Sequence[Sample]) -> bool:
    """Whether both sides were measured in exactly the same sessions: then each session is a pair."""
    return set(sessions(a)) == set(sessions(b))


def session_means(samples: Sequence[Sample], logs: Sequence[float]) -> list[float]:
    """Mean logarithm of each session, sorted by name; each has the same weight, however many runs it has.

    For sides with the same sessions the means are pairs; for blocks, the differences of the means are the
    means of the blocks' log-ratios.
    """
    return [math.fsum(of) / len(of) for _, of in sorted(_by_session(samples, logs).items())]


def deviations(samples: Sequence[Sample], logs: Sequence[float]) -> list[float]:
    """Each logarithm minus the mean of its session."""
    return [log - math.fsum(of) / len(of) for of in _by_session(samples, logs).values() for log in of]


def excess(
    a: Sequence[Sample], b: Sequence[Sample], logs_a: Sequence[float], logs_b: Sequence[float]
) -> float:
    """By how much a side's only session varies more than the other side's, because it has fewer runs."""
    counts = [(len(sessions(side)), len(side)) for side in (a, b)]
    (_, alone), (others, runs) = sorted(counts)
    off = [*deviations(a, logs_a), *deviations(b, logs_b)]
    within = math.fsum(x * x for x in off) / max(len(off) - 1 - others, 1)
    return within * max(1 / alone - others / runs, 0.0)


def _by_session(samples: Sequence[Sample], logs: Sequence[float]) -> dict[Session, list[float]]:
    gathered: dict[Session, list[float]] = {}
    for sample, log in zip(samples, logs, strict=True):
        gathered.setdefault(session_of(sample), []).append(log)
    return gathered
