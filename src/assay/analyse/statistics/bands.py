"""Sizes of one curve compared in one band: the number of independent claims they are equivalent to.

An exchange is measured at twenty sizes in the same runs, and a lucky run is lucky at most of them.
So the sizes' errors are correlated, and a band that holds at all sizes in 95 % of cases can be narrower than
one for twenty independent claims. The correlation is estimated from the runs: the mean correlation of
the sizes' deviations from their means. With it, the minimum p over the sizes is simulated for the design
(runs, pairs, sizes), and converted to the number of independent claims that err as often (Šidák's formula,
solved for it). A negative mean correlation counts as 0, others are rounded down.

For how often the band misses under several kinds of correlation, see
tests/analyse/statistics/test_bands.py and docs/how-to/communication.md.
Sources: Šidák, JASA 62 (1967) 626-633; Westfall and Young, Resampling-Based Multiple Testing (1993), ch. 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from assay.records import SizeCurve

LEAST_SIZES: Final = 4
_STEP: Final = 0.05  # of the correlation, to limit the number of designs to simulate
_DRAWS: Final = 20_000
_SEED: Final = 20_251_121
_LEVELS: Final = (0.05, 0.01)  # the number differs little between them; the larger one counts
Replicates = tuple[Sequence[float], Sequence[float]]  # logarithms of A and of B
Array = Any  # a numpy array; numpy itself is imported where it is used


def along(sizes: Sequence[Replicates], *, paired: bool) -> SizeCurve | None:
    """The number of independent claims of a curve's sizes; None if they are too few for a curve.

    sizes   the replicates of each, of A and of B, in the same order of runs at every size
    paired  A and B of the same block have the same index

    If sizes have different numbers of runs, their correlation is unknown and assumed to be zero.
    """
    if len(sizes) < LEAST_SIZES:
        return None
    counts = {(len(a), len(b)) for a, b in sizes}
    a, b = min(counts)
    if min(a, b) < 2:
        return None
    correlation = _correlation(sizes, paired=paired) if len(counts) == 1 else 0.0
    steps = max(0, math.floor(correlation / _STEP))
    return SizeCurve(len(sizes), _independent(len(sizes), a, b, paired, steps))


def _correlation(sizes: Sequence[Replicates], *, paired: bool) -> float:
    """Mean correlation of the runs' deviations from their size's mean, over all pairs of sizes.

    Sizes whose runs all have the same value don't count.
    """
    import numpy as np

    left, right = (np.array([side[index] for side in sizes]) for index in (0, 1))  # sizes × runs
    parts = [right - left] if paired else [left, right]
    residuals = np.concatenate([part - part.mean(axis=1, keepdims=True) for part in parts], axis=1)
    scale = np.sqrt((residuals**2).mean(axis=1))
    z = residuals[scale > 0] / scale[scale > 0][:, None]
    if len(z) < 2:
        return 0.0
    return float(((z.sum(axis=0) ** 2).mean() / len(z) - 1) / (len(z) - 1))


@cache
def _independent(sizes: int, a: int, b: int, paired: bool, steps: int) -> float:
    """Independent claims that err as often as this many equally correlated ones, at least 1."""
    import numpy as np

    least = _least_p(sizes, a, b, paired, min(steps * _STEP, 0.95))
    worth = [math.log1p(-level) / math.log1p(-float(np.quantile(least, level))) for level in _LEVELS]
    return min(float(sizes), max(1.0, *worth))


def _least_p(sizes: int, a: int, b: int, paired: bool, correlation: float) -> Array:
    """The minimum two-sided p over the sizes in many draws without any difference."""
    import numpy as np
    from scipy.special import stdtr

    dice = np.random.default_rng(_SEED)

    def moments(runs: int) -> tuple[Array, Array]:
        total = np.zeros((_DRAWS, sizes))
        squares = np.zeros((_DRAWS, sizes))
        for _ in range(runs):
            common = dice.standard_normal((_DRAWS, 1)) * math.sqrt(correlation)
            own = dice.standard_normal((_DRAWS, sizes)) * math.sqrt(1 - correlation)
            total += common + own
            squares += (common + own) ** 2
        return total / runs, (squares - total**2 / runs) / (runs - 1) / runs

    if paired:
        mean, variance = moments(min(a, b))
        t, degrees = mean / np.sqrt(variance), min(a, b) - 1
    else:
        (mean_a, of_a), (mean_b, of_b) = moments(a), moments(b)
        t = (mean_b - mean_a) / np.sqrt(of_a + of_b)
        degrees = (of_a + of_b) ** 2 / (of_a**2 / (a - 1) + of_b**2 / (b - 1))
    return (2 * stdtr(degrees, -np.abs(t))).min(axis=1)
