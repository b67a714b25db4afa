"""How many runs would decide: from the run-to-run spread and the effect to detect, never from what was seen.

The power is that of the verdicts that `compare` gives: `equivalent` if the whole t interval is
within the margin, a difference if it excludes 1. For normal logarithms and pairs it is exact: for a given
estimate of the variance the mean is normal, and the estimate is a chi-square variable, which is averaged
over. For unpaired runs, Welch's degrees of freedom are slightly fewer than the 2(n − 1) used here: less than
one run.

The spread itself is known only as well as its runs allow (with 3 runs per side it may be off by a factor of
2), so the answer is a range: from both ends of the chi-square interval of the variance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import variance
from typing import TYPE_CHECKING, Literal

from assay.analyse.statistics.intervals import LogInterval
from assay.records import RunsNeeded, RunsRange

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POWER = 0.8
SPREAD_CONFIDENCE = 0.8  # of the range: one set in ten needs fewer, one in ten more
MOST = 10_000  # runs per side; beyond, nobody runs them
FEWEST = 3  # with two runs, the spread rests on one difference
_STEPS = 64  # of the average over the variance; compared with 4,000 steps, power differs by less than 0.002


@dataclass(frozen=True)
class Spread:
    """What determines the width of an interval, on the log scale.

    variance  such that the standard error of the log-ratio from n runs per side is √(variance / n): that of
              the differences of pairs, or the sum of A's and B's
    degrees   of freedom of its estimate
    paired    from pairs: n − 1 degrees of freedom for n, else 2(n − 1)
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


def of_sides(a: Sequence[float], b: Sequence[float], worth: float = 1.0) -> Spread:
    """From logarithms of unpaired runs, at least two per side; degrees by Satterthwaite.

    worth  share of the runs that count as independent
    """
    of_a, of_b = variance(a), variance(b)
    degrees = (of_a + of_b) ** 2 / (of_a**2 / (len(a) - 1) + of_b**2 / (len(b) - 1))
    return Spread((of_a + of_b) / worth, max(degrees * worth, 1.0), paired=False)


def of_interval(interval: LogInterval, a: int, b: int, *, paired: bool) -> Spread:
    """From an interval over this many runs of each side, with all that it allows for."""
    error, degrees = interval.error or 0.0, interval.degrees or 1.0
    return Spread(error**2 * 2 / (1 / a + 1 / b), degrees, paired)


def runs_needed(
    spread: Spread,
    margin: float,
    confidence: float = 0.95,
    *,
    replication: Literal["runs", "sessions"] = "runs",
) -> RunsNeeded:
    """Runs per side for 80 % power, for both of the relevant truths.

    margin       share that counts as equal; the difference to detect is twice as large
    confidence   of the intervals that will give the verdict
    replication  what the spread is of, and what is counted
    """
    return RunsNeeded(
        if_equal=_range(equivalence_power, spread, margin, confidence),
        if_twice_the_margin=_range(difference_power, spread, margin, confidence),
        spread=math.expm1(math.sqrt(spread.variance / 2)),
        power=POWER,
        of=replication,
    )


Power = Callable[[int, float, float, bool, float], float]


def equivalence_power(
    n: int, variance: float, margin: float, paired: bool, confidence: float = 0.95
) -> float:
    """Probability that the interval from n runs per side is within the margin if the true ratio is 1."""
    from scipy.special import ndtr

    error, halves = _intervals(n, variance, paired, confidence)
    room = (math.log1p(margin) - halves).clip(min=0) / error
    return float((2 * ndtr(room) - 1).mean())


def difference_power(n: int, variance: float, margin: float, paired: bool, confidence: float = 0.95) -> float:
    """Probability that the interval from n runs per side is above 1 if the true ratio is 1 + 2 margins."""
    from scipy.special import ndtr

    error, halves = _intervals(n, variance, paired, confidence)
    return float(ndtr((math.log1p(2 * margin) - halves) / error).mean())


def _intervals(n: int, variance: float, paired: bool, confidence: float) -> tuple[float, NDArray[np.float64]]:
    """True standard error, and half-widths of intervals from n runs, equally probable."""
    from scipy.special import stdtrit

    degrees = n - 1 if paired else 2 * (n - 1)
    error = math.sqrt(variance / n)
    return error, float(stdtrit(degrees, (1 + confidence) / 2)) * error * _spread_ratios(degrees)


@lru_cache(maxsize=4096)
def _spread_ratios(degrees: int) -> NDArray[np.float64]:
    """Equally probable ratios of the estimated to the true standard deviation."""
    import numpy as np
    from scipy.special import chdtri

    ratios: NDArray[np.float64] = np.sqrt(chdtri(degrees, (np.arange(_STEPS) + 0.5) / _STEPS) / degrees)
    return ratios


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
