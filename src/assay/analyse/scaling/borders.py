"""Borders that a curve crosses: from one node to several, or between racks, where speed is lost once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assay.analyse.scaling.laws import MISFIT, Array, Size, noise


@dataclass(frozen=True)
class Border:
    """A loss between two adjacent sizes, next to which all sizes follow Amdahl's law.

    smaller, larger  ranks of the sizes on both sides
    lost             share of the speed that is lost there
    between_nodes    the smaller size is of one node, the larger one of several
    squares          that the sizes' means still miss, weighted by runs
    """

    smaller: int
    larger: int
    lost: float
    between_nodes: bool
    squares: float


def border(sizes: Sequence[Size], nodes: Sequence[int], *, blocked: bool) -> Border | None:
    """The one border that explains the sizes best, if it leaves no more than the runs' scatter explains.

    sizes  the smallest first, of at least 4 numbers of ranks
    nodes  of each

    It needs two sizes on each side, because one size alone may be slow for other reasons, unless it is the
    border from one node to several. None if there is no such border, or if scatter is unknown.
    """
    scatter = noise(sizes, blocked=blocked)
    degrees = len(sizes) - 3
    if degrees < 1 or not scatter.degrees or not scatter.squares:
        return None
    borders = [
        _border(sizes, index, between_nodes=nodes[index - 1] == 1 < nodes[index])
        for index in range(1, len(sizes))
        if 1 < index < len(sizes) - 1 or nodes[index - 1] == 1 < nodes[index]
    ]
    best = min(
        (candidate for candidate in borders if candidate.lost > 0),
        key=lambda candidate: candidate.squares,
        default=None,
    )
    if best is None:
        return None
    from scipy.special import fdtrc

    ratio = (best.squares / degrees) / (scatter.squares / scatter.degrees)
    return best if float(fdtrc(degrees, scatter.degrees, ratio)) >= MISFIT else None


def _border(sizes: Sequence[Size], index: int, *, between_nodes: bool) -> Border:
    """Amdahl's law and a loss before the size at this index, by least squares over the serial share."""
    import numpy as np

    n = np.array([size.ranks for size in sizes], dtype=float)
    weights = np.array([len(size.logs) for size in sizes], dtype=float)
    means = np.array([math.fsum(size.logs) / len(size.logs) for size in sizes])
    serial = np.concatenate([[0.0], np.logspace(-6, 0, 1200)])[:, None]
    rest = means - np.log(n) + np.log1p(serial * (n - 1))
    before, after = (np.average(rest[:, part], axis=1, weights=weights[part]) for part in _sides(index))
    rest -= np.where(np.arange(len(n)) < index, before[:, None], after[:, None])
    squares: Array = np.sum(weights * rest**2, axis=1)
    best = int(np.argmin(squares))
    lost = -math.expm1(float(after[best] - before[best]))
    return Border(sizes[index - 1].ranks, sizes[index].ranks, lost, between_nodes, float(squares[best]))


def _sides(index: int) -> tuple[slice, slice]:
    return slice(None, index), slice(index, None)
