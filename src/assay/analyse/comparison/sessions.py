"""The unit of replication: runs, or the sessions that they belong to.

Runs of one session share its conditions: the same allocation, temperature and day. Their spread may be 0.05 %
while the next session differs by 0.5 %. So as soon as both sides have several sessions, each session counts
once, with the mean of its runs (of its blocks' log-ratios if the sides are paired), and the claim is about
the systems. If both sides were measured in the same sessions, each session is a pair, and the effect of the
day on both cancels. With one session per side, only its runs count, and the claim is about that session.
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
    """Whether sessions are the unit of replication: both sides have several."""
    return min(a, b) > 1


def shared(a: Sequence[Sample], b: Sequence[Sample]) -> bool:
    """Whether both sides were measured in exactly the same sessions: then each session is a pair."""
    return set(sessions(a)) == set(sessions(b))


def session_means(samples: Sequence[Sample], logs: Sequence[float]) -> list[float]:
    """Mean logarithm of each session, sorted by name; each has the same weight, however many runs it has.

    For sides with the same sessions the means are pairs; for blocks, the differences of the means are the
    means of the blocks' log-ratios.
    """
    gathered: dict[Session, list[float]] = {}
    for sample, log in zip(samples, logs, strict=True):
        gathered.setdefault(session_of(sample), []).append(log)
    return [math.fsum(gathered[session]) / len(gathered[session]) for session in sorted(gathered)]
