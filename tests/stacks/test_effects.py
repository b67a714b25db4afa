"""Levels of stacks: a session is the unit."""

from __future__ import annotations

import pytest

from assay.stacks.effects import level, within_sessions
from observed_figures import observed


def test_a_value_that_is_not_above_zero_has_a_level_without_an_interval() -> None:
    assert level([observed("a", 1, [0.0, 1.0])]).estimate.low is None


def test_sessions_of_two_parties_with_one_name_are_two_sessions() -> None:
    from dataclasses import replace

    ours = observed("a", 1, [1.0, 1.1])
    theirs = replace(ours, origin="key")
    assert level([ours, theirs]).sessions == 2


@pytest.mark.parametrize("sessions", [1, 2])
def test_equal_values_of_a_coarse_timer_decide_nothing(sessions: int) -> None:
    """10 and 11 ticks on both sides, in two blocks of a session or in two sessions."""
    each = [[10.0, 11.0]] if sessions == 1 else [[10.0], [11.0]]
    pairs = [(observed("a", at, values), observed("b", at, values)) for at, values in enumerate(each)]
    found = within_sessions(pairs, ("a", "b"), 0.02)
    assert found.verdict == "undecided"
    assert found.ratio.low is not None
    assert found.ratio.low < 0.9
