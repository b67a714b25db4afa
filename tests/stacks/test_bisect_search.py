"""The search for a responsible change: right as often as it states, without any machine."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest

from assay.stacks.bisect_lines import StackDifference, StackEnd, WheelSources, difference, ordered
from assay.stacks.bisect_search import (
    LOOKS,
    BlocksOutcome,
    Build,
    ChangeSet,
    Confirmation,
    Measure,
    Search,
    Settings,
    Value,
    judged_confirmation,
    of_slowdown,
)
from assay.stacks.uv import Interpreter
from conftest import long_but


class PlantedChanges:
    """Stacks whose speed or failure is planted.

    together  the changes have an effect only together
    flaky     probability that a failing stack fails; None: stacks are slower instead
    builds    standard deviation between builds of one stack
    """

    def __init__(
        self, planted: set[int], seed: int, *, effect: float = 0.1, together: bool = False,
        flaky: float | None = None, unbuildable: frozenset[ChangeSet] = frozenset(), builds: float = 0.0,
    ) -> None:  # fmt: skip
        self.planted, self.effect, self.together, self.flaky = planted, effect, together, flaky
        self.random, self.unbuildable, self.builds = random.Random(seed), unbuildable, builds
        self.shifts: dict[Build, float] = {}

    def value(self, build: Build, shift: float) -> Value:
        """Of one run."""
        share = len(self.planted & build.stack) / len(self.planted)
        share = float(share == 1) if self.together else share
        if self.flaky is not None:
            return "crashes" if share == 1 and self.random.random() < self.flaky else 0.0
        if build not in self.shifts:
            self.shifts[build] = self.random.gauss(0, self.builds)
        return share * math.log1p(-self.effect) + self.shifts[build] + shift + self.random.gauss(0, 0.01)

    def answer(self, request: Measure) -> BlocksOutcome:
        """The blocks that were requested."""
        if closed := tuple(one.stack for one in request.builds if one.stack in self.unbuildable):
            return BlocksOutcome(unbuildable=closed)
        shifts = [self.random.gauss(0, 0.05) for _ in range(request.blocks)]
        return BlocksOutcome(
            tuple({one: self.value(one, shift) for one in request.builds} for shift in shifts)
        )


def searched(size: int, planted: PlantedChanges, settings: Settings | None = None) -> Search:
    """A whole search."""
    search = Search(tuple(range(size)), settings or Settings())
    run = search.run()
    try:
        request = next(run)
        while True:
            request = run.send(planted.answer(request))
    except StopIteration:
        return search


def named(search: Search) -> set[int]:
    """All changes that it holds responsible."""
    return {change for one in search.culprits for change in one.changes}


def test_ends_that_are_swapped_are_said_to_be() -> None:
    class Swapped(PlantedChanges):
        def value(self, build: Build, shift: float) -> Value:
            return super().value(build, shift) if build.stack else "crashes"

    search = searched(8, Swapped({3}, 1, effect=0.0))
    assert (search.ended, search.culprits) == ("good fails", [])


def test_a_planted_slowdown_is_named_in_at_least_95_of_100_cases() -> None:
    right = 0
    for seed in range(60):
        planted = random.Random(seed).randrange(20)
        search = searched(20, PlantedChanges({planted}, seed))
        right += named(search) == {planted}
    assert right >= 55  # at 95 %, fewer have a probability of 3 %


@pytest.mark.parametrize("together", [False, True])
def test_two_changes_are_both_found_whether_they_add_up_or_interact(together: bool) -> None:
    for seed in range(5):
        planted = set(random.Random(seed).sample(range(12), 2))
        search = searched(12, PlantedChanges(planted, seed, effect=0.15, together=together))
        assert named(search) == planted
        assert search.culprits[0].explains is False
        assert search.culprits[1].explains is True


@pytest.mark.parametrize("flaky", [1.0, 0.8])
def test_a_crash_that_comes_and_goes_is_named(flaky: float) -> None:
    for seed in range(5):
        search = searched(20, PlantedChanges({seed * 4}, seed, flaky=flaky))
        assert search.kind == "fails"
        assert named(search) == {seed * 4}


def test_equal_stacks_name_nothing() -> None:
    for seed in range(10):
        search = searched(8, PlantedChanges({3}, seed, effect=0.0))
        assert search.ended in ("equal", "no difference")
        assert not search.culprits


def test_changes_that_no_stack_separates_are_named_together() -> None:
    closed = frozenset({frozenset(range(4)), frozenset(range(5))})  # cuts 4 and 5: 3, 4 and 5 are inseparable
    search = searched(8, PlantedChanges({4}, 1, unbuildable=closed))
    assert [one.changes for one in search.culprits] == [(3, 4, 5)]


def test_a_change_without_an_effect_beyond_the_margin_is_not_held_responsible() -> None:
    speeds = [(0.0, -0.01 + shift, -0.2 + shift) for shift in (0.0, 0.001, -0.001)]
    found = of_slowdown(2, [{(cut, 0): one[cut] for cut in range(3)} for one in speeds], 0.02)
    assert found.responsible[1] > 0.95
    assert found.responsible[0] < 0.05


def test_units_that_require_each_other_are_one_and_come_after_what_they_require() -> None:
    here = Interpreter("3.12.1", "python")
    names = ("a", "b", "c")
    good, bad = (StackEnd(dict.fromkeys(names, v), here, {}) for v in ("1", "2"))
    plain = difference(good, bad, WheelSources())
    found, requires = ordered(plain, {0: frozenset({1, 2}), 1: frozenset(), 2: frozenset({0})})
    assert list(map(str, found.units)) == ["b 1 → 2", "a 1 → 2 (with c)"]
    assert requires == {0: frozenset(), 1: frozenset({0})}
    assert isinstance(found, StackDifference)
    assert found.recipe(frozenset({0})).pins == ("a==1", "b==2", "c==1")


@pytest.mark.long
@pytest.mark.parametrize("effect", long_but(1, [0.0, 0.05]))
def test_builds_that_are_faster_or_slower_by_themselves_are_not_named_as_changes(effect: float) -> None:
    wrong = 0
    for seed in range(30):
        found = searched(16, PlantedChanges({5}, seed, effect=effect, builds=0.03))
        wrong += bool(named(found) - ({5} if effect else set()))
    assert wrong <= 4  # at 5 %, more have a probability of 2 %


def test_a_slowdown_beyond_what_builds_differ_by_is_named_and_confirmed() -> None:
    right = 0
    for seed in range(20):
        found = searched(16, PlantedChanges({seed % 16}, seed, builds=0.015))
        right += named(found) == {seed % 16}
        assert all(one.confirmed and one.confirmed.slower for one in found.culprits)
    assert right >= 17


def test_what_new_builds_do_not_confirm_is_kept_with_what_they_say() -> None:
    searches = [searched(16, PlantedChanges({0}, seed, effect=0.0, builds=0.03)) for seed in range(30)]
    doubtful = [one for one in searches if one.doubtful is not None]
    assert doubtful
    for search in doubtful:
        assert search.ended == "undecided"
        assert not search.culprits
        assert search.doubtful is not None
        assert search.doubtful.confirmed is not None
        assert search.doubtful.confirmed.builds in LOOKS
        assert 0.005 < search.doubtful.confirmed.spread < 0.09


def test_a_failure_needs_no_builds_beyond_those_of_the_search() -> None:
    search = searched(20, PlantedChanges({7}, 1, flaky=1.0))
    assert {build.number for block in search.blocks for build in block} == {0}


@pytest.mark.long
@pytest.mark.parametrize("spread", [0.003, 0.015, 0.03])
@pytest.mark.parametrize("effect", [0.0, 0.05, 0.1])
def test_the_stated_error_holds_whatever_builds_differ_by(effect: float, spread: float) -> None:
    wrong = 0
    for seed in range(200):
        found = searched(16, PlantedChanges({seed % 16}, seed, effect=effect, builds=spread))
        wrong += bool(named(found) - ({seed % 16} if effect else set()))
    assert wrong <= 17  # at 5 %, more have a probability of 1 %


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
