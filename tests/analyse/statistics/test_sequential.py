"""Looking early: what the table promises, simulated through the intervals that comparisons use."""

from __future__ import annotations

import math

import numpy as np
import pytest

from assay.analyse.statistics import intervals
from assay.analyse.statistics.intervals import LogInterval
from assay.analyse.statistics.sequential import ALPHA, LOOKS, looks, nominal_p
from conftest import tries

SETS = tries(4000)
THREE_ERRORS = 3 * math.sqrt(0.05 * 0.95 / SETS)


@pytest.mark.parametrize(
    ("most", "expected"),
    [(3, (3,)), (4, (3, 4)), (5, (3, 5)), (15, (3, 5, 8, 12, 15)), (20, (3, 5, 8, 12, 20)), (200, LOOKS)],
)
def test_looks_end_with_the_maximum(most: int, expected: tuple[int, ...]) -> None:
    assert looks(most) == expected


@pytest.mark.parametrize("most", [-1, 0, 2, 201])
def test_a_maximum_that_was_not_tabulated_is_refused(most: int) -> None:
    with pytest.raises(ValueError, match="3 to 200"):
        looks(most)
    with pytest.raises(ValueError, match="3 to 200"):
        nominal_p(most, paired=True)


def test_one_look_needs_no_correction_and_more_looks_need_more() -> None:
    for options in ({"paired": True}, {"paired": False}, {"paired": False, "equal_n": False}):
        p = [nominal_p(most, **options) for most in LOOKS]
        assert p[0] == ALPHA
        assert p == sorted(p, reverse=True)
        assert p[-1] < p[0] / 5


def test_a_maximum_between_two_tabulated_ones_takes_the_larger_ones_p() -> None:
    assert nominal_p(13, paired=True) == nominal_p(20, paired=True) < nominal_p(12, paired=True)


def test_unequal_numbers_cost_more_than_equal_ones() -> None:
    assert all(nominal_p(n, paired=False, equal_n=False) < nominal_p(n, paired=False) for n in LOOKS[1:])


def _misses(interval: LogInterval) -> bool:
    assert interval.half is not None
    return abs(interval.centre) > interval.half


@pytest.mark.parametrize("most", [5, 13, 20])
def test_no_difference_is_called_one_in_at_most_5_of_100_sequences_of_pairs(most: int) -> None:
    rng, confidence = np.random.default_rng(most), 1 - nominal_p(most, paired=True)
    called = 0
    for row in rng.normal(size=(SETS, most)).tolist():
        pairs = [(0.0, d) for d in row]
        called += any(_misses(intervals.paired(pairs[:n], confidence)) for n in looks(most))
    assert 0.035 < called / SETS <= 0.05 + THREE_ERRORS


@pytest.mark.parametrize(("more", "spread"), [(1, 1.0), (1, 5.0), (3, 0.4)])
def test_welch_holds_5_in_100_whatever_the_spreads_and_with_three_times_the_runs(
    more: int, spread: float
) -> None:
    most = 12
    confidence = 1 - nominal_p(most, paired=False, equal_n=more == 1)
    rng, called = np.random.default_rng(more), 0
    a = rng.normal(size=(SETS, most)).tolist()
    b = rng.normal(0, spread, size=(SETS, more * most)).tolist()
    for x, y in zip(a, b, strict=True):
        called += any(_misses(intervals.welch(x[:n], y[: more * n], confidence)) for n in looks(most))
    # of unequal numbers, the fewer runs are taken to be noisier than these are
    assert (0.02 if more == 1 else 0.01) < called / SETS <= 0.05 + THREE_ERRORS


def test_looking_as_often_without_the_table_is_wrong_in_more_than_10_of_100() -> None:
    called = 0
    for row in np.random.default_rng(1).normal(size=(SETS, 20)).tolist():
        pairs = [(0.0, d) for d in row]
        called += any(_misses(intervals.paired(pairs[:n])) for n in looks(20))
    assert called / SETS > 0.10
