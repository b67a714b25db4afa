"""What follows an undecided comparison: how often equal systems are then called faster or slower."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import stdtrit

from assay.analyse.statistics.intervals import paired, welch
from assay.analyse.statistics.sequential import looks, nominal_p

SETS, MARGIN, SPREAD, MOST = 4000, math.log1p(0.01), 0.01, 20


def drawn(rng: np.random.Generator, runs: int) -> Any:
    """Logarithms of both sides of equal systems."""
    return SPREAD * rng.standard_normal((2, SETS, runs))


def decided(sides: Any, runs: int, p: float, *, blocks: bool) -> tuple[Any, Any]:
    """Which sets are found equivalent, and which are called faster or slower, from the first runs."""
    a, b = (side[:, :runs] for side in sides)
    centre = b.mean(1) - a.mean(1)
    if blocks:
        error, degrees = (b - a).std(1, ddof=1) / math.sqrt(runs), runs - 1
    else:
        of_a, of_b = (side.var(1, ddof=1) / runs for side in (a, b))
        error, degrees = np.sqrt(of_a + of_b), (of_a + of_b) ** 2 / (of_a**2 + of_b**2) * (runs - 1)
    half = stdtrit(degrees, 1 - p / 2) * error
    equivalent = np.abs(centre) + half <= MARGIN
    return equivalent, ~equivalent & (np.abs(centre) > half)


def called(sides: Any, steps: tuple[tuple[int, float], ...], open_: Any, *, blocks: bool) -> Any:
    """Which of the open sets are called faster or slower at some step of (runs, p)."""
    wrong = np.zeros(SETS, bool)
    for runs, p in steps:
        equivalent, differ = decided(sides, runs, p, blocks=blocks)
        wrong |= open_ & differ
        open_ = open_ & ~(equivalent | differ)
    return wrong


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("runs", [3, 5, 10])
def test_new_runs_until_decided_are_wrong_in_5_per_cent_of_what_was_undecided_and_added_runs_in_more(
    runs: int, blocks: bool
) -> None:
    rng = np.random.default_rng(runs)
    first = drawn(rng, 9 * runs)
    equivalent, differ = decided(first, runs, 0.05, blocks=blocks)
    open_ = ~(equivalent | differ)
    new = drawn(rng, MOST)
    plan = tuple((at, nominal_p(MOST, blocks)) for at in looks(MOST))
    again = called(new, plan, open_, blocks=blocks)
    assert again[open_].mean() <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / open_.sum())
    assert called(new, plan, np.ones(SETS, bool), blocks=blocks).mean() <= 0.05 + 0.007
    added = called(first, ((3 * runs, 0.05), (9 * runs, 0.05)), open_, blocks=blocks)
    assert (differ | added).mean() > 0.065  # why adding runs is not the advice


@pytest.mark.parametrize("blocks", [True, False])
def test_the_intervals_of_this_simulation_are_those_of_the_library(blocks: bool) -> None:
    sides = drawn(np.random.default_rng(1), 5)
    equivalent, differ = decided(sides, 5, 0.05, blocks=blocks)
    for at in range(50):
        a, b = (list(side[at]) for side in sides)
        found = paired(list(zip(a, b, strict=True))) if blocks else welch(a, b)
        assert found.half is not None
        inside = abs(found.centre) + found.half <= MARGIN
        assert (inside, not inside and abs(found.centre) > found.half) == (equivalent[at], differ[at])
