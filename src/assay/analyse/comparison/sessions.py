"""What is replicated: runs, or the sessions that they belong to.

Runs of one session share its luck: the same allocation, temperature and day. Their spread may be 0.05 % where
the next session is off by 0.5 %. So as soon as both sides have several sessions, each session counts once,
with the mean of its runs (where the sides are paired: of its blocks' log-ratios), and the claim is one about
the systems. Where both sides were measured in the same sessions, each session is a pair: what a day does to
both cancels. With one session a side the runs are all there is, and the claim is one about that session.
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
    """The sessions that runs come from, in the order met."""
    return tuple(dict.fromkeys(map(session_of, samples)))


def replicated(a: int, b: int) -> bool:
    """Whether of sides with so many sessions the sessions are what is replicated: both have several."""
    return min(a, b) > 1


def shared(a: Sequence[Sample], b: Sequence[Sample]) -> bool:
    """Whether both sides were measured in the same sessions, all of them: then each session is a pair."""
    return set(sessions(a)) == set(sessions(b))


def session_means(samples: Sequence[Sample], logs: Sequence[float]) -> list[float]:
    """Mean logarithm of each session, in the order of their names; they weigh alike, whatever their runs.

    Of sides that have the same sessions the means are pairs; of blocks, their differences are the means of
    the blocks' log-ratios.
    """
    gathered: dict[Session, list[float]] = {}
    for sample, log in zip(samples, logs, strict=True):
        gathered.setdefault(session_of(sample), []).append(log)
    return [math.fsum(gathered[session]) / len(gathered[session]) for session in sorted(gathered)]
