"""The steps of a scaling curve: what each size gains over the next smaller one, and whether it can."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from assay.analyse.comparison.groups import Group
from assay.analyse.scaling.batches import batch_of
from assay.analyse.statistics.ratio import ratio
from assay.records import Better, Estimate, Shape

FALSE_ALARMS = 0.05  # of all steps of a curve together
WITHOUT_INTERVAL = 1.05  # times the ranks' ratio, from which a gain without an interval counts


@dataclass(frozen=True)
class ScalingStep:
    """What `larger` gains over `smaller`, two neighbouring sizes of one curve.

    gain     speed of the larger over that of the smaller; the lower ends of all steps hold together in 95 %
    at_most  the ratio of their ranks: more than that no ranks can give
    batches  the global batch size of each; None where it states none or several
    """

    smaller: str
    larger: str
    gain: Estimate
    at_most: float
    batches: tuple[float | None, float | None]

    @property
    def impossible(self) -> bool:
        """It gains more than its ranks, by more than the runs' scatter explains."""
        if self.gain.low is None:
            return self.gain.value > WITHOUT_INTERVAL * self.at_most
        return self.gain.low > self.at_most

    @property
    def lost(self) -> float:
        """Share of its speed that the smaller size lost at least; where there is no interval, as measured."""
        return 1 - self.at_most / (self.gain.value if self.gain.low is None else self.gain.low)

    @property
    def equal_batch(self) -> float | None:
        """Global batch of the smaller size as large per rank as the larger's; None where it is so already."""
        smaller, larger = self.batches
        if smaller is None or larger is None or larger <= smaller * self.at_most:
            return None
        return larger / self.at_most


def steps(groups: Sequence[Group], better: Better) -> tuple[ScalingStep, ...]:
    """The steps between neighbours; of a curve that scales perfectly 5 % have an impossible one.

    groups  of one curve, one a number of ranks, the fewest first
    """
    pairs = list(pairwise(groups))
    confidence = step_confidence(len(pairs))
    return tuple(_step(smaller, larger, better, confidence) for smaller, larger in pairs)


def step_confidence(steps: int) -> float:
    """Of each step's two-sided interval, so that all lower ends hold together in 95 % (Bonferroni)."""
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
