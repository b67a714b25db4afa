"""What counts once: a run, a pair of runs from one shuffled block, or a session.

It is determined by how the runs were made, never by their results.

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
from dataclasses import dataclass

from assay.analyse.points.groups import Sample

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
    return [
        math.fsum(session_logs) / len(session_logs)
        for _, session_logs in sorted(_by_session(samples, logs).items())
    ]


def deviations(samples: Sequence[Sample], logs: Sequence[float]) -> list[float]:
    """Each logarithm minus the mean of its session."""
    return [
        log - math.fsum(session_logs) / len(session_logs)
        for session_logs in _by_session(samples, logs).values()
        for log in session_logs
    ]


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


@dataclass(frozen=True)
class Pairing:
    """Runs of A and B from the same shuffled blocks.

    pairs    a run of each side per block, in the order of sessions and blocks
    dropped  blocks that lack one side
    """

    pairs: tuple[tuple[Sample, Sample], ...]
    dropped: int


def pairing(a: Sequence[Sample], b: Sequence[Sample]) -> Pairing | None:
    """The pairs, if both sides ran in the same shuffled blocks of the same sessions; else None.

    Two systems did if their plan interleaved them. Two sizes or points of one system always did: every
    plan shuffles them within each block. Repeat numbers of imported logs are not blocks. There are also
    no pairs if a run is outside its block: leaving that block out would mean selecting by failures.
    """
    runs = [sample.result.run for sample in (*a, *b)]
    one_system = len({run.trial.system for run in runs}) == 1
    if not all(run.interleaved or (one_system and run.source is None) for run in runs):
        return None
    if len({run.suite_digest for run in runs}) != 1 or any(run.outside_block for run in runs):
        return None
    by_block_a, by_block_b = _by_block(a), _by_block(b)
    if {session for session, _ in by_block_a} != {session for session, _ in by_block_b}:
        return None
    if len(by_block_a) < len(a) or len(by_block_b) < len(b):  # two runs of a side in a block: not a design
        return None
    both = sorted(by_block_a.keys() & by_block_b.keys())
    dropped = len(a) + len(b) - 2 * len(both)
    return Pairing(tuple((by_block_a[block], by_block_b[block]) for block in both), dropped)


def _by_block(samples: Sequence[Sample]) -> dict[tuple[str, int], Sample]:
    return {(s.result.run.session, s.result.run.trial.block): s for s in samples}
