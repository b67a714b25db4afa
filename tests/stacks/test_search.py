"""Searches: functions of what was tried, which never propose the same stack twice."""

from __future__ import annotations

import pytest

from assay.stacks.explore_spec import SEARCHES, Dimension, StackChoice, Tried, one_factor, space_of

SPACE = space_of(
    [Dimension("package", "numpy", ("2.3", "2.2", "2.1")), Dimension("env", "THREADS", ("1", "2"))],
    {"numpy": "2.1"},
)


def test_a_space_has_every_combination_once_and_the_incumbent_among_them() -> None:
    choices = list(SPACE.choices())
    assert len(set(choices)) == SPACE.size == 6
    assert choices == [SPACE.at(number) for number in range(6)]
    assert str(SPACE.incumbent) == "numpy 2.1, THREADS=1"
    assert SPACE.incumbent in choices


@pytest.mark.parametrize("name", SEARCHES)
def test_a_search_proposes_every_stack_once_and_then_none(name: str) -> None:
    tried: list[Tried] = []
    while (choice := SEARCHES[name](SPACE, tried, 3)) is not None:
        assert choice == SEARCHES[name](SPACE, tried, 3), "equal history, equal proposal"
        tried.append(Tried(choice, 0.1 if choice["$THREADS"] == "2" else None))
    found = {one.choice for one in tried}
    assert len(tried) == len(found) == SPACE.size - 1
    assert SPACE.incumbent not in found


def test_one_factor_changes_one_thing_at_a_time_and_then_starts_from_the_best() -> None:
    gains = {("2.1", "2"): 0.2, ("2.2", "1"): -0.1, ("2.3", "1"): 0.1}
    tried: list[Tried] = []
    for _ in range(3):
        choice = one_factor(SPACE, tried, 1)
        assert choice is not None
        assert len(choice.differs(SPACE.incumbent)) == 1
        tried.append(Tried(choice, gains[choice["numpy"], choice["$THREADS"]]))
    best = StackChoice((("numpy", "2.1"), ("$THREADS", "2")))
    after = one_factor(SPACE, tried, 1)
    assert after is not None
    assert len(after.differs(best)) == 1
    assert after["$THREADS"] == "2"
