"""Whether stacks that were built again, with and without a change, confirm what a search found.

Each built environment can be faster or slower by itself, by where its files and its memory happen to be, in
all of its runs. So the build is the unit of replication here, and builds that the search has measured don't
count: the search chose the change by them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from assay.analyse.statistics.intervals import t_quantile

LOOKS: Final = (3, 5, 8)
"""New builds of each of the two stacks at the looks; at the last one, it is over.

Never two of each: where builds are of two kinds, fast and slow, the two of one stack are fast and those of
the other slow in one of 16 cases, without any spread to see.
"""
_LIKELY: Final = 3.3  # standard errors: the interval at many builds, and a power of 80 %


@dataclass(frozen=True)
class SpeedEffect:
    """Logarithm of a ratio of speeds with its interval."""

    log: float
    low: float
    high: float


@dataclass(frozen=True)
class Confirmation:
    """The result of new builds with and without a change.

    effect  of the change; if it has none, all intervals at all looks together contain that in 1 − error
    builds  of each of the two stacks
    spread  standard deviation between builds of one stack as they were measured, on the log scale
    """

    effect: SpeedEffect
    builds: int
    spread: float

    @property
    def slower(self) -> bool:
        """Whether the change makes the stack slower."""
        return self.effect.high < 0

    def equal(self, margin: float) -> bool:
        """Whether it makes the stack slower by less than the margin, on the log scale, if at all."""
        return self.effect.low > -margin

    @property
    def needed(self) -> int | None:
        """Builds of each that would likely show an effect as large as this one; None for no slowdown."""
        if self.effect.log >= 0:
            return None
        return max(math.ceil(2 * (_LIKELY * self.spread / self.effect.log) ** 2), self.builds + 1)


def confirmation(without: Sequence[float], having: Sequence[float], error: float) -> Confirmation:
    """What new builds of two stacks say: Student's t with the builds' common variance.

    without, having  logarithm of the speed of each build, at least two of each
    error            probability that any look shows an effect one way if there is none
    """
    means = [math.fsum(side) / len(side) for side in (without, having)]
    squares = math.fsum((log_speed - means[0]) ** 2 for log_speed in without)
    squares += math.fsum((log_speed - means[1]) ** 2 for log_speed in having)
    degrees = len(without) + len(having) - 2
    spread = math.sqrt(squares / degrees)
    quantile = t_quantile(1 - error / len(LOOKS), degrees)
    half = quantile * spread * math.sqrt(1 / len(without) + 1 / len(having))
    log = means[1] - means[0]
    return Confirmation(SpeedEffect(log, log - half, log + half), min(len(without), len(having)), spread)
