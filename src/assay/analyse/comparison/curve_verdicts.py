"""Comparisons at the sizes of one curve: which belong together, and one verdict over all sizes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from assay.analyse.points.groups import SIZE, without_size
from assay.records import Comparison, Estimate, Point, Verdict

Curve = tuple[str, str, str, str]


def curve_of(comparison: Comparison) -> Curve | None:
    """What the sizes of one curve have in common; None if a comparison has no size."""
    point = comparison.point
    if not isinstance(point.labels.get(SIZE), int | float):
        return None
    return point.benchmark, point.shape, point.metric, repr(sorted(without_size(point.labels).items()))


@dataclass(frozen=True)
class CurveVerdict:
    """B compared with A over the sizes of one curve, the smallest first; their intervals hold jointly."""

    sizes: tuple[Comparison, ...]

    @property
    def point(self) -> Point:
        """The first size's point, without the size."""
        first = self.sizes[0].point
        return replace(first, labels=without_size(first.labels))

    @property
    def verdict(self) -> Verdict:
        """`slower` or `faster` if any size is, slower first; equivalent if all are; else undecided."""
        verdicts = {c.verdict for c in self.sizes}
        if verdicts == {"equivalent"}:
            return "equivalent"
        return next((v for v in _GRAVEST if v in verdicts), "undecided")


_GRAVEST: Final[tuple[Verdict, ...]] = ("slower", "faster")


def curve_verdicts(comparisons: Iterable[Comparison]) -> tuple[CurveVerdict, ...]:
    """Comparisons that are sizes of one curve, grouped by sides and curve; others are left out."""
    curves: dict[object, list[Comparison]] = {}
    for c in comparisons:
        if c.along is not None:
            curves.setdefault((c.a, c.b, curve_of(c)), []).append(c)
    return tuple(CurveVerdict(tuple(sorted(sizes, key=size_of))) for sizes in curves.values())


def size_of(comparison: Comparison) -> float:
    """Its size in bytes. Raises TypeError if it is not a size of a curve."""
    size = comparison.point.labels.get(SIZE)
    if not isinstance(size, int | float):
        raise TypeError(f"{comparison.point} has no {SIZE}")
    return size


def band(comparison: Comparison) -> Estimate:
    """The interval that holds jointly with those of the curve's other sizes; without any, its own."""
    return comparison.ratio if comparison.family is None else comparison.family.ratio
