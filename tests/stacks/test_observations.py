"""What runs say about software stacks, kept in a file that is rebuilt from them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay import cli, read, store
from assay.errors import InputError
from assay.records import JobState, Provenance, Result
from assay.rundir.files import Header, StepOf
from assay.stacks import knowledge
from assay.stacks.advice import STABLE_SESSIONS
from assay.stacks.diff import diff_stacks
from assay.stacks.knowledge import Knowledge, as_step, steps_together
from assay.stacks.known import known_stacks, list_stacks, show_stack
from assay.stacks.stack import HardwareClass, Observation, Stack, hardware_of, stack_of
from assay.stacks.storage import failures_dir, knowledge_file, record_failure
from observed_stacks import MACHINE, NEW, OLD, failed, results


def observed(found: Sequence[Result]) -> knowledge.SessionObservations:
    return knowledge.observe(found, read.metrics, lambda _: "", lambda run: f"{run.id}/logs")


def test_runs_are_observations_without_any_bookkeeping(tmp_path: Path) -> None:
    store.update(tmp_path, results(speeds={"new": 1.04}))
    found = list_stacks(runs=tmp_path)
    assert len(found.stacks) == 2
    assert {stack.stack.packages["torch"] for stack in found.stacks} == {"2.8.0", "2.9.0"}
    (level,) = found.stacks[0].levels
    assert (level.level.sessions, level.level.runs) == (3, 9)
    assert str(level.hardware) == "AMD EPYC 7763 64-Core Processor (8 CPUs)"
    assert found.left_out == {}


def test_the_file_of_observations_is_rebuilt_after_it_is_deleted_or_damaged(tmp_path: Path) -> None:
    store.update(tmp_path, results())
    first = list_stacks(runs=tmp_path)
    path = knowledge_file(tmp_path)
    path.unlink()
    assert list_stacks(runs=tmp_path) == first
    path.write_bytes(b"\x00" * 20000)
    assert list_stacks(runs=tmp_path) == first


def test_where_the_file_can_not_be_written_all_is_known_and_the_disk_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.update(tmp_path, results(speeds={"new": 1.04}))
    (tmp_path / ".stacks" / ".lock").mkdir(parents=True)  # fails whatever would write there, also for root
    own = list_stacks(runs=tmp_path)
    assert f"{tmp_path / '.stacks' / '.lock'}: " in caplog.text
    assert not knowledge_file(tmp_path).exists()
    (tmp_path / ".stacks" / ".lock").rmdir()
    assert list_stacks(runs=tmp_path) == own
    assert knowledge_file(tmp_path).exists()


def test_only_sessions_that_changed_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.update(tmp_path, results(sessions=3))
    list_stacks(runs=tmp_path)
    sizes: list[int] = []
    counted = knowledge.observe
    monkeypatch.setattr(
        "assay.stacks.knowledge.observe", lambda runs, *rest: sizes.append(len(runs)) or counted(runs, *rest)
    )
    list_stacks(runs=tmp_path)
    assert sizes == []
    store.update(tmp_path, results(sessions=4)[-6:])
    assert max(level.level.sessions for s in list_stacks(runs=tmp_path).stacks for level in s.levels) == 4
    assert sizes == [6]


def test_a_session_that_is_gone_is_no_longer_known(tmp_path: Path) -> None:
    made = results(sessions=2)
    store.update(tmp_path, made)
    list_stacks(runs=tmp_path)
    store.update(tmp_path, [], [r.run.id for r in made[6:]])
    assert {s.sessions for s in list_stacks(runs=tmp_path).stacks} == {1}


@pytest.mark.parametrize(
    ("cause", "signal", "expected"),
    [
        (
            "rank 0 exited 1: ImportError: libcudnn.so.9: cannot open shared object file",
            None,
            "does not import",
        ),
        ("rank 0 exited 1: ModuleNotFoundError: No module named 'torch._C'", None, "does not import"),
        ("rank 0 was killed by SIGSEGV", "SIGSEGV", "crashes"),
        ("rank 0 was killed by SIGILL", "SIGILL", "crashes"),
        ("rank 0 exited 1: RuntimeError: kernel not found", None, "crashes"),
        ("rank 0 exited 1: wrong result: 3.1 is not 3.0", None, "wrong result"),
    ],
)
def test_a_failure_of_the_software_is_an_observation_with_its_log(
    cause: str, signal: str | None, expected: str
) -> None:
    first, *_ = results(sessions=1)
    found = observed([failed(first, cause, signal=signal, exit_code=None if signal else 1)])
    (one,) = found.observations
    assert (one.failure, one.why) == (expected, cause)
    assert one.log.endswith("/logs")
    assert found.left_out == {}


@pytest.mark.parametrize(
    ("cause", "signal", "job"),
    [
        ("time limit of 600 s", None, JobState.TIMED_OUT),
        ("the node was lost", None, JobState.LOST),
        ("rank 0 was killed by SIGKILL", "SIGKILL", JobState.FAILED),
        ("rank 0 exited 1: CUDA out of memory", None, JobState.FAILED),
        ("rank 0 exited 1: No module named 'pandas'", None, JobState.FAILED),
    ],
)
def test_a_failure_that_may_have_another_cause_says_nothing_about_the_stack(
    cause: str, signal: str | None, job: JobState
) -> None:
    first, *_ = results(sessions=1)
    end = failed(first, cause, signal=signal)
    found = observed([replace(end, run=replace(end.run, job=job))])
    assert found.observations == ()
    assert found.left_out == {knowledge.OTHER_FAILURE: 1}


def test_runs_that_do_not_say_where_they_ran_are_counted_and_left_out(tmp_path: Path) -> None:
    made = results(sessions=1)
    unequal = Provenance(({**MACHINE, **OLD}, {**MACHINE, **NEW}))
    made[0] = replace(made[0], provenance=None)
    made[1] = replace(made[1], provenance=unequal)
    store.update(tmp_path, made)
    assert list_stacks(runs=tmp_path).left_out == {knowledge.NO_PROVENANCE: 1, knowledge.UNEQUAL_NODES: 1}


def test_which_machine_it_was_and_its_load_are_not_part_of_a_stack() -> None:
    here, there = (
        Provenance(({**MACHINE, **OLD, "host": name, "load.1min": load, "env.SLURM_JOB_ID": name},))
        for name, load in (("a", 0.1), ("b", 9.0))
    )
    assert stack_of(here) == stack_of(there)
    assert hardware_of(here) == hardware_of(there)
    other = Provenance(({**MACHINE, **OLD, "env.OMP_NUM_THREADS": "1", "cpu.allowed": 4},))
    assert stack_of(other) != stack_of(here)
    assert hardware_of(other) != hardware_of(here)


def test_nodes_with_gpus_and_a_fabric_are_one_class_of_hardware() -> None:
    node = {
        **MACHINE,
        **{f"gpu.{i}.name": "NVIDIA H100" for i in range(8)},
        "infiniband.mlx5_0.port1.rate": "400 Gb/sec (4X NDR)",
    }
    found = hardware_of(Provenance((node, {**node, "host": "other"})))
    assert found is not None
    assert str(found) == (
        "AMD EPYC 7763 64-Core Processor (8 CPUs), 8 × NVIDIA H100, InfiniBand 400 Gb/sec (4X NDR)"
    )


def test_a_stack_that_could_not_be_installed_is_known_although_nothing_ran(tmp_path: Path) -> None:
    failure = Observation(
        Stack({"python.version": "3.14.0"}, {"torch": "2.8.0"}), HardwareClass("AMD EPYC"), None, None,
        "exploration", 1e9, failure="does not install", why="no wheel for cp314", log="x/uv.log",
    )  # fmt: skip
    assert record_failure(tmp_path, failure) == record_failure(tmp_path, failure)
    (stack,) = list_stacks(runs=tmp_path).stacks
    assert [one.why for one in stack.failures] == ["no wheel for cp314"]
    with pytest.raises(ValueError, match="only a failure"):
        record_failure(tmp_path, replace(failure, failure=None))
    next(failures_dir(tmp_path).iterdir()).write_text("{")
    with pytest.raises(InputError, match="not a recorded failure"):
        list_stacks(runs=tmp_path)


@pytest.mark.long
def test_a_process_that_is_killed_while_it_reads_leaves_what_was_known(tmp_path: Path) -> None:
    store.update(tmp_path, results(sessions=2))
    first = list_stacks(runs=tmp_path)
    store.update(tmp_path, results(sessions=3))
    program = (
        "import os, sys; from pathlib import Path; from assay.stacks import knowledge;"
        "knowledge.knowledge(Path(sys.argv[1]), lambda done, of: os.kill(os.getpid(), 9))"
    )
    killed = subprocess.run([sys.executable, "-c", program, tmp_path], env=os.environ, check=False)
    assert killed.returncode == -9
    again = list_stacks(runs=tmp_path)
    assert [s.stack for s in again.stacks] == [s.stack for s in first.stacks]
    assert {s.sessions for s in again.stacks} == {3}


def test_a_stack_is_named_by_its_digest_or_by_its_runs(tmp_path: Path) -> None:
    store.update(tmp_path, results())
    by_runs = show_stack("stacks:new", runs=tmp_path)
    assert by_runs.stack.packages["torch"] == "2.9.0"
    assert show_stack(by_runs.stack.digest[:6], runs=tmp_path) == by_runs
    with pytest.raises(InputError, match="stacks:new or stacks:old"):
        show_stack("stacks", runs=tmp_path)
    with pytest.raises(InputError, match="no runs with this name"):
        show_stack("nothing", runs=tmp_path)


def test_the_commands_show_figures_with_intervals_sessions_and_failures(tmp_path: Path) -> None:
    made = results(sessions=1)
    made[1] = failed(made[1], "rank 0 was killed by SIGSEGV", signal="SIGSEGV")
    store.update(tmp_path, made)
    listed = CliRunner().invoke(cli.assay, ["stack", "show", "--runs", str(tmp_path)])
    assert "3 runs in 1 session  Python 3.11.7, torch 2.8.0" in listed.stdout, listed.output
    assert "2 runs in 1 session, 1 × crashes" in listed.stdout
    shown = CliRunner().invoke(cli.assay, ["stack", "show", "stacks:new", "--runs", str(tmp_path)])
    assert "GFLOP/s (95 %: " in shown.stdout, shown.output
    assert "one session: another day may differ" in shown.stdout
    assert "crashes (matmul 1x1) on AMD EPYC 7763" in shown.stdout
    said = CliRunner().invoke(cli.assay, ["stack", "show", "--json", "--runs", str(tmp_path)])
    assert {tuple(one["failures"]) for one in json.loads(said.stdout)["stacks"]} == {(), ("crashes",)}


def steps_of(names: tuple[str, ...], blocks: int = 3, confidence: float = 0.98) -> list[Observation]:
    """What each session of the made runs observed, as a step of the exploration at the same place."""
    made = results(sessions=len(names), blocks=blocks, session_spread=0.0)
    found: list[Observation] = []
    for number, name in enumerate(names):
        session = made[number * 2 * blocks : (number + 1) * 2 * blocks]
        observed = knowledge.observe(session, read.metrics, lambda _: "", lambda run: run.id)
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
    plain = knowledge.observe(results(), read.metrics, lambda _: "", lambda run: run.id).observations
    assert steps_together(plain) == list(plain)


def test_one_exploration_is_one_session_in_a_difference_however_many_steps_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.update(tmp_path, results(sessions=4))
    steps = tuple(steps_of(("q1",) * 4))
    monkeypatch.setattr("assay.stacks.diff.known", lambda *_: Knowledge(steps, {}))
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
