"""One band over all sizes of a curve: it errs as often as promised, however the sizes go together."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.special import stdtr

from assay.analyse.comparison.families import corrected
from assay.analyse.judgement import compare_with_doubts
from assay.analyse.statistics.bands import along
from assay.records import Comparison
from conftest import long_but, tries
from made_results import all_reduce, by_system, metrics

Draw = Callable[[Any, int, int], Any]


def alone(dice: Any, runs: int, sizes: int) -> Any:
    return dice.standard_normal((runs, sizes))


def alike(dice: Any, runs: int, sizes: int) -> Any:
    return 0.95 * dice.standard_normal((runs, 1)) + 0.3 * alone(dice, runs, sizes)


def half_alike(dice: Any, runs: int, sizes: int) -> Any:
    found = alone(dice, runs, sizes)
    found[:, : sizes // 2] = found[:, :1]
    return found


def like_their_neighbours(dice: Any, runs: int, sizes: int) -> Any:
    found = alone(dice, runs, sizes)
    for size in range(1, sizes):
        found[:, size] = 0.9 * found[:, size - 1] + math.sqrt(1 - 0.81) * found[:, size]
    return found


def unevenly_spread(dice: Any, runs: int, sizes: int) -> Any:
    return alike(dice, runs, sizes) * np.geomspace(10, 1, sizes)


def long_tailed(dice: Any, runs: int, sizes: int) -> Any:
    return dice.standard_t(3, (runs, sizes)) + 1.5 * dice.standard_t(3, (runs, 1))


def least_p(a: Any, b: Any, *, paired: bool) -> float:
    """Over the sizes, of a plain t test of each."""
    if paired:
        t = (b - a).mean(axis=0) / ((b - a).std(axis=0, ddof=1) / math.sqrt(len(a)))
        return float((2 * stdtr(len(a) - 1, -abs(t))).min())
    parts = a.var(axis=0, ddof=1) / len(a), b.var(axis=0, ddof=1) / len(b)
    degrees = sum(parts) ** 2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
    return float((2 * stdtr(degrees, -abs(b.mean(axis=0) - a.mean(axis=0)) / np.sqrt(sum(parts)))).min())


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    "draw", long_but(1, [alone, alike, half_alike, like_their_neighbours, unevenly_spread, long_tailed])
)
@pytest.mark.parametrize("paired", long_but(1, [True, False]), ids=["paired", "welch"])
def test_where_nothing_differs_a_band_shows_a_difference_in_5_percent_of_cases_at_most(
    draw: Draw, paired: bool
) -> None:
    """Of 16 sizes in 5 runs a side; the bound is 3 standard errors above the promise."""
    dice, replicates, wrong = np.random.default_rng(3), tries(600), 0
    for _ in range(replicates):
        a, b = draw(dice, 5, 16), draw(dice, 5, 16)
        worth = along([(a[:, size], b[:, size]) for size in range(16)], paired=paired)
        assert worth is not None
        wrong += least_p(a, b, paired=paired) <= 0.05 / worth.independent
    assert wrong / replicates <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / replicates)


def test_sizes_that_go_together_are_worth_fewer_claims() -> None:
    dice = np.random.default_rng(1)
    worth = []
    for draw in (alone, alike):
        a, b = draw(dice, 10, 12), draw(dice, 10, 12)
        worth.append(along([(a[:, size], b[:, size]) for size in range(12)], paired=True))
    assert worth[0] is not None
    assert worth[1] is not None
    assert worth[0].sizes == worth[1].sizes == 12
    assert worth[1].independent < 8 < worth[0].independent <= 12


def test_the_same_runs_are_worth_the_same_twice() -> None:
    a, b = np.random.default_rng(5).standard_normal((2, 8, 6))
    sizes = [(a[:, size], b[:, size]) for size in range(6)]
    assert along(sizes, paired=False) == along(sizes, paired=False)


def test_few_sizes_are_no_curve_and_one_run_has_no_band() -> None:
    assert along([([1.0, 2.0], [1.0, 2.5])] * 3, paired=False) is None
    assert along([([1.0], [1.5])] * 8, paired=False) is None


def test_sizes_with_unlike_runs_are_taken_as_independent() -> None:
    dice = np.random.default_rng(2)
    a, b = alike(dice, 6, 8), alike(dice, 6, 8)
    whole = [(a[:, size], b[:, size]) for size in range(8)]
    torn = [(whole[0][0][:5], whole[0][1]), *whole[1:]]
    full, part = along(whole, paired=False), along(torn, paired=False)
    assert full is not None
    assert part is not None
    assert part.independent > full.independent


def held(blocks: int, ratio: float = 1.0, seed: int = 1) -> tuple[Comparison, ...]:
    sides = by_system(all_reduce(blocks=blocks, seed=seed))
    slowed = [_slowed(result, ratio) for result in sides["there"]]
    return compare_with_doubts(
        sides["here"], slowed, margin=0.02, names=("here", "there"), metrics=metrics
    ).comparisons


def _slowed(result: Any, ratio: float) -> Any:
    """From 1 MiB on."""
    found = tuple(
        replace(m, value=m.value * (ratio if int(str(m.labels["payload_bytes"])) >= 2**20 else 1.0))
        for m in result.reading.measurements
    )
    return replace(result, reading=replace(result.reading, measurements=found))


def test_every_size_says_what_curve_it_is_of() -> None:
    found = held(blocks=5)
    assert {c.along.sizes for c in found if c.along} == {9}
    assert all(c.along is not None and c.along.independent <= 9 for c in found)


def test_a_slow_end_of_a_curve_is_found_and_nothing_else_is() -> None:
    found = corrected(held(blocks=10, ratio=0.8))
    slower = [c.point.labels["payload_bytes"] for c in found if c.verdict == "slower"]
    assert slower == [4**k for k in range(10, 14)]
    assert {c.family.correction for c in found if c.family} == {"band"}


def test_the_bands_interval_is_its_verdict() -> None:
    for c in corrected(held(blocks=8, ratio=0.95)):
        assert c.family is not None
        low, high = c.family.ratio.low or 0, c.family.ratio.high or 0
        assert low <= (c.ratio.low or 0) <= (c.ratio.high or 0) <= high
        assert (c.verdict == "slower") == (high < 1 and not low >= 1 / 1.02)


def test_a_claim_beside_a_curve_steps_down_to_what_the_curve_leaves() -> None:
    """The other one's level is that of the curve's independent sizes and itself."""
    curve = held(blocks=8)
    [other] = held(blocks=8, seed=4)[:1]
    other = replace(other, along=None, point=replace(other.point, labels={}))
    found = corrected([*curve, other])
    assert found[-1].family is not None
    assert found[-1].family.correction == "holm"
    wide = (found[-1].family.ratio.high or 0) / found[-1].ratio.value
    assert wide > (other.ratio.high or 0) / other.ratio.value
