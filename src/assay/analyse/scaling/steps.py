"""The steps of a scaling curve: what each size gains over the next smaller one, and whether it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from assay.analyse.points.groups import Group
from assay.analyse.points.ratio import ratio
from assay.analyse.scaling.batches import batch_of
from assay.records import Better, Estimate, Shape

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
        Shape.parse(larger.point.shape).ranks / Shape.parse(smaller.point.shape).ranks,
        (batch_of(smaller), batch_of(larger)),
    )
