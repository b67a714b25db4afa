"""Levels of stacks: a session is the unit."""

from __future__ import annotations

from assay.analyse.stacks.effects import level
from observed_figures import observed


def test_a_value_that_is_not_above_zero_has_a_level_without_an_interval() -> None:
    assert level([observed("a", 1, [0.0, 1.0])]).estimate.low is None


def test_sessions_of_two_parties_with_one_name_are_two_sessions() -> None:
    from dataclasses import replace

    ours = observed("a", 1, [1.0, 1.1])
    theirs = replace(ours, origin="key")
    assert level([ours, theirs]).sessions == 2
