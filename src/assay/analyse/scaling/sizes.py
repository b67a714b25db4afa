"""What the sizes of a curve show: how batches grow, what each step gains, and borders where speed is lost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from assay.analyse.points.groups import Group
from assay.analyse.points.ratio import ratio
from assay.analyse.scaling.laws import MISFIT, Array, Size, noise
from assay.records import Better, Estimate, Result

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


FALSE_ALARMS = 0.05  # for all steps of a curve jointly
WITHOUT_INTERVAL = 1.05  # times the ranks' ratio: a gain without an interval counts from here


@dataclass(frozen=True)
class ScalingStep:
    """What `larger` gains over `smaller`, two adjacent sizes of one curve.

    gain     speed of the larger relative to the smaller; the lower ends of all steps hold jointly in 95 %
    at_most  the ratio of their ranks: no ranks can give more than that
    batches  the global batch size of each; None if it states none or several
    """

    smaller: str
    larger: str
    gain: Estimate
    at_most: float
    batches: tuple[float | None, float | None]

    @property
    def impossible(self) -> bool:
        """Whether it gains more than its ranks, by more than the runs' scatter explains."""
        if self.gain.low is None:
            return self.gain.value > WITHOUT_INTERVAL * self.at_most
        return self.gain.low > self.at_most

    @property
    def lost(self) -> float:
        """Minimum share of its speed that the smaller size lost; without an interval, as measured."""
        return 1 - self.at_most / (self.gain.value if self.gain.low is None else self.gain.low)

    @property
    def equal_batch(self) -> float | None:
        """Global batch that gives the smaller size the larger's batch per rank; None if it already has it."""
        smaller, larger = self.batches
        if smaller is None or larger is None or larger <= smaller * self.at_most:
            return None
        return larger / self.at_most


def steps(groups: Sequence[Group], better: Better) -> tuple[ScalingStep, ...]:
    """The steps between adjacent sizes; 5 % of curves that scale perfectly have an impossible one.

    groups  of one curve, one per number of ranks, the fewest first
    """
    pairs = list(pairwise(groups))
    confidence = step_confidence(len(pairs))
    return tuple(_step(smaller, larger, better, confidence) for smaller, larger in pairs)


def step_confidence(steps: int) -> float:
    """Confidence of each step's two-sided interval, so that all lower ends hold in 95 % (Bonferroni)."""
    return 1 - 2 * FALSE_ALARMS / max(1, steps)


def _step(smaller: Group, larger: Group, better: Better, confidence: float) -> ScalingStep:
    larger = larger.in_unit(smaller.point.unit)
    sides = (smaller, larger) if better == "higher" else (larger, smaller)  # a time is inverted
    return ScalingStep(
        smaller.point.shape,
        larger.point.shape,
        ratio(*sides, confidence=confidence).estimate,
        larger.ranks / smaller.ranks,
        (batch_of(smaller), batch_of(larger)),
    )


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
