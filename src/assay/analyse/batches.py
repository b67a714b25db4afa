"""Weak or strong scaling, told from the global batch sizes that the programs state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from assay.analyse.groups import Group
from assay.records import Result

Kind = Literal["strong", "weak", "mixed", "unknown"]


def kind_of(groups: Sequence[tuple[int, Group]]) -> tuple[Kind, str]:
    """How the work grows with the ranks, and the batch sizes that say so.

    strong  the same global batch on every size: each rank's part shrinks
    weak    a global batch in proportion to the ranks: each rank's part stays
    mixed   neither
    unknown not every size states one batch size
    """
    found = [(ranks, batch_of(group)) for ranks, group in groups]
    batches = [(ranks, batch) for ranks, batch in found if batch is not None]
    if len(batches) < len(found) or not batches:
        return "unknown", "no global batch size is stated at every size"
    listed = ", ".join(f"{batch:g}" for _, batch in batches)
    words = f"global batch {listed} on {', '.join(str(ranks) for ranks, _ in batches)} ranks"
    first_ranks, first = batches[0]
    if all(batch == first for _, batch in batches):
        return "strong", words
    if all(batch * first_ranks == first * ranks for ranks, batch in batches):
        return "weak", words
    return "mixed", words


def batch_of(group: Group) -> float | None:
    """The one global batch size of all runs at a point; None where they state none or several."""
    stated = {_stated(sample.result) for sample in group.samples}
    return stated.pop() if len(stated) == 1 else None


def _stated(result: Result) -> float | None:
    training = result.reading.training
    value = result.reading.facts.get("global_batch_size")
    if value is None and training is not None:
        value = training.global_batch_size
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
