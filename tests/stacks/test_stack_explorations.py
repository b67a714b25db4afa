"""`assay stack explore`: real environments by uv from wheels made here, real sessions, killed and resumed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.support.wheels import make_wheel

from assay.durable import locked
from assay.errors import BusyError, InputError
from assay.records import RunState
from assay.rundir.session import sessions_of
from assay.stacks.explore import ExplorationResult, ExploredStack, explore
from assay.stacks.known import list_stacks
from killed_program import killed_at

SPEC = """\
explore: planted
requirements: [pace]
vary:
  packages: {pace: {range: ">=1", step: patch}}
  env: {PACE: ["1", "2"]}
incumbent: {packages: {pace: "1.0.0"}}
wheels: [wheels]
offline: true
measure:
  workload: command
  params:
    argv: ["{python}", measure.py]
    files: [measure.py]
    metrics: {rate: {pattern: 'rate (?P<value>[0-9.]+)', unit: 1/s, better: higher}}
  sample_every: never
search: random
batch: 5
max_repeats: 3
"""
MEASURE = """\
import os, pace, time
jitter = 1 + (time.time_ns() // 1000 % 97) / 1e5
print("rate", pace.SPEED * float(os.environ["PACE"]) * jitter)
"""


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    for version, code in {
        "1.0.0": "SPEED = 100",
        "1.1.0": "SPEED = 300",
        "1.2.0": "raise ImportError('pace 1.2.0 is broken')",
    }.items():
        make_wheel(tmp_path / "wheels", "pace", version, code)
    make_wheel(tmp_path / "wheels", "pace", "1.3.0", "", requires=("absent-from-everywhere",))
    (tmp_path / "measure.py").write_text(MEASURE)
    path = tmp_path / "spec.yaml"
    path.write_text(SPEC)
    return path


def _explore(spec: Path, stacks: int = 7) -> ExplorationResult:
    return explore(spec, max_stacks=stacks, runs=spec.parent / "runs")


def _neighbors_were_busy(one: ExploredStack) -> bool:
    """On a loaded machine, a verdict that is not safe from what others took is refused."""
    return one.comparison is not None and max(one.comparison.lost_to_others) > 0


def test_an_exploration_finds_the_planted_effect_and_keeps_what_failed_as_observations(spec: Path) -> None:
    found = _explore(spec)
    by_value = {(one.choice["pace"], one.choice["$PACE"]): one for one in found.candidates}
    assert found.possible == 8
    assert len(found.candidates) == 7
    best = by_value["1.1.0", "2"]
    assert best is found.candidates[0]
    assert best.comparison is not None
    assert 5.9 < best.comparison.ratio.value < 6.1
    assert found.best is best or _neighbors_were_busy(best)
    assert by_value["1.2.0", "1"].failure == "does not import"
    assert "pace 1.2.0 is broken" in by_value["1.2.0", "1"].why
    assert by_value["1.3.0", "1"].failure == "does not install"
    assert "absent-from-everywhere" in Path(by_value["1.3.0", "1"].log).read_text()
    recorded = [
        json.loads(path.read_text()) for path in (spec.parent / "runs/.stacks/failures").glob("*.json")
    ]
    assert {one["failure"] for one in recorded} == {"does not import", "does not install"}
    assert "--hash=sha256" in Path(best.lock).read_text()
    assert not list((found.folder / "environments").iterdir()), "environments are removed"
    stacks = list_stacks(runs=spec.parent / "runs").stacks
    measured = [stack for stack in stacks if stack.levels]
    assert measured
    assert {stack.sessions for stack in measured} == {1}, "its steps are one session"
    again = _explore(spec)
    assert again.sessions == found.sessions, "what is done is read, not run again"
    assert [one.name for one in again.candidates] == [one.name for one in found.candidates]


@pytest.mark.long
def test_stacks_can_be_built_without_measuring_and_measured_afterwards(spec: Path) -> None:
    runs = spec.parent / "runs"
    built = explore(spec, max_stacks=3, runs=runs, build_only=True)
    assert built.sessions == ()
    assert {one.failure for one in built.candidates} <= {None, "does not import", "does not install"}
    assert not list((built.folder / "environments").iterdir()), "environments are removed"
    measured = explore(spec, max_stacks=3, runs=runs)
    assert {one.name: one.failure for one in measured.candidates} == {
        one.name: one.failure for one in built.candidates
    }
    usable = [one for one in measured.candidates if not (one.failure or one.same_as)]
    assert all(one.comparison is not None for one in usable)


@pytest.mark.long
def test_an_exploration_that_is_killed_resumes_without_losing_or_repeating_a_trial(spec: Path) -> None:
    runs = spec.parent / "runs"
    argv = [sys.executable, "-m", "assay", "stack", "explore", str(spec), "--runs", str(runs), "--json"]
    argv += ["--max-stacks", "7"]
    killed = 0
    for sign in (".stacks/explorations/*/journal.jsonl", "*/*/*/attempt-1/run.json"):
        killed += killed_at(argv, runs, sign)
    assert killed == 2
    found = _explore(spec)
    assert found.candidates[0].choice["pace"] == "1.1.0"
    sessions = sessions_of(runs, "planted")
    assert [session.id for session in sessions] == list(found.sessions)
    for session in sessions:
        runs_of = [attempt.run() for attempt in session.attempts()]
        finished = sorted(run.trial.id for run in runs_of if run.state is RunState.FINISHED)
        assert finished == sorted(trial.id for trial in session.plan().trials), "each once"


def test_a_second_exploration_at_once_is_refused(spec: Path) -> None:
    folder = spec.parent / "runs/.stacks/explorations/planted"
    folder.mkdir(parents=True)
    with locked(folder / "lock", "it"), pytest.raises(BusyError, match="the exploration planted is held by"):
        _explore(spec)


def test_every_mistake_in_a_specification_is_reported_at_its_line(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    path.write_text(
        "explore: bad\nrequirements: ['nump y']\nvary:\n  packages: {scipy: ['1.14']}\n  color: red\n"
        "measure: {workload: command}\nsearch: guess\n"
    )
    with pytest.raises(InputError) as error:
        explore(path, runs=tmp_path / "runs")
    where = [problem.where.rpartition(":")[2] for problem in error.value.problems]
    assert where == ["5", "7"]


def test_a_list_of_versions_with_a_mistake_and_missing_wheels_are_each_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    text = SPEC.replace('{range: ">=1", step: patch}', '["1.0", "1.1; import os"]')
    path.write_text(text)
    with pytest.raises(InputError) as error:
        explore(path, runs=tmp_path / "runs")
    (problem,) = error.value.problems
    assert "is not a version" in problem.what
    assert "mapping" not in problem.what
    path.write_text(SPEC)
    with pytest.raises(InputError) as error:
        explore(path, runs=tmp_path / "runs")
    (problem,) = error.value.problems
    assert problem.where.endswith("spec.yaml:7")
    assert problem.what == f"wheels: {tmp_path / 'wheels'} is not a directory"
    assert not (tmp_path / "runs" / ".stacks" / "failures").exists()


def test_requirements_that_cannot_be_resolved_show_the_reason_first(spec: Path) -> None:
    spec.write_text(SPEC.replace('pace: "1.0.0"', 'pace: "7.0.0"'))
    with pytest.raises(InputError, match=r"(?s)^error: No solution found.*pace==7\.0\.0"):
        _explore(spec)


def test_a_changed_specification_is_another_exploration(spec: Path) -> None:
    _explore(spec, 1)
    spec.write_text(SPEC.replace("max_repeats: 3", "max_repeats: 5"))
    with pytest.raises(InputError, match=r"spec\.yaml:1: planted was begun with other contents"):
        _explore(spec, 1)


@pytest.mark.long
def test_an_override_replaces_what_other_packages_require(spec: Path) -> None:
    spec.write_text(SPEC + "overrides: [\"absent-from-everywhere; sys_platform == 'never'\"]\n")
    found = _explore(spec)
    built = {one.choice["pace"] for one in found.candidates if one.failure is None}
    assert built == {"1.0.0", "1.1.0", "1.3.0"}, "1.3.0 requires what no index has"
    spec.write_text(SPEC + "overrides: ['nump y']\n")
    with pytest.raises(InputError, match=r"spec\.yaml:\d+: overrides\[0\]: 'nump y' is not a requirement"):
        _explore(spec)


@pytest.mark.long
def test_the_memory_of_a_run_can_be_what_stacks_are_ranked_by(tmp_path: Path) -> None:
    for version, size in {"1.0.0": 300, "1.1.0": 100}.items():
        make_wheel(tmp_path / "wheels", "pace", version, f"SPEED = {size}; TEXT = b'x' * {size}_000_000")
    (tmp_path / "measure.py").write_text(MEASURE)
    text = SPEC.replace('{PACE: ["1", "2"]}', '{PACE: ["1"]}').replace(
        "measure:\n", "measure:\n  primary: peak_rss\n"
    )
    (tmp_path / "spec.yaml").write_text(text)
    found = _explore(tmp_path / "spec.yaml")
    (candidate,) = found.candidates
    assert candidate.comparison is not None, candidate
    assert candidate.comparison.point.metric == "peak_rss"
    assert 0.3 < candidate.comparison.ratio.value < 0.5
    assert found.best is candidate or _neighbors_were_busy(candidate)
