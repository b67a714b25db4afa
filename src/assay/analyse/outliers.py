"""Which of many alike are too low: a decision whose false alarms are held over all of them together.

A healthy crowd's slow side is expected to look like its fast side, which faults leave alone: nothing is
faster for being broken. So how far healthy members stray is read off the fast side, however heavy its tail:
the greatest deviation there, stretched by as much as it exceeds a lesser one. With heavy tails this stretches
far, with normal ones hardly: among 1,000 normal members a loss of 5.4 standard deviations is named, where the
median and the median absolute deviation, held against the same tails, would need 25.

What it can't bear: a healthy crowd that has a longer slow side than fast side (docs/statistics.md tells how
far the rate rises), and members that are far too fast, which hide slow ones: `Decision.fastest` shows them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from assay.analyse.intervals import ROUNDING

FALSE_ALARM = 0.05  # of crowds without any low member, those of which one is named
FEWEST = 8
MOST = 4_000
SMALLEST_ALARM = 0.0025  # the rate that is tabulated last
TO_SIGMA = 1.4826  # of a median absolute deviation, for normal values
_POWER_80 = 0.8416  # standard normal quantile

RATES = (0.05, 0.025, 0.01, 0.005, SMALLEST_ALARM)
# Members → greatest slow deviation over the fast side's reach that is exceeded at each rate: the largest
# found for normal, Laplace's and Student's t with 3 degrees of freedom; benchmarks/slow_nodes.py makes it.
_TABLE: dict[int, tuple[float, ...]] = {
    8: (3.03, 4.22, 6.19, 8.22, 10.74),
    15: (2.19, 2.93, 4.16, 5.4, 6.69),
    19: (1.8, 2.41, 3.35, 4.3, 5.48),
    23: (1.55, 2.06, 2.9, 3.72, 4.83),
    27: (1.38, 1.84, 2.61, 3.35, 4.27),
    31: (1.25, 1.67, 2.31, 2.98, 3.86),
    39: (1.09, 1.44, 2.0, 2.58, 3.25),
    47: (0.97, 1.28, 1.79, 2.25, 2.85),
    63: (0.82, 1.08, 1.52, 1.92, 2.45),
    79: (0.73, 0.95, 1.34, 1.72, 2.21),
    80: (0.7, 0.91, 1.26, 1.62, 2.05),
    120: (0.85, 1.12, 1.55, 2.0, 2.53),
    200: (0.98, 1.27, 1.76, 2.22, 2.82),
    500: (1.09, 1.4, 1.91, 2.42, 3.09),
    1000: (1.15, 1.48, 2.0, 2.56, 3.18),
    4000: (1.15, 1.49, 2.01, 2.42, 3.28),
}


@dataclass(frozen=True)
class Decision:
    """Who is too low, and who would have been.

    centre     median of all
    deviations of each from it, in the order asked
    limit      deviation below the centre from which a member is named; None where none can be judged
    low        indices of those named, lowest first
    scatter    standard deviation of the healthy, from the median absolute deviation
    fastest    greatest deviation above the centre
    reason     why none can be judged; "" where they were
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
        """How far below the centre a member has to lie to be named in 80 of 100 cases."""
        return None if self.limit is None else self.limit + _POWER_80 * self.scatter


def too_low(values: Sequence[float], false_alarm: float = FALSE_ALARM) -> Decision:
    """Those that lie further below the median than healthy ones do.

    values       one for each member, greater is better, on a scale where members differ by sums (logarithms)
    false_alarm  of crowds where all are healthy, the share of which any is named: at most, with tails up to
                 Student's t with 3 degrees of freedom

    Raises ValueError for no values, or a rate outside of what was tabulated.

    >>> too_low([0.00, 0.01, -0.01, 0.02, -0.02, 0.00, 0.01, -0.01, -0.50]).low
    (8,)
    """
    if not SMALLEST_ALARM <= false_alarm <= FALSE_ALARM:
        raise ValueError(f"a false alarm rate of {false_alarm:g} is not tabulated")
    centre = median(values)
    deviations = tuple(value - centre for value in values)
    scatter = TO_SIGMA * median(map(abs, deviations))
    fastest, reason = max(deviations), _why_not(deviations)
    if reason:
        return Decision(centre, deviations, None, (), scatter, fastest, reason)
    limit = constant(len(values), false_alarm) * reach(deviations)
    low = [at for at, deviation in enumerate(deviations) if deviation < -limit]
    low.sort(key=deviations.__getitem__)
    return Decision(centre, deviations, limit, tuple(low), scatter, fastest)


def lesser(members: int) -> int:
    """Which of the greatest deviations tells how heavy the tail is: counted from the greatest, 1."""
    return max(2, min(20, members // 4))


def reach(deviations: Sequence[float]) -> float:
    """How far the fast side strays: its greatest deviation, times what it exceeds a lesser one by."""
    fast = sorted(deviations, reverse=True)
    return fast[0] ** 2 / fast[lesser(len(fast)) - 1]


def _why_not(deviations: Sequence[float]) -> str:
    n = len(deviations)
    if n < FEWEST:
        return f"{n} alike; who of them is too slow can be told from {FEWEST} on"
    if n > MOST:
        return f"{n} alike; false alarms are tabulated up to {MOST}"
    if sorted(deviations, reverse=True)[lesser(n) - 1] < ROUNDING:
        return "nearly all have the same value: how healthy ones differ is hidden by its resolution"
    return ""


def constant(members: int, false_alarm: float) -> float:
    """How many times the fast side's reach a healthy crowd's slow side exceeds at this rate."""
    import numpy as np

    sizes, rows = [math.log(size) for size in _TABLE], zip(*_TABLE.values(), strict=True)
    of_rates = [float(np.interp(math.log(_step_end(members)), sizes, row)) for row in rows]
    rates = [-math.log(rate) for rate in RATES]
    return float(np.interp(-math.log(false_alarm), rates, of_rates))


def _step_end(members: int) -> int:
    """The size of the same `lesser` that has the largest constant: it jumps where that does."""
    if members < 12:
        return FEWEST
    return members if members >= 80 else 4 * (members // 4) + 3
