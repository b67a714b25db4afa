"""Which of many similar members are too low, with a joint false-alarm rate over all of them.

The slow side of a healthy crowd is expected to look like its fast side, which faults don't change: nothing is
faster because it is broken. A member is named if it is further below the median than a constant times the
crowd's reach. The reach is the spread of the members; the more of them there are, the more it follows the
tail of their fast side. 8 members show little more than how widely they spread; 64 also show how heavy their
tail is. No single fast member determines the reach, and no tail counts as heavier than Student's t with 3
degrees of freedom.

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
SMALLEST_ALARM = 0.0025  # the smallest tabulated rate
TO_SIGMA = 1.4826  # of a median absolute deviation, for normal values
_POWER_80 = 0.8416  # standard normal quantile
_HEAVIEST = 1.4  # times the cube root of the members: the tail of Student's t with 3 degrees, in spreads

RATES = (0.05, 0.025, 0.01, 0.005, SMALLEST_ALARM)
# Members → greatest slow deviation relative to the reach that is exceeded at each rate: the largest found for
# the laws of benchmarks/slow_nodes.py, which generates it.
_TABLE: dict[int, tuple[float, ...]] = {
    8: (9.13, 12.26, 17.87, 23.32, 29.07),
    9: (8.12, 10.76, 15.36, 20.0, 26.48),
    10: (7.16, 9.38, 13.13, 17.05, 22.75),
    11: (6.73, 8.72, 12.15, 15.44, 19.38),
    12: (7.16, 9.28, 12.69, 15.9, 20.24),
    13: (6.5, 8.38, 11.7, 14.96, 19.59),
    14: (6.04, 7.77, 10.79, 13.95, 17.41),
    15: (5.71, 7.31, 10.08, 12.81, 16.5),
    16: (5.86, 7.52, 10.42, 13.02, 16.79),
    20: (4.82, 6.17, 8.59, 10.87, 13.72),
    24: (4.01, 5.17, 7.03, 8.81, 10.98),
    26: (3.76, 4.88, 6.79, 8.46, 10.79),
    28: (3.4, 4.38, 5.97, 7.61, 9.55),
    32: (2.95, 3.78, 5.27, 6.66, 8.06),
    36: (2.5, 3.22, 4.31, 5.43, 6.96),
    40: (2.19, 2.82, 3.86, 4.91, 6.28),
    45: (1.89, 2.45, 3.37, 4.36, 5.42),
    64: (1.7, 2.17, 2.96, 3.77, 4.72),
    96: (1.52, 1.95, 2.67, 3.41, 4.21),
    128: (1.42, 1.81, 2.47, 3.11, 3.94),
    256: (1.23, 1.57, 2.16, 2.75, 3.46),
    500: (1.12, 1.42, 1.88, 2.4, 2.95),
    1000: (1.06, 1.35, 1.81, 2.27, 2.82),
    2000: (1.0, 1.24, 1.72, 2.14, 2.64),
    4000: (0.94, 1.17, 1.6, 1.97, 2.76),
}


@dataclass(frozen=True)
class Decision:
    """Who is too low, and the threshold.

    centre     median of all
    deviations of each from it, in the given order
    limit      deviation below the center from which a member is named; None if none can be judged
    low        indices of those named, lowest first
    scatter    standard deviation of the healthy, from the median absolute deviation
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


def too_low(values: Sequence[float], false_alarm: float = FALSE_ALARM) -> Decision:
    """Those that are further below the median than healthy ones are.

    values       one per member, greater is better, on a scale where members differ by sums (logarithms)
    false_alarm  share of crowds with only healthy members in which any is named: at most, with tails up to
                 Student's t with 3 degrees of freedom

    Raises ValueError if there are no values, or for a rate outside the table.

    >>> too_low([0.00, 0.01, -0.01, 0.02, -0.02, 0.00, 0.01, -0.01, -0.50]).low
    (8,)
    """
    if not SMALLEST_ALARM <= false_alarm <= FALSE_ALARM:
        raise ValueError(f"a false-alarm rate of {false_alarm:g} is not tabulated")
    import numpy as np

    centre = median(values)
    deviations = tuple(value - centre for value in values)
    scatter = TO_SIGMA * median(map(abs, deviations))
    fastest, reason = max(deviations), _why_not(np.array(deviations))
    if reason:
        return Decision(centre, deviations, None, (), scatter, fastest, reason)
    limit = constant(len(values), false_alarm) * float(reach(np.array(deviations)))
    low = [at for at, deviation in enumerate(deviations) if deviation < -limit]
    low.sort(key=deviations.__getitem__)
    return Decision(centre, deviations, limit, tuple(low), scatter, fastest)


def tail_weight(members: int) -> float:
    """How much of the reach follows the fast tail: 0 for 8 members, 1 for 25, 1.5 from 45 on."""
    return min(1.5, 2 * math.log10(members / FEWEST))


def reach(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far a crowd strays, in the unit of `deviations[..., member]` from its median.

    spread * (two fastest / spread) ** weight.
    """
    import numpy as np

    members = deviations.shape[-1]
    fast, width = _fast(deviations), spread(deviations)
    tail = np.minimum(np.sqrt(fast[..., 0] * fast[..., 1]) / width, _HEAVIEST * np.cbrt(members))
    result: NDArray[np.float64] = width * tail ** tail_weight(members)
    return result


def spread(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Root mean square of the crowd without its most distant quarter.

    With few members, that of both sides, but at most twice that of the fast side: more than a quarter may be
    slow. With more members, that of the fast side, which slow ones don't affect.
    """
    import numpy as np

    members, fast = deviations.shape[-1], _fast(deviations)
    of_fast = _root_mean_square(fast[..., fast.shape[-1] // 4 :])
    if tail_weight(members) >= 1:
        return of_fast
    nearest = np.sort(np.abs(deviations), axis=-1)[..., : members - members // 4]
    result: NDArray[np.float64] = np.minimum(_root_mean_square(nearest), 2 * of_fast)
    return result


def _fast(deviations: NDArray[np.float64]) -> NDArray[np.float64]:
    """Those above the median, fastest first."""
    import numpy as np

    return np.sort(deviations, axis=-1)[..., ::-1][..., : deviations.shape[-1] // 2]


def _root_mean_square(values: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    result: NDArray[np.float64] = np.sqrt(np.mean(values**2, axis=-1))
    return result


def _why_not(deviations: NDArray[np.float64]) -> str:
    n = deviations.size
    if n < FEWEST:
        return f"there are {n}; from {FEWEST} on, slow ones can be identified"
    if n > MOST:
        return f"there are {n}; false-alarm rates are tabulated up to {MOST}"
    if spread(deviations) < ROUNDING:
        return "nearly all have the same value: how healthy ones differ is hidden by its resolution"
    return ""


def constant(members: int, false_alarm: float) -> float:
    """How many times its reach a healthy crowd's slow side exceeds at this rate."""
    import numpy as np

    sizes, rows = [math.log(size) for size in _TABLE], zip(*_TABLE.values(), strict=True)
    of_rates = [float(np.interp(math.log(members), sizes, row)) for row in rows]
    rates = [-math.log(rate) for rate in RATES]
    return float(np.interp(-math.log(false_alarm), rates, of_rates))
