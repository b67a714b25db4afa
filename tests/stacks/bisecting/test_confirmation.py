"""What new builds of two stacks say: wrong as rarely as stated, whatever the shifts of builds are like."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from assay.stacks.bisecting.posterior import LOOKS, Confirmation, judged_confirmation

SHIFTS: dict[str, Callable[[random.Random], float]] = {
    "normal": lambda of: of.gauss(0, 0.03),
    "two kinds of builds": lambda of: of.choice((0.0, 0.06)) + of.gauss(0, 0.0005),
    "one slow build of four": lambda of: 0.06 * (of.random() < 0.25) + of.gauss(0, 0.0005),
    "skewed": lambda of: of.expovariate(1 / 0.03),
}


def _confirms(draw: Callable[[random.Random], float], effect: float, seed: int) -> bool:
    """Whether new builds, up to the last look, confirm a slowdown."""
    of = random.Random(seed)
    without = [draw(of) for _ in range(LOOKS[-1])]
    having = [draw(of) + effect for _ in range(LOOKS[-1])]
    return any(judged_confirmation(without[:look], having[:look], 0.05).slower for look in LOOKS)


@pytest.mark.parametrize("kind", SHIFTS)
def test_a_change_without_an_effect_is_confirmed_in_at_most_five_of_100_cases(kind: str) -> None:
    wrong = sum(_confirms(SHIFTS[kind], 0.0, seed) for seed in range(600))
    assert wrong <= 44  # at 5 %, more have a probability of 1 %


def test_a_slowdown_twice_as_large_as_what_builds_differ_by_is_confirmed_mostly() -> None:
    assert sum(_confirms(SHIFTS["normal"], math.log1p(-0.06), seed) for seed in range(100)) >= 75


def test_the_needed_builds_grow_with_the_square_of_what_builds_differ_by() -> None:
    found = [judged_confirmation([0.0, s, -s], [-0.03, s - 0.03, -s - 0.03], 0.05) for s in (0.03, 0.06)]
    assert [one.slower for one in found] == [False, False]
    assert [one.needed for one in found] == [22, 88]
    assert isinstance(found[0], Confirmation)
    assert judged_confirmation([0.0, 0.01], [0.02, 0.03], 0.05).needed is None
