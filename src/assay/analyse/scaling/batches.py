"""Weak or strong scaling, determined from the global batch sizes that the programs state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from assay.analyse.points.groups import Group
from assay.records import Result

Kind = Literal["strong", "weak", "mixed", "unknown"]


def kind_of(groups: Sequence[tuple[int, Group]]) -> tuple[Kind, str]:
    """How the work grows with the ranks, and the batch sizes that show it.

    strong  the same global batch at every size: each rank's part shrinks
    weak    a global batch in proportion to the ranks: each rank's part is constant
    mixed   neither
    unknown not every size states one batch size
    """
    sizes = [(ranks, batch_of(group)) for ranks, group in groups]
    batches = [(ranks, batch) for ranks, batch in sizes if batch is not None]
    if len(batches) < len(sizes) or not batches:
        return "unknown", "no global batch size is stated at every size"
    listed = ", ".join(f"{batch:g}" for _, batch in batches)
    evidence = f"global batch {listed} on {', '.join(str(ranks) for ranks, _ in batches)} ranks"
    first_ranks, first = batches[0]
    if all(batch == first for _, batch in batches):
        return "strong", evidence
    if all(batch * first_ranks == first * ranks for ranks, batch in batches):
        return "weak", evidence
    return "mixed", evidence


def one_training(groups: Sequence[tuple[int, Group]], *, weak: bool) -> tuple[Kind, tuple[Group, ...]]:
    """The largest set of sizes that one law can describe, and how the work grows with the ranks over them.

    weak  sizes with the same batch per rank are one training, too; else only those with one global batch

    Of sets with the same number of sizes, the one that reaches the most ranks. All sizes if not every one
    states a batch.
    """
    stated = [(ranks, group, batch) for ranks, group in groups if (batch := batch_of(group)) is not None]
    if len(stated) < len(groups):
        return "unknown", tuple(group for _, group in groups)
    alike: dict[tuple[Kind, float], list[tuple[int, Group]]] = {}
    for ranks, group, batch in stated:
        alike.setdefault(("strong", batch), []).append((ranks, group))
        if weak:
            alike.setdefault(("weak", batch / ranks), []).append((ranks, group))
    (kind, _), most = max(alike.items(), key=lambda training: (len(training[1]), training[1][-1][0]))
    return kind, tuple(group for _, group in most)


def batch_of(group: Group) -> float | None:
    """The one global batch size of all runs at a point; None if they state none or several."""
    stated = {_stated(sample.result) for sample in group.samples}
    return stated.pop() if len(stated) == 1 else None


def _stated(result: Result) -> float | None:
    training = result.reading.training
    value = result.reading.facts.get("global_batch_size")
    if value is None and training is not None:
        value = training.global_batch_size
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
