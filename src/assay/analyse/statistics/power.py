"""How many runs would decide: from the run-to-run spread and what is to be shown, never from what was seen.

The power is that of the very verdicts that `compare` gives: `equivalent` when the whole t interval lies
within the margin, a difference when it excludes 1. For normal logarithms and pairs it is exact: for a given
estimate of the variance the mean is normal, and that estimate is a chi-square, over which is averaged. Of
unpaired runs Welch's degrees of freedom are a few less than the 2(n − 1) counted here: less than one run.

The spread itself is known only as well as its runs allow (from 3 runs a side it may be off by a factor of
2), so what is asked for is a range: from both ends of the chi-square interval of the variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import variance
from typing import TYPE_CHECKING, Literal

from assay.records import RunsNeeded, RunsRange

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POWER = 0.8
SPREAD_CONFIDENCE = 0.8  # of the range: one set in ten needs fewer, one in ten more
MOST = 10_000  # runs a side; beyond, nobody runs them
FEWEST = 3  # with two runs the spread rests on one difference
_STEPS = 64  # of the average over the variance; against 4,000 steps the power differs by less than 0.002


@dataclass(frozen=True)
class Spread:
    """What the width of an interval comes from, on the log scale.

    variance  such that the standard error of the log-ratio from n runs a side is √(variance / n): of the
              differences of pairs, or of A's runs plus of B's
    degrees   of freedom that it was estimated with
    paired    from pairs: n − 1 degrees of freedom from n, else 2(n − 1)
    """

    variance: float
    degrees: float
    paired: bool

    def ends(self, confidence: float = SPREAD_CONFIDENCE) -> tuple[float, float]:
        """Interval of the variance."""
        from scipy.special import chdtri  # inverse of the upper tail

        tail = (1 - confidence) / 2
        least, most = (self.variance * self.degrees / chdtri(self.degrees, p) for p in (tail, 1 - tail))
        return float(least), float(most)


def of_pairs(a: Sequence[float], b: Sequence[float]) -> Spread:
    """From logarithms of pairs, at least two."""
    return Spread(variance([y - x for x, y in zip(a, b, strict=True)]), len(a) - 1, paired=True)


def of_sides(a: Sequence[float], b: Sequence[float]) -> Spread:
    """From logarithms of unpaired runs, at least two a side; degrees by Satterthwaite."""
    of_a, of_b = variance(a), variance(b)
    degrees = (of_a + of_b) ** 2 / (of_a**2 / (len(a) - 1) + of_b**2 / (len(b) - 1))
    return Spread(of_a + of_b, degrees, paired=False)


def runs_needed(
    spread: Spread, margin: float, confidence: float = 0.95, *, of: Literal["runs", "sessions"] = "runs"
) -> RunsNeeded:
    """Runs a side at 80 % power, for both of the truths that one may care about.

    margin      share that counts as equal; the difference to be seen is twice as large
    confidence  of the intervals that will give the verdict
    of          what the spread is of, and so what is counted
    """
    return RunsNeeded(
        if_equal=_range(equivalence_power, spread, margin, confidence),
        if_twice_the_margin=_range(difference_power, spread, margin, confidence),
        spread=math.expm1(math.sqrt(spread.variance / 2)),
        power=POWER,
        of=of,
    )


Power = Callable[[int, float, float, bool, float], float]


def equivalence_power(
    n: int, variance: float, margin: float, paired: bool, confidence: float = 0.95
) -> float:
    """Probability that the interval from n runs a side lies within the margin when the true ratio is 1."""
    from scipy.special import ndtr

    error, halves = _intervals(n, variance, paired, confidence)
    room = (math.log1p(margin) - halves).clip(min=0) / error
    return float((2 * ndtr(room) - 1).mean())


def difference_power(n: int, variance: float, margin: float, paired: bool, confidence: float = 0.95) -> float:
    """Probability that the interval from n runs a side lies above 1 when the true ratio is 1 + 2 margins."""
    from scipy.special import ndtr

    error, halves = _intervals(n, variance, paired, confidence)
    return float(ndtr((math.log1p(2 * margin) - halves) / error).mean())


def _intervals(n: int, variance: float, paired: bool, confidence: float) -> tuple[float, NDArray[np.float64]]:
    """True standard error, and half-widths of intervals that so many runs give, equally probable."""
    from scipy.special import stdtrit

    degrees = n - 1 if paired else 2 * (n - 1)
    error = math.sqrt(variance / n)
    return error, float(stdtrit(degrees, (1 + confidence) / 2)) * error * _spread_ratios(degrees)


@lru_cache(maxsize=4096)
def _spread_ratios(degrees: int) -> NDArray[np.float64]:
    """Equally probable ratios of the estimated to the true standard deviation."""
    import numpy as np
    from scipy.special import chdtri

    at: NDArray[np.float64] = np.sqrt(chdtri(degrees, (np.arange(_STEPS) + 0.5) / _STEPS) / degrees)
    return at


def _range(power: Power, spread: Spread, margin: float, confidence: float) -> RunsRange:
    low, high = spread.ends()
    least, about, most = (
        _fewest(lambda n, v=variance: power(n, v, margin, spread.paired, confidence))  # type: ignore[misc]
        for variance in (low, spread.variance, high)
    )
    return RunsRange(least, about, most)


def _fewest(power: Callable[[int], float]) -> int | None:
    """The smallest n from which on the power is reached; None above `MOST`."""
    high = FEWEST
    while power(high) < POWER:
        if high >= MOST:
            return None
        high = min(2 * high, MOST)
    low = max(FEWEST, high // 2)
    while low < high:
        middle = (low + high) // 2
        if power(middle) < POWER:
            low = middle + 1
        else:
            high = middle
    return high
