"""The steps of an exploration are one session to everything outside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay import read, store
from assay.questions.diff_stacks import diff_stacks
from assay.questions.stack_knowledge import known_stacks
from assay.records import Observation
from assay.rundir.files import Header, StepOf
from assay.stacks import observing
from assay.stacks.advice import STABLE_SESSIONS
from assay.stacks.knowledge import Knowledge
from assay.stacks.observing import as_step, steps_together
from observed_stacks import results


def steps_of(names: tuple[str, ...], blocks: int = 3, confidence: float = 0.98) -> list[Observation]:
    """What each session of the made runs observed, as a step of the exploration at the same place."""
    made = results(sessions=len(names), blocks=blocks, session_spread=0.0)
    found: list[Observation] = []
    for number, name in enumerate(names):
        session = made[number * 2 * blocks : (number + 1) * 2 * blocks]
        observed = observing.observe(session, read.metrics, lambda _: "", lambda run: run.id)
        header = Header(1, "0", "stacks", "", "", 1.8e9 + number, "", step_of=StepOf(name, confidence))
        found += as_step(observed, header).observations
    return steps_together(found)


def test_the_steps_of_one_exploration_are_one_observation_of_each_stack_with_all_its_blocks() -> None:
    old, new = steps_of(("q1",) * 4)
    assert (old.session, new.session) == ("q1", "q1")
    assert [block for block, _ in old.values] == list(range(1, 13))
    assert old.interleaved
    assert old.confidence == 0.98  # that all looks of the exploration need


def test_explorations_of_other_names_and_ordinary_sessions_stay_apart() -> None:
    assert [one.session for one in steps_of(("q1", "q1", "q2"))] == ["q1", "q1", "q2", "q2"]
    plain = observing.observe(results(), read.metrics, lambda _: "", lambda run: run.id).observations
    assert steps_together(plain) == list(plain)


def test_one_exploration_is_one_session_in_a_difference_however_many_steps_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.update(tmp_path, results(sessions=4))
    steps = tuple(steps_of(("q1",) * 4))
    monkeypatch.setattr("assay.questions.diff_stacks.known", lambda *_: Knowledge(steps, {}))
    (change,) = diff_stacks("stacks:old", "stacks:new", runs=tmp_path).changes
    (effect,) = change.effects
    comparison = effect.comparison
    assert (comparison.sessions, comparison.n, comparison.replication) == ((1, 1), (12, 12), "runs")
    assert "one-session" in [doubt.code for doubt in comparison.doubts]
    assert comparison.ratio.confidence == 0.98


def test_a_stack_of_one_exploration_has_one_level_of_one_session_and_is_not_stable() -> None:
    for stack in known_stacks(steps_of(("q1",) * 4)):
        (found,) = stack.levels
        assert (found.level.sessions, found.level.runs) == (1, 12)
        assert stack.sessions < STABLE_SESSIONS
    twice = known_stacks([*steps_of(("q1", "q1")), *steps_of(("q2", "q2"))])
    assert {stack.sessions for stack in twice} == {2}
