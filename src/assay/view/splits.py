"""Time to train, split, as blocks: factors, minutes, differences, and what may be claimed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from assay.analyse.mlperf.convergence import Convergence
from assay.analyse.mlperf.decompose import Decomposition, UndecomposedBenchmark
from assay.view.blocks import Block, Fold, Paragraph, Table, TableBody
from assay.view.sentences import split

MOST_DIFFERENCES = 12  # in the short form
_WIDEST_NAME = 14  # characters that fit in a column


def splits(
    decompositions: Sequence[Decomposition],
    not_split: Sequence[UndecomposedBenchmark],
    convergences: Sequence[Convergence],
) -> Iterator[Block]:
    """Each split with its tables and its claim, then what could not be split, then the references."""
    for d in decompositions:
        yield Paragraph(f"\n{split.sentence(d)}", "strong")
        if max(len(d.a.name), len(d.b.name)) > _WIDEST_NAME:
            yield Paragraph(f"A is {d.a.name}, B is {d.b.name}.")
            d = replace(d, a=replace(d.a, name="A"), b=replace(d.b, name="B"))
        yield from map(_captioned, (split.factors(d), split.minutes(d)))
        yield Paragraph(split.convergence_sentence(d))
        if d.likeness.differences:
            yield _differences(_captioned(split.differences(d)))
        yield Paragraph(d.likeness.claim)
        yield from (Paragraph(f"{s.name}: {note}.", "dim") for s in (d.a, d.b) for note in s.notes)
    for left in not_split:
        yield Paragraph(f"{left.benchmark}: time to train is not split: {left.why}.")
    yield from (Paragraph(split.describe_convergence(convergence)) for convergence in convergences)


def _captioned(table: Table) -> Table:
    """The table without its benchmark, which the sentence above it names."""
    return replace(table, caption=table.caption.partition(": ")[2])


def _differences(table: Table) -> Block:
    rows = [row for body in table.bodies for row in body.rows]
    more = len(rows) - MOST_DIFFERENCES
    if more <= 0:
        return table
    short = replace(table, bodies=(TableBody("", tuple(rows[:MOST_DIFFERENCES])),))
    return Fold((short,), (table,), f"{more} more differences")
