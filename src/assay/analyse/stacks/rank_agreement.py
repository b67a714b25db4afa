"""How well one figure's steps order like another's: Kendall's rank correlation, with its interval.

A step is what one change, such as a package's next version, does to both figures. Levels can't be
correlated: a version has what its predecessors had, so that two figures which know nothing of each other
wander together (Yule, 1926), and any drift, such as newer being faster, orders them alike. Steps are free of
both: only how they differ from one another counts. Two steps agree if both figures put the same one first.
The correlation is the share of pairs that agree less the share that doesn't.

The interval is Fisher's of the correlation, with Fieller, Hartley and Pearson's standard error and Student's
quantiles, which few steps need. Neighboring steps share a version: where versions do not build on one
another, their steps correlate by -1/2 in both figures, which makes the variance 1 + 2/4 times as large
(Bartlett, 1946). That is assumed always, because few steps can't show which it is. If all pairs agree, half
a pair less than 1 stands for the correlation.

Source: Fieller, Hartley and Pearson, Biometrika 44 (1957) 470-481: variance 0.437 / (n - 4).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

from assay.analyse.statistics.intervals import t_quantile
from assay.records import Estimate

FEWEST: Final = 6  # steps that allow an interval
_VARIANCE: Final = 0.437
_SHARED: Final = 1.5  # by which steps that share versions raise the variance, at most


def rank_correlation(steps: Sequence[tuple[float, float]], confidence: float = 0.95) -> Estimate | None:
    """Kendall's correlation of steps in two figures; None of fewer than 2, no interval of fewer than 6."""
    signs = [_sign(a[0] - b[0]) * _sign(a[1] - b[1]) for a, b in itertools.combinations(steps, 2)]
    if not signs:
        return None
    n, value = len(steps), sum(signs) / len(signs)
    if n < FEWEST:
        return Estimate(value, None, None, n, "", confidence)
    most = 1 - 2 / (n * (n - 1))
    centre = math.atanh(max(-most, min(most, value)))
    half = t_quantile((1 + confidence) / 2, n - 2) * math.sqrt(_SHARED * _VARIANCE / (n - 4))
    low = -1.0 if value <= -most else math.tanh(centre - half)
    high = 1.0 if value >= most else math.tanh(centre + half)
    return Estimate(value, low, high, n, "", confidence)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def agreement(correlation: float) -> float:
    """The chance that two steps are ordered alike.

    >>> agreement(0.8)
    0.9
    """
    return (1 + correlation) / 2
