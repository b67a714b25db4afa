"""The highest rate that still holds, found by trial runs: for LoadGen's Server scenario."""

from __future__ import annotations

import math
from collections.abc import Callable


def highest(holds: Callable[[float], bool], first: float, *, within: float, most_steps: int) -> float | None:
    """The largest rate that was seen to hold, with a rate seen not to hold at most `within` of it above.

    holds       tries a rate; rates below one that holds are assumed to hold, and rates above one that does
                not are assumed not to
    first       starting rate; from there doubled or halved until the limit is between two rates
    within      relative: 0.02 ends at two rates that are 2 % apart
    most_steps  maximum number of rates to try

    None if no tried rate holds. Bisection works on the logarithm: rates differ by factors.

    >>> highest(lambda rate: rate <= 70, 20, within=0.1, most_steps=20)
    67.27171322029716
    """
    low, high, rate = 0.0, math.inf, first
    for _ in range(most_steps):
        if holds(rate):
            low = rate
        else:
            high = rate
        if low and high <= low * (1 + within):
            break
        if not low:
            rate = high / 2
        elif math.isinf(high):
            rate = low * 2
        else:
            rate = math.sqrt(low * high)
    return low or None
