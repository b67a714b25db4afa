"""What one trial meets and others would meet too stops those, burns none, and yields to evidence."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from assay import durable
from assay.cli.progress import ProgressLines
from assay.errors import EXIT_ENVIRONMENT, InterruptedRun, LaunchError, PlatformError
from assay.launch.launcher import JobRefusedError
from assay.launch.local.launcher import LocalLauncher
from assay.launch.slurm.commands import extent_of as refused_by_slurm
from assay.records import Extent, Handle, Job, JobState, JobStatus, RankExit, Run, RunState, Task
from assay.run.drive import CompletedSession, run_suite
from assay.run.progress import Silence
from assay.run.request import RunRequest
from assay.run.stopping import StopRequest
from assay.run.trial_state import extent_of, narrowed, within
from assay.rundir import session as rundir
from assay.rundir.session import Attempt
from assay.workloads import PLACES
from made_results import all_reduce

WELL = {"workload": "script", "params": {"code": "print('v 1')"}}


@pytest.fixture(autouse=True)
def _script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLACES, "script", "script_workload:SCRIPT")


def write(folder: Path, benchmarks: dict[str, Any], systems: dict[str, Any], repeats: int) -> None:
    suite = {"suite": "demo", "benchmarks": benchmarks, "systems": [*systems], "repeats": repeats}
    (folder / "suite.yaml").write_text(json.dumps({**suite, "order": "sequential"}))
    (folder / "systems.yaml").write_text(json.dumps(systems))


def run(folder: Path, tell: Any = Silence, **more: Any) -> CompletedSession:
    return run_suite(RunRequest(folder / "suite.yaml", folder / "runs", **more), tell)


def attempts(folder: Path) -> list[Attempt]:
    (session,) = rundir.sessions(folder / "runs")
    return list(session.attempts())


def test_a_missing_interpreter_is_reported_once_stops_its_system_and_the_same_command_resumes(
    tmp_path: Path,
) -> None:
    python = dead_python(tmp_path)
    systems = {"broken": {"launcher": "local", "python": str(python)}, "well": {"launcher": "local"}}
    write(tmp_path, {"a": WELL, "b": WELL}, systems, repeats=2)
    said = io.StringIO()
    first = run(tmp_path, partial(ProgressLines, stream=said))
    assert first.failures == ()
    (met,) = first.held
    assert (met.extent, met.job) == (Extent.SYSTEM, JobState.FAILED)
    assert "not found" in met.cause
    assert len(first.left) == 4
    assert {trial.system for trial in first.left} == {"broken"}
    assert said.getvalue().count("not found)") == 1
    assert "no other trial of system broken will start: it would fail for the same reason" in said.getvalue()
    assert first.session.header.finished_at is None
    assert len(attempts(tmp_path)) == 5

    again = run(tmp_path)
    assert again.session.id == first.session.id
    assert len(attempts(tmp_path)) == 6  # one trial finds out that it is still so

    python.unlink()
    python.symlink_to(sys.executable)
    last = run(tmp_path)
    assert last.session.id == first.session.id
    assert (last.failures, last.held, last.left) == ((), (), ())
    assert [a.run().state for a in attempts(tmp_path)].count(RunState.FINISHED) == 8
    assert len(attempts(tmp_path)) == 10
    assert last.session.header.finished_at is not None


def test_a_run_that_was_held_up_until_later_blocks_began_is_outside_its_block(tmp_path: Path) -> None:
    python = dead_python(tmp_path)
    systems = {"broken": {"launcher": "local", "python": str(python)}, "well": {"launcher": "local"}}
    write(tmp_path, {"a": WELL}, systems, repeats=2)
    suite = json.loads((tmp_path / "suite.yaml").read_text())
    (tmp_path / "suite.yaml").write_text(json.dumps({**suite, "order": "interleaved"}))
    run(tmp_path)
    python.unlink()
    python.symlink_to(sys.executable)
    outside = [r.run.trial.id for r in run(tmp_path).results if r.run.outside_block]
    assert outside == ["a-1x1-broken-r01"]


def dead_python(folder: Path) -> Path:
    """A program that is there, as its plan asks, and can't be started."""
    path = folder / "python"
    path.write_text("#!/no/such/interpreter\n")
    path.chmod(0o755)
    return path


def broken(folder: Path, python: str, **more: Any) -> None:
    systems = {"broken": {"launcher": "local", "python": python}, "well": {"launcher": "local", **more}}
    write(folder, {"a": WELL}, systems, repeats=2)


def test_options_that_are_corrected_where_nothing_could_run_leave_the_session_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = str(dead_python(tmp_path))
    broken(tmp_path, python)
    first = run(tmp_path)
    assert len(first.left) == 2
    broken(tmp_path, sys.executable)
    with monkeypatch.context() as patch:  # killed before the plan's digest is on the disk

        def killed(path: Path, data: bytes, **how: Any) -> None:
            if path.name == "session.json":
                raise KeyboardInterrupt
            durable.write_atomic(path, data, **how)

        patch.setattr(rundir, "write_atomic", killed)
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path)
    second = run(tmp_path)
    assert second.session.id == first.session.id
    assert (second.failures, second.left) == ((), ())
    assert len(attempts(tmp_path)) == 5
    assert sys.executable in (second.session.path / "systems.yaml").read_text()
    assert second.session.plan().digest == second.session.header.plan_digest == second.plan.digest


def test_options_of_a_system_that_gave_results_are_another_plan(tmp_path: Path) -> None:
    python = str(dead_python(tmp_path))
    broken(tmp_path, python)
    first = run(tmp_path)
    broken(tmp_path, python, pin_cpus=True)
    assert run(tmp_path).session.id != first.session.id


def test_what_a_program_lacks_stops_its_benchmark_alone_and_is_named(tmp_path: Path) -> None:
    lacks = {"workload": "script", "params": {"code": "import no_such_module"}}
    write(tmp_path, {"lacks": lacks, "well": WELL}, {"here": {"launcher": "local"}}, repeats=2)
    completed = run(tmp_path)
    (met,) = completed.held
    assert met.extent is Extent.BENCHMARK
    assert met.cause == "rank 0 exited 1: No module named 'no_such_module'"
    assert sorted(trial.id for trial in completed.left) == ["lacks-1x1-r01", "lacks-1x1-r02"]
    assert [r.run.state for r in completed.results].count(RunState.FINISHED) == 2


def test_a_program_that_fails_stops_nothing(tmp_path: Path) -> None:
    fails = {"workload": "script", "params": {"code": "raise SystemExit(3)"}}
    write(tmp_path, {"fails": fails}, {"here": {"launcher": "local"}}, repeats=2)
    completed = run(tmp_path)
    assert len(completed.failures) == 2
    assert completed.left == ()


@pytest.mark.parametrize("number", [0, 1])
def test_a_platform_that_can_not_be_used_stops_the_run_at_the_start_and_later_and_burns_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    submit, asked = LocalLauncher.submit, []

    def expired(launcher: LocalLauncher, job: Job) -> Handle:
        asked.append(job)
        if len(asked) > number:
            raise PlatformError("the login is expired")
        return submit(launcher, job)

    write(tmp_path, {"a": WELL}, {"here": {"launcher": "local"}}, repeats=3)
    with monkeypatch.context() as patch:
        patch.setattr(LocalLauncher, "submit", expired)
        with pytest.raises(PlatformError, match=r"the login is expired; no trial counts as failed") as error:
            run(tmp_path)
    assert error.value.exit_code == EXIT_ENVIRONMENT
    assert len(asked) == number + 1
    completed = run(tmp_path)
    assert completed.failures == ()
    assert len(completed.results) == 3
    assert [a.run().state for a in attempts(tmp_path)].count(RunState.FINISHED) == 3


def test_a_job_that_the_platform_ends_for_a_fault_of_its_own_stops_the_run_and_burns_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    down = JobStatus(JobState.FAILED, "the partition is down", extent=Extent.PLATFORM)
    write(tmp_path, {"a": WELL}, {"here": {"launcher": "local"}}, repeats=2)
    with monkeypatch.context() as patch:
        patch.setattr(LocalLauncher, "status", lambda *_: down)
        with pytest.raises(PlatformError, match="the partition is down; no trial counts as failed"):
            run(tmp_path)
    assert len(attempts(tmp_path)) == 1
    assert run(tmp_path).failures == ()


@pytest.mark.parametrize(
    ("error", "begun"), [(JobRefusedError("no such image", Extent.SYSTEM), 1), (LaunchError("no"), 2)]
)
def test_a_refused_submission_is_met_by_as_many_as_it_says_else_by_its_own_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: LaunchError, begun: int
) -> None:
    def refuse(*_: object) -> Handle:
        raise error

    write(tmp_path, {"a": WELL, "b": WELL}, {"here": {"launcher": "local"}}, repeats=2)
    monkeypatch.setattr(LocalLauncher, "submit", refuse)
    completed = run(tmp_path)
    assert [run.cause for run in completed.held] == [str(error)] * begun
    assert completed.failures == ()
    assert len(completed.left) == 4


def test_a_place_that_is_gone_in_the_middle_stops_its_system_once_and_the_same_command_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, asked = LocalLauncher.submit, []

    def gone(launcher: LocalLauncher, job: Job) -> Handle:
        asked.append(job)
        if len(asked) > 1:
            raise JobRefusedError('namespaces "bench" not found', Extent.PLACE)
        return submit(launcher, job)

    write(tmp_path, {"a": WELL}, {"here": {"launcher": "local"}}, repeats=4)
    with monkeypatch.context() as patch:
        patch.setattr(LocalLauncher, "submit", gone)
        first = run(tmp_path)
    assert len(asked) == 2
    assert (len(first.held), len(first.left), first.failures) == (1, 3, ())
    again = run(tmp_path)
    assert again.session.id == first.session.id
    assert (again.failures, len(again.results)) == ((), 4)


def test_what_the_platform_lost_again_and_again_for_such_a_cause_is_left_after_its_retries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = JobStatus(JobState.LOST, "the registry does not answer", extent=Extent.SYSTEM)
    write(tmp_path, {"a": WELL}, {"here": {"launcher": "local"}}, repeats=2)
    monkeypatch.setattr(LocalLauncher, "status", lambda *_: lost)
    completed = run(tmp_path)
    assert [a.run().attempt for a in attempts(tmp_path)] == [1, 2, 3]
    assert len(completed.left) == 2


def test_what_somebody_keeps_of_an_ended_job_is_noted_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forget = LocalLauncher.forget

    def held(launcher: LocalLauncher, handle: Handle) -> None:
        forget(launcher, handle)
        raise LaunchError("deleted, but kept by finalizers: job assay-1f (example.com/hold)")

    write(tmp_path, {"a": WELL}, {"here": {"launcher": "local"}}, repeats=2)
    monkeypatch.setattr(LocalLauncher, "forget", held)
    said = io.StringIO()
    assert run(tmp_path, partial(ProgressLines, stream=said)).failures == ()
    assert said.getvalue().count("here: deleted, but kept by finalizers: job assay-1f") == 2


def test_a_job_that_can_not_be_ended_is_asked_to_end_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit, asked = LocalLauncher.submit, []

    def interrupted(launcher: LocalLauncher, job: Job) -> Handle:
        monkeypatch.setattr(StopRequest, "made", True)
        return submit(launcher, job)

    def stuck(_: LocalLauncher, handle: Handle) -> None:
        asked.append(handle)
        raise LaunchError("job 1f can't be ended: pod p on node2 still exists")

    prints = {"workload": "script", "params": {"code": "import time; print('v 1'); time.sleep(0.4)"}}
    write(tmp_path, {"a": prints}, {"here": {"launcher": "local"}}, repeats=1)
    monkeypatch.setattr(LocalLauncher, "cancel", stuck)
    monkeypatch.setattr(LocalLauncher, "submit", interrupted)
    with pytest.raises(LaunchError, match="can't be ended"):
        run(tmp_path)
    assert len(asked) == 1


def test_a_job_that_had_not_started_when_the_user_stopped_is_cancelled_whatever_it_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = JobStatus(JobState.FAILED, "no node can run it, and start_timeout (60 s) has elapsed")
    submit = LocalLauncher.submit

    def interrupted(launcher: LocalLauncher, job: Job) -> Handle:
        monkeypatch.setattr(StopRequest, "made", True)
        return submit(launcher, job)

    write(tmp_path, {"a": WELL}, {"here": {"launcher": "local"}}, repeats=1)
    with monkeypatch.context() as patch:
        patch.setattr(LocalLauncher, "submit", interrupted)
        patch.setattr(LocalLauncher, "status", lambda *_: late)
        with pytest.raises(InterruptedRun):
            run(tmp_path)
    (only,) = attempts(tmp_path)
    assert only.run().job is JobState.CANCELLED
    assert only.run().cause.startswith("no node can run it")


FINISHED = all_reduce(blocks=1)[0].run


def test_an_extent_holds_those_that_have_the_same_in_common() -> None:
    base = FINISHED.trial
    other_block = replace(base, id="x", block=2, seed=9)
    other_point = replace(base, id="y", digest="z")
    other_shape = replace(base, id="s", shape=replace(base.shape, workers=64), digest="s")
    other_benchmark = replace(base, id="b", benchmark="other", digest="b")
    other_system = replace(base, id="o", system="elsewhere", digest="o")
    everyone = [base, other_block, other_point, other_shape, other_benchmark, other_system]
    expected = {
        Extent.TRIAL: [base],
        Extent.POINT: [base, other_block],
        Extent.BENCHMARK: [base, other_block, other_point, other_shape],
        Extent.SHAPE: [base, other_block, other_point, other_benchmark],
        Extent.SYSTEM: everyone[:-1],
        Extent.PLACE: everyone[:-1],
    }
    for extent, found in expected.items():
        assert [trial for trial in everyone if within(extent, base, trial)] == found, extent


def test_what_finished_within_an_extent_is_evidence_against_it() -> None:
    base = FINISHED.trial

    def done(**other: Any) -> list[Run]:
        return [replace(FINISHED, trial=replace(base, id="done", **other))]

    def narrow(extent: Extent, runs: list[Run]) -> Extent:
        return narrowed(extent, base, runs)

    assert narrow(Extent.SYSTEM, []) is Extent.SYSTEM
    assert narrow(Extent.SYSTEM, done(system="elsewhere", digest="o")) is Extent.SYSTEM
    assert narrow(Extent.SYSTEM, done(benchmark="other", digest="b")) is Extent.BENCHMARK
    assert narrow(Extent.SYSTEM, done(digest="p")) is Extent.POINT
    assert narrow(Extent.SHAPE, done(benchmark="other", digest="b")) is Extent.POINT
    assert narrow(Extent.SYSTEM, done()) is Extent.TRIAL
    failed = [replace(run, state=RunState.FAILED) for run in done()]
    assert narrow(Extent.SYSTEM, failed) is Extent.SYSTEM
    assert narrow(Extent.PLACE, done()) is Extent.PLACE  # it was there then


PYTHON, OWN = Task(("{python}", "x.py")), Task(("mine",))
NEVER_RAN = JobStatus(JobState.FAILED, exits=(RankExit(0, 127, first=True, never_ran=True),))
EXITED_127 = JobStatus(JobState.FAILED, exits=(RankExit(0, 127, first=True),))


@pytest.mark.parametrize(
    ("status", "task", "last_line", "extent"),
    [
        (NEVER_RAN, PYTHON, "", Extent.SYSTEM),
        (NEVER_RAN, OWN, "", Extent.BENCHMARK),
        (EXITED_127, PYTHON, "", Extent.TRIAL),
        (
            JobStatus(JobState.FAILED),
            PYTHON,
            "ModuleNotFoundError: No module named 'torch'",
            Extent.BENCHMARK,
        ),
        (
            JobStatus(JobState.FAILED),
            OWN,
            "mine: error while loading shared libraries: libnccl.so.2: cannot open shared object file",
            Extent.BENCHMARK,
        ),
        (JobStatus(JobState.FAILED), PYTHON, "ValueError: no", Extent.TRIAL),
        (JobStatus(JobState.FAILED, extent=Extent.SYSTEM), PYTHON, "", Extent.SYSTEM),
        (
            JobStatus(JobState.FAILED, extent=Extent.SYSTEM),
            replace(OWN, image="its-own"),
            "",
            Extent.BENCHMARK,
        ),
        (JobStatus(JobState.TIMED_OUT), PYTHON, "ModuleNotFoundError: No module named 'x'", Extent.TRIAL),
    ],
)
def test_the_extent_of_an_end(status: JobStatus, task: Task, last_line: str, extent: Extent) -> None:
    assert extent_of(status, task, last_line) is extent


@pytest.mark.parametrize(
    ("said", "extent"),
    [
        ("Invalid account or account/partition combination specified", Extent.PLATFORM),
        ("invalid partition specified: none", Extent.PLATFORM),
        ("Required partition not available (inactive or drain)", Extent.PLATFORM),
        ("Unable to contact slurm controller (connect failure)", Extent.PLATFORM),
        ("Requested time limit is invalid (missing or exceeds some limit)", Extent.BENCHMARK),
        ("Requested node configuration is not available", Extent.SHAPE),
        ("Invalid generic resource (gres) specification", Extent.SYSTEM),
        ("Job violates accounting/QOS policy (job submit limit, ...)", Extent.POINT),
        ("something that nobody knows", Extent.POINT),
    ],
)
def test_what_slurm_refuses_has_the_extent_of_its_words(said: str, extent: Extent) -> None:
    assert refused_by_slurm(f"sbatch: error: Batch job submission failed: {said}") is extent
