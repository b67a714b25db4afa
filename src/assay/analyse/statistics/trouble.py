"""Tests for what makes runs no independent replicates: drift, dependence, two modes, an outlier.

Each takes logarithms in the order of the runs and gives a probability: how often independent
and normal runs look at least as suspicious. Two modes have no distribution in closed form: theirs is
simulated in benchmarks/doubts.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.analyse.statistics.intervals import ROUNDING, constant

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Rows = NDArray[np.float64]
    Row = NDArray[np.float64]


FEWEST_FOR_DRIFT = 3
FEWEST_FOR_DEPENDENCE = 7
FEWEST_FOR_MODES = 5
FEWEST_BESIDE_LINE = 5


def drift(logs: Sequence[float]) -> tuple[float, float] | None:
    """Change from the first run to the last by the line through them, and its two-sided probability.

    None for fewer than three runs, or if all are equal. t test of the slope, n − 2 degrees of freedom.
    """
    n = len(logs)
    if n < FEWEST_FOR_DRIFT or constant(logs):
        return None

    import numpy as np
    from scipy.special import stdtr

    t = np.arange(n) - (n - 1) / 2
    x = np.asarray(logs) - np.mean(logs)
    slope = float(x @ t / (t @ t))
    rest = float(x @ x) - slope**2 * float(t @ t)
    if rest < n * ROUNDING**2:
        return slope * (n - 1), 0.0
    size = abs(slope) * math.sqrt(float(t @ t) / (rest / (n - 2)))
    return slope * (n - 1), 2 * float(stdtr(n - 2, -size))


def lag1(logs: Sequence[float]) -> tuple[float, float] | None:
    """Correlation of a run with the next one, and the one-sided probability of this correlation or more.

    None for fewer than seven runs, or if all are equal. For independent normal runs, the ratio of squared
    successive differences to squared deviations has mean 2 and variance 4(n − 2)/(n² − 1) on a known range; a
    beta distribution with this range and variance approximates it. With fewer than seven runs its tail is
    too thin (1.9 % instead of 1.25 % at n = 5), and there is next to nothing to see.
    Source: von Neumann, Annals of Mathematical Statistics 12 (1941) 367-395.
    """
    n = len(logs)
    if n < FEWEST_FOR_DEPENDENCE or constant(logs):
        return None

    import numpy as np
    from scipy.special import betainc

    x = np.asarray(logs) - np.mean(logs)
    ratio = float(np.sum(np.diff(x) ** 2) / (x @ x))
    least = 4 * math.sin(math.pi / (2 * n)) ** 2
    width = 4 - 2 * least
    power = (width**2 * (n * n - 1) / (16 * (n - 2)) - 1) / 2
    place = min(1.0, max(0.0, (ratio - least) / width))
    return float(np.sum(x[1:] * x[:-1]) / (x @ x)), float(betainc(power, power, place))


@dataclass(frozen=True)
class Outlier:
    """The run farthest from the others.

    index        its place in the sequence
    log_ratio    its logarithm minus the mean of the others
    probability  two-sided, for the farthest of n
    """

    index: int
    log_ratio: float
    probability: float


def far_off(logs: Sequence[float], lengths: Sequence[float] = ()) -> Outlier | None:
    """The run farthest from the rest, by the rest's spread; None for fewer than three, or if all are equal.

    lengths  logarithms of what may make a run longer, such as its epochs: what a line over them explains is
             not an outlier. Empty, or all equal, for none; otherwise it takes five runs

    Largest deleted residual, n − 2 degrees of freedom (n − 3 with a line), times n (Bonferroni).
    Source: Grubbs, Technometrics 11 (1969) 1-21; Cook and Weisberg, Residuals and Influence (1982) 2.2.
    """
    n, fitted = len(logs), 1 + varies(lengths)
    if n < (3 if fitted == 1 else FEWEST_BESIDE_LINE) or constant(logs):
        return None

    import numpy as np
    from scipy.special import stdtr

    x, leverage = _residuals(logs, lengths)
    free = np.maximum(1 - leverage, ROUNDING)
    off = np.where(free > 1e-9, x / free, 0.0)  # a run with a unique length is on the line
    rest = np.maximum(float(x @ x) - x * off, 0.0)
    exact = rest < n * ROUNDING**2
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.abs(off) * np.sqrt(free * (n - fitted - 1) / rest)
    size = np.where(exact, np.where(np.abs(off) > ROUNDING, np.inf, 0.0), size)
    index = int(np.argmax(size))
    probability = min(1.0, 2 * n * float(stdtr(n - fitted - 1, -size[index])))
    return Outlier(index, float(off[index]), probability)


def varies(lengths: Sequence[float]) -> bool:
    """Whether there are lengths that are not all equal."""
    return bool(lengths) and not constant(lengths)


def _residuals(logs: Sequence[float], lengths: Sequence[float]) -> tuple[Row, Row]:
    """The residuals of the logarithms from their mean, or from a line over the lengths; and the leverages."""
    import numpy as np

    x = np.asarray(logs) - np.mean(logs)
    leverage = np.full(len(logs), 1 / len(logs))
    if not varies(lengths):
        return x, leverage
    along = np.asarray(lengths) - np.mean(lengths)
    squares = float(along @ along)
    return x - along * float(x @ along) / squares, leverage + along**2 / squares


@dataclass(frozen=True)
class Modes:
    """The widest gap between two clusters of runs, each at least a fifth of the runs.

    counts  runs below and above it
    means   of both, as logarithms
    gap     its width divided by the spread within the clusters
    """

    counts: tuple[int, int]
    means: tuple[float, float]
    gap: float


def modes(logs: Sequence[float], lengths: Sequence[float] = ()) -> tuple[Modes, float] | None:
    """The widest gap, and the probability of one as wide; None for fewer than five runs or if all are equal.

    lengths  as in `far_off`: runs of two lengths are not modes. The line over them costs a run

    Zero spread gives an infinite gap.
    """
    n, worth = len(logs), len(logs) - varies(lengths)
    if worth < FEWEST_FOR_MODES or constant(logs):
        return None

    import numpy as np

    left = _residuals(logs, lengths)[0]
    if float(np.ptp(left)) < ROUNDING:
        return None
    ordered = np.sort(left)[None, :]
    gaps = gaps_over_spread(ordered)[0]
    below = smallest_cluster(n) + int(np.argmax(gaps))
    row = ordered[0]
    means = (float(np.mean(row[:below])), float(np.mean(row[below:])))
    widest = float(np.max(gaps))
    return Modes((below, n - below), means, widest), _by_chance(widest, worth)


def gaps_over_spread(ordered: Rows) -> Rows:
    """For each row of ascending values, every allowed gap divided by the pooled spread of both sides."""
    import numpy as np

    n = ordered.shape[1]
    least = smallest_cluster(n)
    below = np.arange(least, n - least + 1)
    x = ordered - ordered.mean(axis=1, keepdims=True)
    sums, squares = np.cumsum(x, axis=1), np.cumsum(x**2, axis=1)
    left, total = sums[:, below - 1], sums[:, -1:]
    within = squares[:, -1:] - left**2 / below - (total - left) ** 2 / (n - below)
    spread = np.sqrt(np.maximum(within, n * ROUNDING**2) / (n - 2))
    gaps: Rows = (x[:, below] - x[:, below - 1]) / spread
    return gaps


def smallest_cluster(n: int) -> int:
    """A fifth of the runs, at least two: a single run is not a mode, and a few can be a long tail."""
    return max(2, -(-n // 5))


def _by_chance(gap: float, n: int) -> float:
    """How often so wide a gap occurs by chance: exact at the levels of `WIDEST_BY_CHANCE`, 1 above them.

    Below them the tail continues as a power of the gap, which is up to twice the simulated probability.
    """
    (level, wide), (rarer, wider) = (
        (
            level,
            table[max(size for size in table if size <= n)],
        )  # decreases with n: the smaller n is the safe side
        for level, table in WIDEST_BY_CHANCE.items()
    )
    power = math.log(level / rarer) / math.log(wider / wide)
    return level * math.pow(wide / gap, power) if gap >= wide else 1.0


# The gap that uniform runs, the worst of normal, lognormal, t3 and uniform ones, exceed with this
# probability, by number of runs: 400,000 simulated sets each (python benchmarks/doubts.py --critical)
# fmt: off
WIDEST_BY_CHANCE: dict[float, dict[int, float]] = {
    0.0125: {
        5: 13.1, 6: 9.81, 7: 7.79, 8: 6.54, 9: 5.69, 10: 5.01, 11: 4.4, 12: 4.04, 13: 3.73, 14: 3.46,
        15: 3.25, 16: 3.01, 17: 2.84, 18: 2.69, 19: 2.56, 20: 2.43, 25: 1.96, 30: 1.66, 35: 1.43, 40: 1.27,
    },
    0.00625: {
        5: 17.2, 6: 12.3, 7: 9.5, 8: 7.85, 9: 6.72, 10: 5.87, 11: 5.11, 12: 4.66, 13: 4.29, 14: 3.97, 15: 3.7,
        16: 3.43, 17: 3.23, 18: 3.05, 19: 2.89, 20: 2.74, 25: 2.19, 30: 1.84, 35: 1.59, 40: 1.4,
    },
}
# fmt: on
