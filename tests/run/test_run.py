"""A suite runs to its end whatever happens on the way, and says what happened."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from assay import store
from assay.cli.progress import ProgressLines
from assay.errors import BusyError, HostError, InputError, InterruptedRun
from assay.launch.local.launcher import LocalLauncher
from assay.questions.run import repeated_trials
from assay.records import Extent, Job, JobState, RunState, to_json
from assay.run import drive
from assay.run.drive import CompletedSession, run_suite
from assay.run.index import update_index
from assay.run.progress import Silence
from assay.run.request import RunRequest
from assay.run.stopping import StopRequest
from assay.run.trial_state import TrialState, trial_state
from assay.rundir import session as rundir
from assay.rundir.files import SCHEMA
from assay.rundir.session import Attempt
from assay.workloads import PLACES
from conftest import SUPPORT, long_but

QUICK = "print('v 2.5')"
DRIVER = SUPPORT / "script_workload.py"


@pytest.fixture(autouse=True)
def _script(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PLACES, "script", "script_workload:SCRIPT")


class Site:
    """A suite file and a runs directory in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.runs = folder, folder / "runs"

    def suite(self, code: str = QUICK, params: dict[str, Any] | None = None, **more: Any) -> Path:
        written = {
            "suite": "demo",
            "workload": "script",
            "params": {"code": code, **(params or {})},
            "systems": ["local"],
            "repeats": 2,
            **more,
        }
        path = self.folder / "suite.yaml"
        path.write_text(json.dumps(written))  # JSON is YAML
        return path

    def run(self, suite: Path | None = None, tell: Any = Silence, **more: Any) -> CompletedSession:
        return run_suite(RunRequest(suite or self.folder / "suite.yaml", self.runs, **more), tell)

    def start(self, *more: str) -> subprocess.Popen[str]:
        """`assay run` as a process of its own, which can be killed."""
        argv = [sys.executable, str(DRIVER), "run", "suite.yaml", "--runs", str(self.runs), *more]
        return subprocess.Popen(
            argv, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def attempts(self) -> list[rundir.Attempt]:
        return [a for session in rundir.sessions(self.runs) for a in session.attempts()]

    def wait_for(self, there: Callable[[], object], timeout_s: float = 20.0) -> None:
        deadline = time.monotonic() + timeout_s
        while not there():
            assert time.monotonic() < deadline, "it did not come to pass"
            time.sleep(0.01)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def processes_with(token: str) -> list[str]:
    """Processes whose environment holds the token."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"ASSAY_TOKEN={token}".encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@pytest.fixture(autouse=True)
def _nothing_left_behind(site: Site) -> Iterator[None]:
    yield
    left = {a.run().token: processes_with(a.run().token) for a in site.attempts()}
    assert not any(left.values()), left


def test_every_trial_of_a_suite_becomes_a_result_with_log_and_provenance(site: Site) -> None:
    completed = site.run(site.suite())
    assert not completed.failures
    assert [r.run.trial.id for r in completed.results] == [t.id for t in completed.plan.trials]
    for result in completed.results:
        assert result.run.state is RunState.FINISHED
        assert result.run.job is JobState.SUCCEEDED
        assert [m.value for m in result.reading.measurements] == [2.5]
        assert (result.reading.measurements[0].file, result.reading.measurements[0].line) == ("rank-0.log", 1)
        assert result.provenance is not None
        assert result.provenance.nodes[0]
        assert result.run.started_at is not None
        assert result.run.ended_at is not None
        assert result.run.created_at <= result.run.started_at <= result.run.ended_at
    assert completed.session.header.finished_at is not None
    assert list(completed.session.spool.iterdir()) == []


def test_a_session_keeps_what_was_asked_and_no_secret_of_it(site: Site) -> None:
    suite = site.suite(params={"env": {"HF_TOKEN": "hunter2"}})
    (site.folder / "systems.yaml").write_text("local: {launcher: local, env: {MY_SECRET: hunter2, A: b}}\n")
    completed = site.run(suite, command_line=("assay", "run", "suite.yaml"))
    assert completed.session.header.command_line == ("assay", "run", "suite.yaml")
    assert "A: b" in (completed.session.path / "systems.yaml").read_text()
    kept = {p: p.read_bytes() for p in completed.session.path.rglob("*") if p.is_file()}
    assert not [path for path, content in kept.items() if b"hunter2" in content]


def test_a_session_knows_the_commit_of_its_suite(site: Site) -> None:
    site.suite(repeats=1)
    git = ["git", "-C", str(site.folder), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q", "-b", "main"], ["add", "suite.yaml"], ["commit", "-q", "-m", "x"]):
        subprocess.run([*git, *words], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    completed = site.run()
    assert completed.session.header.git == {"commit": head.stdout.strip(), "branch": "main", "dirty": False}
    provenance = completed.results[0].provenance
    assert provenance is not None
    assert provenance.nodes[0]["suite.git.commit"] == head.stdout.strip()


def test_what_a_program_was_to_write_is_kept_and_its_absence_is_a_failure(site: Site) -> None:
    code = "open('model.bin', 'wb').write(b'weights'); print('v 1')"
    kept = site.run(site.suite(code, {"outputs": ["model.bin", "*.none"]}, repeats=1))
    assert not kept.failures
    outputs = kept.session.attempts_at(kept.plan.trials[0].id)[0].path / "outputs"
    assert {p.name: p.read_bytes() for p in outputs.iterdir()} == {"model.bin": b"weights"}
    missing = site.run(site.suite(QUICK, {"outputs": ["model.bin"]}, repeats=1))
    assert missing.failures[0].run.cause == "model.bin: the job should have written this file, but did not"


def test_a_failed_trial_is_reported_with_rank_exit_code_and_last_lines_and_the_suite_goes_on(
    site: Site,
) -> None:
    code = (
        "import os, sys; bad = os.environ['ASSAY_SEED'][-1] in '02468'\n"
        "print('v 1'); [print('line', i) for i in range(30)]; sys.exit(7 if bad else 0)"
    )
    said = io.StringIO()
    completed = site.run(site.suite(code, repeats=8), tell=partial(ProgressLines, stream=said))
    bad = [r for r in completed.results if r.run.trial.seed % 2 == 0]
    assert bad, "the seeds of eight repeats hold an even one"
    assert list(completed.failures) == bad
    for failure in bad:
        assert failure.run.exits[0].exit_code == 7
        assert "7" in failure.run.cause
        assert f"{failure.run.trial.id}  FAILED: {failure.run.cause}" in said.getvalue()
    assert "        | line 20\n" in said.getvalue()
    assert "| line 19" not in said.getvalue()


def test_a_job_that_ends_well_without_a_figure_is_a_failure_and_says_why(site: Site) -> None:
    completed = site.run(site.suite("print('nothing of use')", repeats=1))
    assert completed.failures[0].run.state is RunState.FAILED
    assert completed.failures[0].run.cause == "it printed no v"


LOSE = "import os, signal, time; os.kill(os.getppid(), signal.SIGKILL); time.sleep(60)"  # its keeper


@pytest.mark.parametrize(
    ("make", "kind"),
    [("mkdir", "a directory"), ("mkfifo", "a FIFO"), ("ln -s /dev/null", "a device")],
)
def test_an_output_that_is_no_file_fails_its_trial_with_that_cause(site: Site, make: str, kind: str) -> None:
    code = f"import os; os.system('{make} model.bin'); print('v 1')"
    completed = site.run(site.suite(code, {"outputs": ["model.bin"]}, repeats=1))
    assert (
        completed.failures[0].run.cause == f"outputs: model.bin is {kind}, but outputs must be regular files"
    )


def test_a_trial_that_the_platform_lost_is_tried_again_as_often_as_the_suite_says(site: Site) -> None:
    completed = site.run(site.suite(LOSE, repeats=1, retries=2))
    attempts = completed.session.attempts_at(completed.plan.trials[0].id)
    assert [a.run().job for a in attempts] == [JobState.LOST] * 3
    assert completed.results[0].run.attempt == 3
    (words,) = repeated_trials(completed)
    assert "lost by the platform 3 times and repeated 2 times (" in words


def test_a_program_that_fails_is_not_tried_again(site: Site) -> None:
    completed = site.run(site.suite("import sys; sys.exit(3)", repeats=1, retries=2))
    assert completed.results[0].run.attempt == 1


def test_a_trial_whose_job_somebody_else_ended_fails_with_that_cause_and_is_not_begun_again(
    site: Site,
) -> None:
    ended = "import os, signal, time; os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)"  # its keeper
    completed = site.run(site.suite(ended, repeats=2, retries=2))
    for failure in completed.failures:
        assert (failure.run.job, failure.run.attempt) == (JobState.STOPPED, 1)
        assert failure.run.cause.startswith("somebody else ended the job")
    assert len(completed.failures) == 2


def test_output_that_was_lost_on_the_way_is_worth_another_try(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, lost = Attempt.append, []

    def lose_once(self: Attempt, stream: str, data: bytes) -> None:
        if stream == "rank-0" and data and not lost:
            lost.append(data)
            data = data[:-1]
        append(self, stream, data)

    monkeypatch.setattr(Attempt, "append", lose_once)
    completed = site.run(site.suite("print('v 1')", repeats=1, retries=1))
    first, second = (a.run() for a in completed.session.attempts_at(completed.plan.trials[0].id))
    assert first.job is JobState.LOST
    assert "output was lost in transit" in first.cause
    assert second.state is RunState.FINISHED


def test_a_retry_that_succeeds_is_the_result(site: Site) -> None:
    code = (
        f"import os, sys; p = {str(site.folder / 'tried')!r}; tried = os.path.exists(p); open(p, 'w')\n"
        "print('v 1', flush=True)\nif not tried: " + LOSE
    )
    said = io.StringIO()
    completed = site.run(site.suite(code, repeats=1, retries=1), tell=partial(ProgressLines, stream=said))
    assert not completed.failures
    assert completed.results[0].run.attempt == 2
    assert (
        "the platform lost it, the program did not fail: it will be retried, at most once" in said.getvalue()
    )


def test_a_trial_that_takes_too_long_is_ended(site: Site) -> None:
    completed = site.run(site.suite("import time; time.sleep(60)", repeats=1, timeout="0.5s"))
    assert completed.failures[0].run.job is JobState.TIMED_OUT


def test_what_can_not_run_is_said_before_anything_runs(site: Site) -> None:
    with pytest.raises(InputError, match="nodes"):
        site.run(site.suite(shapes=["1x1", "2x1x2"]))
    assert not site.runs.exists()


def test_a_finished_session_is_followed_by_a_new_one(site: Site) -> None:
    first, second = site.run(site.suite()), site.run()
    assert first.session.id != second.session.id


def test_a_trial_whose_directory_was_removed_is_done_again_in_its_session(site: Site) -> None:
    first = site.run(site.suite())
    shutil.rmtree(first.session.path / first.plan.trials[0].id)
    second = site.run()
    assert second.session.id == first.session.id
    assert second.results[0].run.token != first.results[0].run.token
    assert second.results[1].run.token == first.results[1].run.token


def interrupted(site: Site, number: signal.Signals, after: int = 0) -> subprocess.Popen[str]:
    """An Assay that was sent a signal while its trial number `after` ran."""
    process = site.start()
    site.wait_for(
        lambda: (
            len([a for a in site.attempts() if a.kept().get("rank-0")]) > after
            and site.attempts()[-1].run().state is RunState.RUNNING
        )
    )
    process.send_signal(number)
    return process


SLOW_FIRST = (
    "import os, time; p = {flag!r}; t = os.path.exists(p); open(p, 'w')\n"
    "print('begun', flush=True); time.sleep(0 if t else {seconds}); print('v 1')"
)


def slow_first(site: Site, seconds: float = 60) -> str:
    """A program that takes long, but only the first time."""
    return SLOW_FIRST.format(flag=str(site.folder / "flag"), seconds=seconds)


@pytest.mark.parametrize("number", long_but(1, [signal.SIGINT, signal.SIGTERM]))
def test_an_interrupted_suite_ends_its_job_and_is_gone_on_with(site: Site, number: signal.Signals) -> None:
    site.suite(slow_first(site))
    process = interrupted(site, number)
    _, error = process.communicate(timeout=20)
    assert process.returncode == 130, error
    assert "the same command resumes it" in error
    assert "Traceback" not in error
    [attempt] = site.attempts()
    assert (attempt.run().state, attempt.run().job) == (RunState.FAILED, JobState.CANCELLED)
    assert attempt.logs()["rank-0.log"].read_text() == "begun\n"
    completed = site.run()
    assert completed.session.id == next(rundir.sessions(site.runs)).id
    assert not completed.failures
    assert len(site.attempts()) == 3  # not a retry: the suite has none


def test_a_job_that_outlived_its_assay_is_adopted_with_all_that_it_printed(site: Site) -> None:
    site.suite(slow_first(site, 1.5))
    interrupted(site, signal.SIGKILL).communicate()
    said = io.StringIO()
    completed = site.run(tell=partial(ProgressLines, stream=said))
    assert "taken over" in said.getvalue()
    adopted = [r for r in completed.results if r.run.adopted]
    assert len(adopted) == 1
    assert adopted[0].run.attempt == 1
    assert not completed.failures
    assert len(site.attempts()) == 2
    assert site.attempts()[0].logs()["rank-0.log"].read_text() == "begun\nv 1\n"


@pytest.mark.long
def test_an_interruption_before_a_job_is_adopted_ends_it_too(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.suite(slow_first(site))
    interrupted(site, signal.SIGKILL).communicate()
    [attempt] = site.attempts()
    assert processes_with(attempt.run().token)

    @contextmanager
    def at_once() -> Iterator[StopRequest]:
        request = StopRequest()
        request.note(signal.SIGINT)
        yield request

    monkeypatch.setattr(drive, "stop_requests", at_once)
    with pytest.raises(InterruptedRun, match="what was running has been ended"):
        site.run()
    assert not processes_with(attempt.run().token)
    assert (attempt.run().state, attempt.run().job) == (RunState.FAILED, JobState.CANCELLED)


@pytest.mark.long
def test_a_job_that_was_lost_while_nobody_watched_is_done_again_and_is_no_retry(site: Site) -> None:
    site.suite(slow_first(site))
    interrupted(site, signal.SIGKILL).communicate()
    token = site.attempts()[0].run().token
    while pids := processes_with(token):
        for pid in pids:
            os.kill(int(pid), signal.SIGKILL)
    completed = site.run()
    assert not completed.failures
    first = site.attempts()[0].run()
    assert (first.state, first.job, first.adopted) == (RunState.FAILED, JobState.LOST, True)


def test_a_token_without_a_job_is_done_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    suite = site.suite(repeats=1)
    with monkeypatch.context() as patch:
        patch.setattr(LocalLauncher, "submit", killed)
        with pytest.raises(KeyboardInterrupt):
            site.run(suite)
    assert site.attempts()[0].run().state is RunState.SUBMITTING
    discarded: list[str] = []
    monkeypatch.setattr(LocalLauncher, "discard", lambda _, tokens: discarded.extend(tokens))
    completed = site.run()
    assert not completed.failures
    assert discarded == [site.attempts()[0].run().token], "what the platform keeps of it would stay"
    assert [a.run().cause for a in site.attempts()] == [
        "it never started: Assay was stopped while submitting the job",
        "",
    ]


def test_a_job_that_was_submitted_without_its_handle_reaching_the_disk_is_adopted(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit = LocalLauncher.submit

    def killed_after(launcher: LocalLauncher, job: Job) -> None:
        submit(launcher, job)
        raise KeyboardInterrupt

    suite = site.suite(repeats=1)
    with monkeypatch.context() as patch:
        patch.setattr(LocalLauncher, "submit", killed_after)
        with pytest.raises(KeyboardInterrupt):
            site.run(suite)
    completed = site.run()
    assert [(a.run().state, a.run().adopted) for a in site.attempts()] == [(RunState.FINISHED, True)]
    assert not completed.failures


def test_a_job_that_was_settled_and_not_forgotten_is_forgotten(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    suite = site.suite(repeats=1)
    with monkeypatch.context() as patch:
        patch.setattr(LocalLauncher, "forget", killed)
        with pytest.raises(KeyboardInterrupt):
            site.run(suite)
    completed = site.run()
    assert len(site.attempts()) == 1
    assert list(completed.session.spool.iterdir()) == []


def test_a_second_assay_on_the_same_run_says_so_and_stops(site: Site) -> None:
    site.suite(slow_first(site))
    process = site.start()
    site.wait_for(lambda: [a for a in site.attempts() if a.kept().get("rank-0")])
    with pytest.raises(BusyError, match=f"process, {process.pid} "):
        site.run()
    process.send_signal(signal.SIGINT)
    process.communicate()


@pytest.mark.long
def test_a_new_session_can_be_begun_beside_an_unfinished_one(site: Site) -> None:
    site.suite(slow_first(site))
    interrupted(site, signal.SIGINT).communicate()
    assert site.run(new=True).session.id != next(rundir.sessions(site.runs)).id


@pytest.mark.long
def test_another_plan_does_not_go_on_with_this_one(site: Site) -> None:
    site.suite(slow_first(site))
    interrupted(site, signal.SIGINT).communicate()
    completed = site.run(site.suite(QUICK))
    assert completed.session.id != next(rundir.sessions(site.runs)).id


PROGRAM_OF_THE_USER = """
import os, time
print("begun", flush=True)
time.sleep(60 if not os.path.exists("quick") else 0)
print("v {value}")
"""


@pytest.mark.long
def test_a_script_that_was_edited_after_a_kill_is_never_mixed_with_its_former_version(site: Site) -> None:
    program, quick = site.folder / "train.py", site.folder / "quick"
    program.write_text(PROGRAM_OF_THE_USER.format(value=1))
    metrics = {"v": {"pattern": "v (?P<value>[0-9]+)", "better": "higher"}}
    params = {"argv": ["{python}", "train.py"], "cwd": ".", "metrics": metrics}
    suite = {"suite": "demo", "workload": "command", "params": params, "systems": ["local"], "repeats": 2}
    (site.folder / "suite.yaml").write_text(json.dumps(suite))
    interrupted(site, signal.SIGINT).communicate()
    (first,) = rundir.sessions(site.runs)
    quick.touch()

    program.write_text(PROGRAM_OF_THE_USER.format(value=2))
    with pytest.raises(InputError, match="the programs that the suite names are the same"):
        site.run(failed=True)
    told: list[str] = []

    class Notes(Silence):
        def noted(self, words: str) -> None:
            told.append(words)

    second = site.run(tell=Notes)
    assert second.session.id != first.id
    assert told[0] == (
        f"train.py changed since {first.id}, which stays unfinished (1 of 2 trials started): "
        "this is a new session, so that no session mixes the two"
    )
    program.write_text(PROGRAM_OF_THE_USER.format(value=1))
    assert site.run().session.id == first.id


# fails in its second block until the file is there
FIXABLE = (
    "import os, sys, time; print('v', 1, flush=True)\n"
    "time.sleep({seconds} if os.path.exists({fixed!r}) else 0)\n"
    "sys.exit(0 if os.path.exists({fixed!r}) or not os.path.exists({first!r}) else 3)\n"
)


def one_of_two_failed(site: Site, seconds: float = 0) -> CompletedSession:
    """A session whose second trial failed, and will not fail again."""
    first, fixed = site.folder / "first", site.folder / "fixed"

    class Notes(Silence):
        def trial_ended(self, *_: Any, **__: Any) -> None:
            first.touch()

    code = FIXABLE.format(first=str(first), fixed=str(fixed), seconds=seconds)
    completed = site.run(site.suite(code), tell=Notes)
    assert [result.run.state for result in completed.results] == [RunState.FINISHED, RunState.FAILED]
    fixed.touch()
    return completed


def test_what_failed_is_repeated_in_its_session_and_nothing_else(site: Site) -> None:
    before = one_of_two_failed(site)
    after = site.run(failed=True)
    assert after.session.id == before.session.id
    assert not after.failures
    assert after.results[0].run.token == before.results[0].run.token
    assert [a.run().state for a in site.attempts()] == [RunState.FINISHED, RunState.FAILED, RunState.FINISHED]
    assert after.results[1].run.attempt == 2
    assert [result.run.outside_block for result in after.results] == [False, True]
    assert after.session.header.finished_at is not None
    assert site.run().session.id != before.session.id


def test_where_nothing_failed_nothing_is_repeated_and_the_results_are_shown(site: Site) -> None:
    before = site.run(site.suite())
    after = site.run(failed=True)
    assert after.session.header.finished_at == before.session.header.finished_at
    assert [r.run.token for r in after.results] == [r.run.token for r in before.results]


def test_a_repetition_that_was_killed_before_it_began_is_resumed_by_the_plain_command(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    before = one_of_two_failed(site)
    with monkeypatch.context() as patch:
        patch.setattr(rundir.Session, "begin", killed)
        with pytest.raises(KeyboardInterrupt):
            site.run(failed=True)
    after = site.run()
    assert after.session.id == before.session.id
    assert not after.failures
    assert len(site.attempts()) == 3


@pytest.mark.long
@pytest.mark.parametrize("again", long_but(1, [[], ["--failed"]]))
def test_a_repetition_that_is_killed_while_it_runs_is_adopted(site: Site, again: list[str]) -> None:
    before = one_of_two_failed(site, seconds=2)
    process = site.start("--failed")
    site.wait_for(lambda: len(site.attempts()) == 3 and site.attempts()[-1].kept().get("rank-0"))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    after = site.run(failed=bool(again))
    assert after.session.id == before.session.id
    assert not after.failures
    assert after.results[1].run.adopted
    assert len(site.attempts()) == 3


def test_a_repetition_has_all_its_retries_again(site: Site) -> None:
    site.run(site.suite(LOSE, repeats=1, retries=1))
    assert len(site.attempts()) == 2
    site.run(failed=True)
    assert [a.run().job for a in site.attempts()] == [JobState.LOST] * 4


def test_nothing_can_be_repeated_of_another_plan(site: Site) -> None:
    site.run(site.suite(repeats=1))
    with pytest.raises(InputError, match=r"has no session of demo with this plan.*a new session starts"):
        site.run(site.suite(repeats=2), failed=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MiB."""
    path = tmp_path / "small"
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("no right to mount a small file system here")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def test_a_full_disk_is_a_clear_error_and_nothing_is_corrupt_or_left_running(
    site: Site, small_disk: Path
) -> None:
    site.runs = small_disk
    first = site.suite("print('v 1')", repeats=1)
    site.run(first)
    noisy = "import time\nfor i in range(60): print('x' * 20000, flush=True); time.sleep(0.01)\nprint('v 1')"
    with pytest.raises(HostError, match=r"free in .*Nothing that was stored is lost"):
        site.run(site.suite(noisy, repeats=1))
    for session in rundir.sessions(small_disk):
        assert session.header.schema == SCHEMA
        assert session.plan()
        for attempt in session.attempts():
            assert attempt.run().token


def test_what_is_to_be_done_follows_from_the_attempts_alone(site: Site) -> None:
    run = site.run(site.suite(repeats=1)).results[0].run
    trial = replace(run.trial, retries=1)
    finished = run
    failed = replace(run, state=RunState.FAILED, job=JobState.FAILED)
    unread = replace(run, state=RunState.FAILED, job=JobState.SUCCEEDED)
    cancelled = replace(failed, job=JobState.CANCELLED)
    lost_unwatched = replace(failed, job=JobState.LOST, adopted=True)
    lost = replace(failed, job=JobState.LOST)
    stopped = replace(failed, job=JobState.STOPPED)
    running = replace(run, state=RunState.RUNNING)
    expected = [
        ((), TrialState.TO_BEGIN),
        ((finished,), TrialState.DONE),
        ((running,), TrialState.TO_TAKE_OVER),
        ((failed, running), TrialState.TO_TAKE_OVER),
        ((failed,), TrialState.DONE),
        ((unread,), TrialState.DONE),
        ((lost,), TrialState.TO_BEGIN),
        ((lost, running), TrialState.TO_TAKE_OVER),
        ((lost, failed), TrialState.DONE),
        ((lost, lost), TrialState.DONE),
        ((cancelled, lost_unwatched, cancelled), TrialState.TO_BEGIN),
        ((cancelled, lost, lost_unwatched), TrialState.TO_BEGIN),
        ((lost, cancelled, lost_unwatched, lost), TrialState.DONE),
        ((lost, finished), TrialState.DONE),
        ((stopped,), TrialState.DONE),
        ((lost, stopped), TrialState.DONE),
        ((replace(stopped, adopted=True),), TrialState.TO_BEGIN),
        ((replace(failed, extent=Extent.SYSTEM),), TrialState.HELD),
        ((replace(failed, extent=Extent.PLATFORM),), TrialState.HELD),
        ((replace(lost, extent=Extent.SYSTEM),), TrialState.TO_BEGIN),
        ((lost, replace(lost, extent=Extent.SYSTEM)), TrialState.HELD),
    ]
    for runs, todo in expected:
        assert trial_state(trial, runs) is todo, [to_json(r) for r in runs]


def test_a_second_interrupt_does_not_wait() -> None:
    request = StopRequest()
    assert not request.made
    request.note(signal.SIGINT)
    assert request.by is signal.SIGINT
    with pytest.raises(KeyboardInterrupt):
        request.note(signal.SIGINT)


def test_the_first_interrupt_does_not_wait_for_a_log_that_is_being_read() -> None:
    request = StopRequest()
    with request.at_once(), pytest.raises(KeyboardInterrupt):
        request.note(signal.SIGINT)
    request.note(signal.SIGINT)
    assert request.made


def test_a_stop_between_two_trials_leaves_the_rest_for_later(site: Site) -> None:
    class StopsAfterOne(Silence):
        def trial_ended(self, *_: Any, **__: Any) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    assert threading.current_thread() is threading.main_thread()
    with pytest.raises(InterruptedRun):
        site.run(site.suite(), tell=StopsAfterOne)
    assert [a.run().state for a in site.attempts()] == [RunState.FINISHED]
    assert not site.run().failures
    assert len(site.attempts()) == 2


def test_the_index_follows_the_run_directories(site: Site) -> None:
    completed = site.run(site.suite())
    ids = {r.run.id for r in completed.results}
    assert update_index(site.runs) == ()
    before = store.known(site.runs)
    assert before.keys() == ids
    again = completed.plan.trials[0].id
    shutil.rmtree(completed.session.path / again)
    update_index(site.runs)
    assert store.known(site.runs).keys() == ids - {f"{completed.session.id}/{again}"}
    site.run()
    update_index(site.runs)
    after = store.known(site.runs)
    assert after.keys() == ids
    assert [run_id for run_id in ids if before[run_id] != after[run_id]] == [
        f"{completed.session.id}/{again}"
    ]


def test_a_damaged_run_is_named_counts_as_failed_and_stops_nothing(site: Site) -> None:
    completed = site.run(site.suite())
    update_index(site.runs)
    record = next(completed.session.attempts()).path / "run.json"
    whole = record.read_text()
    record.write_text("{")
    problems = update_index(site.runs)
    assert [problem.where for problem in problems] == [f"{record}:1"]
    assert [problem.where for problem in update_index(site.runs)] == [f"{record}:1"]
    states = {row["cause"][:14]: row["state"] for row in store.listed_runs(site.runs, store.Filter(), 9)}
    assert states == {"": "finished", "can't be read:": "failed"}
    record.write_text(whole)
    assert not update_index(site.runs)
    assert len(store.known(site.runs)) == 2


def test_a_damaged_index_is_made_again(site: Site) -> None:
    site.run(site.suite())
    store.index_path(site.runs).write_bytes(b"not an index")
    assert not update_index(site.runs)
    assert len(store.known(site.runs)) == 2


@pytest.mark.parametrize("share", long_but(1, [0.7, 0.3, 0.999]))
def test_an_index_that_was_cut_off_is_made_again(site: Site, share: float) -> None:
    site.run(site.suite())
    update_index(site.runs)
    path = store.index_path(site.runs)
    os.truncate(path, int(share * path.stat().st_size))
    assert store.trouble(site.runs) is not None
    assert not update_index(site.runs)
    assert store.trouble(site.runs) is None
    assert len(store.known(site.runs)) == 2


def test_a_trial_that_floods_its_log_is_ended_and_told_by_whoever_sees_it_first(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    flood = "print('v 1')\nwhile True: print('x' * 99_999)"
    suite = site.suite(flood, repeats=1, max_output="3 MB", timeout=300)
    (failure,) = site.run(suite).failures
    assert "max_output is 0.003 GB: print less, or raise it" in failure.run.cause
    monkeypatch.setattr("assay.run.execute.FLOOD_SLACK_BYTES", 0)
    whole = LocalLauncher.submit
    monkeypatch.setattr(
        LocalLauncher, "submit", lambda self, job: whole(self, replace(job, max_output_bytes=None))
    )
    (failure,) = site.run(site.suite(flood, repeats=1, max_output="3 MB", timeout=300)).failures
    assert "of output arrived, more than max_output; the rest was dropped" in failure.run.cause
    (log,) = [a.logs()["rank-0.log"] for a in site.attempts() if a.run().id == failure.run.id]
    assert log.stat().st_size < 5_000_000


def test_a_log_that_lost_bytes_on_the_way_is_a_failure_and_gives_no_figure(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = LocalLauncher.follow

    def lossy(*asked: Any) -> Iterator[Any]:
        for output in whole(*asked):
            yield replace(output, data=output.data[:-5]) if output and output.stream == "rank-0" else output

    monkeypatch.setattr(LocalLauncher, "follow", lossy)
    completed = site.run(site.suite("print('v 2.5'); print('more')", repeats=1))
    (failure,) = completed.failures
    assert "rank-0: the job printed 11 bytes in 2 lines, but 6 bytes arrived" in failure.run.cause
    assert failure.run.state is RunState.FAILED
