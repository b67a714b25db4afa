"""How well one figure orders stacks like another: Kendall's rank correlation, with its interval.

Two stacks agree if both figures put the same one first. The correlation is the share of pairs that agree less
the share that doesn't, so (1 + correlation) / 2 is the chance that the figures order two stacks alike.

Only pairs of one stratum count. What makes few steps, such as two thread counts, agrees by chance in every
second case, and then in all pairs across it; so stacks that differ in it are never compared. For the same
reason it is the number of independent stacks that sets the interval's width, and not the number of pairs.

The interval is Fisher's of the correlation, with Fieller, Hartley and Pearson's standard error and Student's
quantiles, which few stacks need. If all pairs agree, half a step less than 1 stands for the correlation.

Source: Fieller, Hartley and Pearson, Biometrika 44 (1957) 470-481: variance 0.437 / (n - 4).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from assay.analyse.statistics.intervals import t_quantile
from assay.records import Estimate

FEWEST: Final = 6  # independent stacks that allow an interval
_VARIANCE: Final = 0.437


@dataclass(frozen=True)
class RankedStack:
    """A stack with both of its figures, as logarithms; higher is better.

    stratum  stacks of different strata are not compared
    item     what makes it another stack than the others of its stratum: equal ones are one independent stack
    """

    stratum: Hashable
    item: Hashable
    predicted: float
    measured: float


def independent(stacks: Iterable[RankedStack]) -> int:
    """The number of different stacks among those that can be compared with another one."""
    return len({one.item for pair in _pairs(stacks) for one in pair})


def rank_correlation(stacks: Iterable[RankedStack], n: int, confidence: float = 0.95) -> Estimate | None:
    """Kendall's correlation over the pairs that can be compared; None if there are none.

    n  independent stacks, at most those that `independent` counts; with fewer than 6 there is no interval
    """
    signs = [_sign(a.predicted - b.predicted) * _sign(a.measured - b.measured) for a, b in _pairs(stacks)]
    if not signs:
        return None
    value = sum(signs) / len(signs)
    if n < FEWEST:
        return Estimate(value, None, None, n, "", confidence)
    most = 1 - 2 / (n * (n - 1))
    centre = math.atanh(max(-most, min(most, value)))
    half = t_quantile((1 + confidence) / 2, n - 2) * math.sqrt(_VARIANCE / (n - 4))
    low = -1.0 if value <= -most else math.tanh(centre - half)
    high = 1.0 if value >= most else math.tanh(centre + half)
    return Estimate(value, low, high, n, "", confidence)


def _pairs(stacks: Iterable[RankedStack]) -> Iterator[tuple[RankedStack, RankedStack]]:
    strata: dict[Hashable, list[RankedStack]] = {}
    for one in stacks:
        strata.setdefault(one.stratum, []).append(one)
    for of in strata.values():
        yield from ((a, b) for a, b in itertools.combinations(of, 2) if a.item != b.item)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def agreement(correlation: float) -> float:
    """The chance that two stacks are ordered alike.

    >>> agreement(0.8)
    0.9
    """
    return (1 + correlation) / 2
