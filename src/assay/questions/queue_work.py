"""The process that runs what waits in the queue, one request after the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NoReturn

from assay.errors import AssayError, InterruptedRun
from assay.questions.evidence import runs_directory
from assay.questions.question import RUNS, FileText, Question, Reference, option, question, supplied
from assay.registry import imported
from assay.run.progress import Tell

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from assay.questions.run import Outcome
    from assay.queue import QueueDirectory, QueuedRun, QueueRequest
    from assay.records import Plan, Run
    from assay.run.progress import Progress
    from assay.run.request import RunRequest
    from assay.rundir.session import Session

MOST_STARTS = 4  # of a run whose process is killed each time
TEMPLATE_JOB = "assay.data.questions.submit:data_job"
LOOK_S = 0.5  # between looks at whether somebody asked a run to stop, or another process's run ended
SECRET_VARIABLES = ("ASSAY_TOKENS", "ASSAY_TOKEN")  # of the server, not of the runs that it starts


@question
class WorkQueue(Question):
    """Run what waits in the queue, one after the other, until nothing does.

    It is started by itself when something is added; start it by hand after a machine was restarted. A run
    whose process was killed is resumed, up to three times.

    \b
    Exit codes: 0 nothing waits; 6 another process works on the queue.
    """

    has_json: ClassVar[bool] = False

    name: str | None = option(
        "Only this one, in this process.", default=None, metavar="RUN", names=("--run",)
    )
    runs: Reference | None = option(RUNS, default=None, local=True)
    progress: Tell | None = supplied("sessions", default=None)

    def answer(self) -> FileText:
        """Nothing to say, once nothing waits."""
        if self.name is None:
            work_queue(runs=self.runs)
        else:
            from assay.run.progress import Silence

            work_on(self.name, tell=self.progress or Silence, runs=self.runs)
        return FileText("")


def start_worker(*, runs: str | PathLike[str] | None = None) -> bool:
    """See that a process takes requests if any wait; it outlives this one. Returns whether it was started."""
    directory = queue_directory(runs)
    if directory.next() is None or directory.has_worker:
        return False
    with (directory.path / "worker.log").open("ab") as log:
        worker = subprocess.Popen(
            _assay("work", directory.runs),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=_environment(),
        )
    threading.Thread(target=worker.wait, name="queue-worker", daemon=True).start()
    return True


def work_queue(*, runs: str | PathLike[str] | None = None) -> int:
    """Run what waits, one after the other, until nothing does, like `assay queue work`; returns how many.

    Each has its own process, which goes on if this one is killed. Raises BusyError if another works.
    """
    directory, count = queue_directory(runs), 0
    while directory.next() is not None:  # looked at again without the lock: one may have been added meanwhile
        with directory.worker():
            while (queued_run := directory.next()) is not None:
                if queued_run.state == "running":
                    time.sleep(LOOK_S)
                    continue
                if _is_over(directory, queued_run):
                    continue
                _run_apart(directory, queued_run)
                count += 1
    return count


def work_on(name: str, *, tell: Tell, runs: str | PathLike[str] | None = None) -> Outcome | None:
    """Run one request in this process to its end, and record that; None if it was stopped or failed.

    tell  makes the receiver of its progress
    """
    from assay.queue import QueueOutcome

    directory = queue_directory(runs)
    signal.signal(signal.SIGTERM, _interrupt)  # before the session handles it itself
    answer: Outcome | None = None
    with directory.running(name):
        directory.note_start(name, time.time())
        _watch_for_stop(directory, name)
        try:
            answer, summary = _run(directory, name, tell)
            outcome = QueueOutcome(answer, summary, time.time())
        except (InterruptedRun, KeyboardInterrupt):
            stopping = directory.one(name).stopping
            if not stopping:  # the machine shuts down: resumed later
                return None
            outcome = QueueOutcome("stopped", "stopped on request; the same run resumes it", time.time())
        except AssayError as error:
            outcome = QueueOutcome("error", str(error), time.time())
        directory.end(name, outcome)
    return answer


def suite_request(queued: QueueRequest, runs_dir: Path) -> RunRequest:
    """What to run for a request of a suite. Raises InputError for limits that it can't have."""
    from assay.questions.plan import limits_of
    from assay.run.request import RunRequest

    file = Path(queued.file)
    limits = limits_of("decided" if queued.decided else None, queued.max_repeats, None)
    flag = ("--failed",) if queued.failed else ("--new",) if queued.new else ()
    line = ("assay", "run", str(file), *(w for s in queued.systems for w in ("--system", s)), *flag)
    return RunRequest(
        file,
        runs_dir,
        only=queued.systems,
        failed=queued.failed,
        until=limits,
        command_line=line,
    )


def template_request(queued: QueueRequest, runs_dir: Path) -> RunRequest:
    """The same for a template, on the frames that are chosen now. Raises InputError if there is none."""
    from assay.run.request import RunRequest

    job = imported(TEMPLATE_JOB)(
        queued.file, labels=queued.labels, params=queued.params, system=queued.system,
        shape=queued.shape, limit=queued.limit, seed=queued.seed, runs=runs_dir,
    )  # fmt: skip
    chosen = [w for name, value in queued.labels.items() for w in ("--set", f"{name}={value}")]
    line = ("assay", "data", "submit", queued.file, *chosen)
    return RunRequest(
        job.plan.run.suite, runs_dir, job.plan.run.systems, failed=queued.failed, command_line=line
    )


def _run(directory: QueueDirectory, name: str, tell: Tell) -> tuple[Outcome, str]:
    from assay.questions.run import RunResult, contents_of
    from assay.run.drive import run_suite

    queued_run = directory.one(name)
    queue_request, begun_at = queued_run.request, queued_run.starts[0]
    request = (template_request if queue_request.template else suite_request)(queue_request, directory.runs)
    if queue_request.new:  # of a run that was killed before, the session that it began is resumed
        request = replace(request, begun_since=begun_at)
    if queued_run.session:
        request = replace(request, failed=False)

    def tell_progress(session: Session, plan: Plan, done: Sequence[Run]) -> Progress:
        directory.note_session(name, session.id)
        return tell(session, plan, done)

    completed = run_suite(request, tell_progress)
    result = RunResult(completed, contents_of(completed, request.runs_dir))
    failed = len(completed.failures)
    summary = f"{len(completed.results)} trials, {failed} failed" + f", {len(completed.left)} left" * bool(
        completed.left
    )
    return result.outcome, summary


def _is_over(directory: QueueDirectory, queued_run: QueuedRun) -> bool:
    """Whether a request that isn't running need not be started; its end is then recorded."""
    from assay.queue import QueueOutcome
    from assay.rundir.session import Session

    if queued_run.stopping:
        outcome = QueueOutcome("stopped", "stopped before it ran", time.time())
    elif queued_run.session and _finished(Session(directory.runs / queued_run.session)):
        outcome = QueueOutcome("done", "its process was killed after the session had ended", time.time())
    elif len(queued_run.starts) >= MOST_STARTS:
        outcome = QueueOutcome("error", f"its process was killed {len(queued_run.starts)} times", time.time())
    else:
        return False
    directory.end(queued_run.id, outcome)
    return True


def _finished(session: Session) -> bool:
    return not session.lost_files and session.header.finished_at is not None


def _run_apart(directory: QueueDirectory, queued_run: QueuedRun) -> None:
    """Run a request in its own process, and wait for that."""
    place, before = directory.place(queued_run.id), len(queued_run.starts)
    with (place / "output.log").open("ab") as output:
        process = subprocess.run(
            [*_assay("work", directory.runs), "--run", queued_run.id],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=_environment(),
            check=False,
        )
    if len(directory.one(queued_run.id).starts) == before:  # it could not even begin: don't try for ever
        directory.note_start(queued_run.id, time.time())
        if process.returncode < 0:
            time.sleep(LOOK_S)


def _watch_for_stop(directory: QueueDirectory, name: str) -> None:
    """Send this process SIGTERM once somebody asked the run to stop."""
    stop = directory.place(name) / "stop"

    def watch() -> None:
        while not stop.exists():
            time.sleep(LOOK_S)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="stop", daemon=True).start()


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _assay(verb: str, runs_dir: Path) -> list[str]:
    return [sys.executable, "-P", "-m", "assay", "queue", verb, "--runs", str(runs_dir.absolute())]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in SECRET_VARIABLES}


def queue_directory(runs: str | PathLike[str] | None) -> QueueDirectory:
    """The queue of a runs directory."""
    from assay.queue import QueueDirectory

    return QueueDirectory(runs_directory(runs))
