"""Whether similar members are one population, or two of which each has its own level.

Members are split where the medians of both sides are furthest apart, in interquartile ranges within the
sides. Each side has at least an eighth of the members: fewer may be outliers. The statistic doesn't depend on
how far outliers are away.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST = 24  # members, of which an eighth still has quartiles
_OF_NORMAL = 1.349  # standard deviations between the quartiles of normal values
BY_CHANCE = 0.005  # share of single populations that are split
# Members → the greatest separation that this share exceeds: the largest found for the laws of
# benchmarks/slow_nodes.py, which generates it.
_TABLE: dict[int, float] = {
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

    if len(values) < FEWEST:
        return None
    ordered = np.sort(values)
    separated = separations(ordered)
    best = int(np.argmax(separated))
    critical = np.interp(math.log(len(values)), [math.log(size) for size in _TABLE], list(_TABLE.values()))
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
