"""How well figures order stacks alike: the interval covers the truth, also where one setting dominates."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from assay.analyse.stacks.rank_agreement import (
    RankedStack,
    independent,
    rank_correlation,
)


def stacks(dice: random.Random, n: int, rho: float) -> list[RankedStack]:
    """Stacks whose two figures have this correlation; Kendall's is then 2/π·asin(rho)."""
    found = []
    for name in range(n):
        x, own = dice.gauss(0, 1), dice.gauss(0, 1)
        found.append(RankedStack((), name, x, rho * x + math.sqrt(1 - rho**2) * own))
    return found


def coverage(n: int, rho: float, tries: int = 1000) -> tuple[float, float]:
    """Shares of intervals that hold the truth, and of those above 0."""
    dice = random.Random(3)
    truth, holds, above = 2 / math.pi * math.asin(rho), 0, 0
    for _ in range(tries):
        found = rank_correlation(stacks(dice, n, rho), n)
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        holds += found.low <= truth <= found.high
        above += found.low > 0
    return holds / tries, above / tries


@pytest.mark.parametrize("n", [6, 8, 12, 25])
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_a_95_percent_interval_covers_the_truth(n: int, rho: float) -> None:
    holds, above = coverage(n, rho)
    assert holds >= 0.93  # 95 % less 3 standard errors
    if rho == 0:
        assert above <= 0.04  # 2.5 % plus 3 standard errors


def test_with_enough_stacks_a_good_indicator_is_shown_to_be_one() -> None:
    assert coverage(12, 0.9, tries=300)[1] > 0.9


def test_fewer_than_six_stacks_have_a_correlation_and_no_interval() -> None:
    found = rank_correlation([RankedStack((), name, name, name) for name in range(5)], 5)
    assert found is not None
    assert (found.value, found.low, found.high, found.n) == (1.0, None, None, 5)
    assert rank_correlation([RankedStack(name, name, name, name) for name in range(9)], 9) is None


def test_a_perfect_order_of_few_stacks_is_no_certainty() -> None:
    found = rank_correlation([RankedStack((), name, name, name) for name in range(6)], 6)
    assert found is not None
    assert found.low is not None
    assert 0 < found.low < 0.5
    assert found.high == 1.0


def test_stacks_of_different_strata_and_equal_items_are_not_compared() -> None:
    ranked = [
        RankedStack(threads, version, 10 * threads + version, -version + 10 * threads)
        for threads, version in itertools.product((1, 2), range(7))
    ]
    found = rank_correlation(ranked, independent(ranked))
    assert found is not None
    assert found.value == -1  # although the threads put both figures in the same order
    assert found.n == 7  # and 14 stacks are not 14 independent ones
    assert independent([RankedStack((), 1, 0, 0), RankedStack((), 1, 1, 1)]) == 0
