"""How well figures rank steps alike, whether or not versions build on one another."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable

import pytest

from assay.stacks.effects import rank_correlation

Step = tuple[float, float]
Levels = Callable[[random.Random, int], list[float]]


def independent(dice: random.Random, n: int) -> list[float]:
    """Versions that have nothing of one another."""
    return [dice.gauss(0, 1) for _ in range(n)]


def walk(dice: random.Random, n: int) -> list[float]:
    """Versions that keep what their predecessors had."""
    return list(itertools.accumulate(independent(dice, n)))


def both(dice: random.Random, n: int) -> list[float]:
    return [a + b for a, b in zip(walk(dice, n), independent(dice, n), strict=True)]


def drift(dice: random.Random, n: int) -> list[float]:
    """Newer is faster."""
    return [level + at for at, level in enumerate(walk(dice, n))]


def momentum(dice: random.Random, n: int) -> list[float]:
    """A step is partly the last one again."""
    steps = [0.0]
    for _ in range(n):
        steps.append(0.5 * steps[-1] + dice.gauss(0, 1))
    return list(itertools.accumulate(steps[1:]))


def two_packages(dice: random.Random, n: int) -> list[float]:
    """Half of the versions are of a second package, which does a fifth as much."""
    first = walk(dice, n // 2)
    return [*first, *(first[-1] + 0.2 * level for level in walk(dice, n - n // 2))]


def steps(levels: list[float]) -> list[float]:
    return [b - a for a, b in itertools.pairwise(levels)]


def above(levels: Levels, n: int, tries: int, rho: float = 0.0, confidence: float = 0.95) -> float:
    """Share of cases in which the interval lies above 0, at this correlation of what versions do to both."""
    dice = random.Random(f"{levels.__name__} {n} {rho}")
    count = 0
    for _ in range(tries):
        x, own = levels(dice, n), levels(dice, n)
        y = [rho * a + math.sqrt(1 - rho**2) * b for a, b in zip(x, own, strict=True)]
        found = rank_correlation(list(zip(steps(x), steps(y), strict=True)), confidence)
        assert found is not None
        assert found.low is not None
        count += found.low > 0
    return count / tries


@pytest.mark.parametrize("levels", [independent, walk])
def test_what_knows_nothing_is_rarely_above_0_whether_or_not_versions_build_on_others(levels: Levels) -> None:
    assert above(levels, 12, 300) <= 0.043  # 2.5 % plus 2 standard errors


@pytest.mark.long
@pytest.mark.parametrize("n", [8, 12, 20, 40])
@pytest.mark.parametrize("levels", [independent, walk, both, drift, momentum, two_packages])
def test_what_knows_nothing_is_above_0_in_at_most_two_and_a_half_percent(levels: Levels, n: int) -> None:
    assert above(levels, n, 2000) <= 0.0285  # 2.5 % plus 1 standard error
    assert above(levels, n, 2000, confidence=1 - 0.05 / 3) <= 0.0103  # 0.83 % plus 1 standard error


@pytest.mark.parametrize("levels", [independent, walk])
def test_with_enough_versions_a_good_indicator_is_shown_to_be_one(levels: Levels) -> None:
    assert above(levels, 12, 100, rho=0.97) >= 0.95
    assert above(levels, 8, 100, rho=0.97) >= 0.35  # few steps show little


@pytest.mark.parametrize("levels", [independent, walk])
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_a_95_percent_interval_covers_the_correlation_of_the_steps(levels: Levels, rho: float) -> None:
    dice, truth, holds = random.Random(3), 2 / math.pi * math.asin(rho), 0
    for _ in range(200):
        x, own = levels(dice, 16), levels(dice, 16)
        y = [rho * a + math.sqrt(1 - rho**2) * b for a, b in zip(x, own, strict=True)]
        found = rank_correlation(list(zip(steps(x), steps(y), strict=True)))
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        holds += found.low <= truth <= found.high
    assert holds / 200 >= 0.92


def test_fewer_than_six_steps_have_a_correlation_and_no_interval() -> None:
    found = rank_correlation([(step, step) for step in range(5)])
    assert found is not None
    assert (found.value, found.low, found.high, found.n) == (1.0, None, None, 5)
    assert rank_correlation([(1.0, 1.0)]) is None


def test_a_perfect_order_of_few_steps_is_no_certainty() -> None:
    found = rank_correlation([(step, step) for step in range(6)])
    assert found is not None
    assert found.low is not None
    assert 0 < found.low < 0.5
    assert found.high == 1.0


def test_a_drift_that_both_share_is_no_agreement() -> None:
    found = rank_correlation([(10 + step, 10 - step) for step in range(7)])
    assert found is not None
    assert found.value == -1
