"""Which of many similar members are too low, with a joint false-alarm rate over all of them.

Some of the lowest are set aside, and the rest shows how far healthy members stray: its spread and, the more
members there are, the tails on both of its sides. They are named if even the highest of them is further below
the median of the rest than a constant times that reach. The most for which this holds are named, so that slow
members don't hide each other. 8 members show little more than how widely they spread; 64 also show how heavy
their tails are. No single fast member determines the reach.

docs/explanation/statistics.md has rates and power next to those of other rules, and the limits of both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from assay.analyse.statistics.intervals import ROUNDING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FALSE_ALARM = 0.05  # share of crowds without a low member in which one is named
FEWEST = 8
MOST = 4_000
SMALLEST_ALARM = 0.00125  # the smallest tabulated rate
TO_SIGMA = 1.4826  # of a median absolute deviation, for normal values
_POWER_80 = 0.8416  # standard normal quantile
_HEAVIEST = 1.4  # times the cube root of the members: the tail of Student's t with 3 degrees, in spreads
_HEAVIEST_OF_FEW = 8.0

RATES = (0.05, 0.025, 0.01, 0.005, 0.0025, SMALLEST_ALARM)
# Members → the distance from the rest, relative to its reach, that is exceeded at each rate: the largest
# found for the laws of benchmarks/slow_nodes.py, which generates it.
_TABLE: dict[int, tuple[float, ...]] = {
    8: (5.89, 7.49, 10.16, 12.68, 15.85, 19.67),
    9: (5.88, 7.44, 10.15, 12.66, 16.32, 21.31),
    10: (5.22, 6.55, 8.97, 11.36, 14.64, 18.91),
    11: (4.83, 6.07, 8.19, 10.32, 12.74, 15.87),
    12: (4.44, 5.6, 7.57, 9.57, 11.86, 14.51),
    13: (4.14, 5.2, 7.16, 9.04, 11.63, 14.76),
    14: (3.9, 4.93, 6.73, 8.5, 10.87, 13.78),
    15: (3.72, 4.68, 6.35, 7.91, 10.16, 12.79),
    16: (3.57, 4.51, 6.14, 7.79, 9.78, 12.27),
    20: (3.12, 3.98, 5.44, 6.84, 8.82, 11.48),
    24: (2.74, 3.45, 4.68, 5.93, 7.3, 8.99),
    26: (2.59, 3.27, 4.47, 5.62, 7.14, 9.02),
    28: (2.42, 3.06, 4.15, 5.22, 6.56, 8.05),
    32: (2.2, 2.78, 3.76, 4.79, 6.05, 7.4),
    36: (1.99, 2.5, 3.35, 4.22, 5.2, 6.8),
    40: (1.82, 2.3, 3.14, 3.96, 5.0, 6.28),
    45: (1.65, 2.07, 2.82, 3.62, 4.64, 5.75),
    64: (1.19, 1.47, 2.0, 2.49, 3.05, 3.8),
    96: (1.09, 1.37, 1.87, 2.33, 2.97, 3.65),
    128: (1.04, 1.3, 1.74, 2.17, 2.77, 3.4),
    256: (1.0, 1.28, 1.73, 2.16, 2.71, 3.52),
    500: (0.89, 1.13, 1.52, 1.88, 2.36, 2.97),
    1000: (0.82, 1.02, 1.34, 1.76, 2.1, 2.74),
    2000: (0.81, 1.01, 1.33, 1.62, 1.97, 2.32),
    4000: (0.77, 0.91, 1.28, 1.59, 2.11, 2.57),
}


@dataclass(frozen=True)
class Decision:
    """Who is too low, and the threshold.

    centre     median of those that are not
    deviations of each from it, in the given order
    limit      deviation below the center from which a member is named; None if none can be judged
    low        indices of those named, lowest first
    scatter    standard deviation of the others, from the median absolute deviation
    fastest    greatest deviation above the center
    reason     why none can be judged; "" if they were
    """

    centre: float
    deviations: tuple[float, ...]
    limit: float | None
    low: tuple[int, ...]
    scatter: float
    fastest: float
    reason: str = ""

    @property
    def found_in_80_percent(self) -> float | None:
        """How far below the center a member has to be, to be named in 80 of 100 cases."""
        return None if self.limit is None else self.limit + _POWER_80 * self.scatter


def too_low(values: Sequence[float], false_alarm: float = FALSE_ALARM, least: float = 0.0) -> Decision:
    """Those that are further below the median than healthy ones are.

    values       one per member, greater is better, on a scale where members differ by sums (logarithms)
    false_alarm  share of crowds with only healthy members in which any is named: at most, with tails up to
                 Student's t with 3 degrees of freedom
    least        deviation that is never named, however alike the others are

    Raises ValueError if there are no values, or for a rate outside the table.

    >>> too_low([0.00, 0.01, -0.01, 0.02, -0.02, 0.00, 0.01, -0.01, -0.50]).low
    (8,)
    """
    if not SMALLEST_ALARM <= false_alarm <= FALSE_ALARM:
        raise ValueError(f"a false-alarm rate of {false_alarm:g} is not tabulated")
    import numpy as np

    order = np.argsort(values, kind="stable")
    ordered = np.array(values, dtype=float)[order]
    reason = _why_not(ordered)
    if reason:
        return _decision(values, 0, order, None, reason)
    rest = rests(ordered)
    limits = np.maximum(constant(len(values), false_alarm) * rest.reach, least)
    apart = (rest.below[1:] > limits[1:]) & (rest.reach[1:] > ROUNDING)
    count = int(np.flatnonzero(apart)[-1]) + 1 if apart.any() else 0
    return _decision(values, count, order, float(limits[count]), "")


def _decision(
    values: Sequence[float], count: int, order: NDArray[np.intp], limit: float | None, reason: str
) -> Decision:
    """The lowest `count` members are named."""
    others = [values[index] for index in order[count:]]
    centre = median(others)
    scatter = TO_SIGMA * median(abs(value - centre) for value in others)
    deviations = tuple(value - centre for value in values)
    low = tuple(order[:count].tolist())
    return Decision(centre, deviations, limit, low, scatter, max(deviations), reason)


def tail_weight(members: int) -> float:
    """How much of the reach follows the tails: half for 8 members, 1 for 23, 1.5 from 65 on."""
    return min(1.5, 0.5 + 1.1 * math.log10(members / FEWEST))


@dataclass(frozen=True)
class Rests:
    """What remains of crowds without their lowest members: `[..., k]` without the k lowest, up to half.

    below  how far the k-th lowest is below the median of the rest; of the lowest for k = 0
    reach  how far the rest strays from its median
    """

    below: NDArray[np.float64]
    reach: NDArray[np.float64]


def rests(ordered: NDArray[np.float64]) -> Rests:
    """The rests of crowds `ordered[..., member]`, ascending.

    The reach is spread · (tail / spread) ** weight. The spread is the root mean square of the rest without an
    eighth at each end, and without its fastest; the tail is the geometric mean of its two greatest distances
    from the median, on whichever side.
    """
    import numpy as np

    members = ordered.shape[-1]
    aside = np.arange((members - 1) // 2 + 1)
    size = members - aside
    centre = (ordered[..., aside + (size - 1) // 2] + ordered[..., aside + size // 2]) / 2
    first, last = aside + size // 8, members - np.maximum(size // 8, 1)
    middle = ordered[..., members // 2, None]  # sums of squares about it keep their digits
    start = np.zeros((*ordered.shape[:-1], 1))
    sums = np.concatenate([start, np.cumsum(ordered - middle, axis=-1)], axis=-1)
    squares = np.concatenate([start, np.cumsum((ordered - middle) ** 2, axis=-1)], axis=-1)
    off, count = centre - middle, last - first
    within = squares[..., last] - squares[..., first] - 2 * off * (sums[..., last] - sums[..., first])
    spread = np.sqrt(np.maximum(within / count + off**2, ROUNDING**2))
    slow = centre - ordered[..., aside], centre - ordered[..., aside + 1]
    fast = ordered[..., -1:] - centre, ordered[..., -2:-1] - centre
    greatest = np.sort(np.stack([*slow, *fast]), axis=0)
    tail = np.sqrt(np.maximum(greatest[-1] * greatest[-2], ROUNDING**2)) / spread
    heaviest = max(_HEAVIEST * members ** (1 / 3), _HEAVIEST_OF_FEW)
    reach = spread * np.minimum(tail, heaviest) ** tail_weight(members)
    return Rests(centre - ordered[..., np.maximum(aside - 1, 0)], reach)


def _why_not(ordered: NDArray[np.float64]) -> str:
    import numpy as np

    n = ordered.size
    if n < FEWEST:
        return f"there are {n}; from {FEWEST} on, slow ones can be identified"
    if n > MOST:
        return f"there are {n}; false-alarm rates are tabulated up to {MOST}"
    if np.median(np.abs(ordered - np.median(ordered))) < ROUNDING:
        return "nearly all have the same value: how healthy ones differ is hidden by its resolution"
    return ""


def constant(members: int, false_alarm: float) -> float:
    """How many times its reach a healthy crowd's slow side exceeds at this rate."""
    import numpy as np

    sizes, rows = [math.log(size) for size in _TABLE], zip(*_TABLE.values(), strict=True)
    of_rates = [float(np.interp(math.log(members), sizes, row)) for row in rows]
    rates = [-math.log(rate) for rate in RATES]
    return float(np.interp(-math.log(false_alarm), rates, of_rates))


FEWEST_OF_TWO = 24  # members, of which an eighth still has quartiles
_OF_NORMAL = 1.349  # standard deviations between the quartiles of normal values
BY_CHANCE = 0.005  # share of single populations that are split
# Members → the greatest separation that this share exceeds: the largest found for the laws of
# benchmarks/slow_nodes.py, which generates it.
_SEPARATIONS: dict[int, float] = {
    24: 8.92,
    28: 7.73,
    32: 7.52,
    36: 6.91,
    40: 6.77,
    45: 6.19,
    64: 5.58,
    96: 4.95,
    128: 4.64,
    256: 4.04,
    500: 3.7,
    1000: 3.5,
    2000: 3.34,
    4000: 3.22,
}


def lower_population(values: Sequence[float]) -> list[int] | None:
    """Indices of the members of the lower of two populations; None if there is one, or fewer than `FEWEST`.

    Each member belongs to the population whose median is nearer.
    """
    import numpy as np

    if len(values) < FEWEST_OF_TWO:
        return None
    ordered = np.sort(values)
    separated = separations(ordered)
    best = int(np.argmax(separated))
    critical = np.interp(
        math.log(len(values)), [math.log(size) for size in _SEPARATIONS], list(_SEPARATIONS.values())
    )
    if separated[best] <= critical:
        return None
    below = smallest_side(len(values)) + best
    border = (np.median(ordered[:below]) + np.median(ordered[below:])) / 2
    return [index for index, value in enumerate(values) if value < border]


def smallest_side(members: int) -> int:
    """An eighth of the members."""
    return -(-members // 8)


def separations(ordered: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far apart both sides are, `[..., split]`, for crowds `ordered[..., member]`, ascending.

    The distance of their medians, relative to the mean of their interquartile ranges by their sizes, as
    standard deviations of normal values, which count as the smallest step between two values at least.
    """
    import numpy as np

    members = ordered.shape[-1]
    below = np.arange(smallest_side(members), members - smallest_side(members) + 1)
    above = members - below

    def quantile(first: NDArray[np.intp], size: NDArray[np.intp], share: float) -> NDArray[np.float64]:
        place = first + (size - 1) * share
        floor = np.floor(place).astype(int)
        beyond = place - floor
        upper = ordered[..., np.minimum(floor + 1, members - 1)]
        quantiles: NDArray[np.float64] = ordered[..., floor] * (1 - beyond) + upper * beyond
        return quantiles

    start = np.zeros_like(below)
    apart = quantile(below, above, 0.5) - quantile(start, below, 0.5)
    within = sum(
        (quantile(first, size, 0.75) - quantile(first, size, 0.25)) * size
        for first, size in ((start, below), (below, above))
    )
    steps = np.diff(ordered, axis=-1)
    step = np.where(steps > 0, steps, np.inf).min(axis=-1, keepdims=True)
    distances: NDArray[np.float64] = apart / np.maximum(within / members / _OF_NORMAL, step)
    return distances
