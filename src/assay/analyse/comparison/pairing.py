"""Which runs of two groups are pairs: determined by how they were run, never by their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.analyse.comparison.groups import Sample


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
    return Pairing(tuple((by_block_a[at], by_block_b[at]) for at in both), dropped)


def _by_block(samples: Sequence[Sample]) -> dict[tuple[str, int], Sample]:
    return {(s.result.run.session, s.result.run.trial.block): s for s in samples}
