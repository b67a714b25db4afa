"""Runs that wait for their turn: added, looked at, stopped, and worked on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from assay.errors import AssayError, InputError, InterruptedRun, Problem
from assay.questions.evidence import runs_directory
from assay.registry import imported

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from assay.questions.run import Outcome
    from assay.queue import QueueDirectory, QueuedRun, QueueRequest
    from assay.records import Plan, Run
    from assay.run.progress import Progress, Tell
    from assay.run.request import RunRequest
    from assay.rundir.session import Session

MOST_STARTS = 4  # of a run whose process is killed each time
TEMPLATE_JOB = "assay.data.questions.submit:data_job"
LOOK_S = 0.5  # between looks at whether somebody asked a run to stop, or another process's run ended
OF_SUITES = ("systems", "decided", "max_repeats")  # fields of a request that only a suite has
OF_TEMPLATES = ("labels", "params", "system", "shape", "limit", "seed")
SECRET_VARIABLES = ("ASSAY_TOKENS", "ASSAY_TOKEN")  # of the server, not of the runs that it starts


@dataclass(frozen=True)
class RunQueue:
    """The result of `queue`: every request, oldest first, and whether a process takes them now."""

    runs: tuple[QueuedRun, ...]
    has_worker: bool

    def document(self) -> dict[str, Any]:
        """Every request, oldest first."""
        return {
            "schema": "assay.queue/1",
            "has_worker": self.has_worker,
            "runs": [queued_run_document(run) for run in self.runs],
        }


def queue(*, runs: str | PathLike[str] | None = None) -> RunQueue:
    """What waits, runs and ended in the queue of a runs directory, like `assay queue list`.

    runs  directory of the runs; None means $ASSAY_RUNS, or else `runs` here
    """
    directory = _directory(runs)
    return RunQueue(tuple(directory.all()), directory.has_worker)


def enqueue(request: QueueRequest, *, runs: str | PathLike[str] | None = None) -> QueuedRun:
    """Put a run at the end of the queue, like `assay queue add`, and see that a process takes it.

    Raises InputError with everything that can't be run as written, BusyError if too many wait.
    """
    _checked(request, runs_directory(runs))
    directory = _directory(runs)
    name = directory.add(request)
    start_worker(runs=runs)
    return directory.one(name)


def can_be_repeated(queued_run: QueuedRun, *, runs: str | PathLike[str] | None = None) -> bool:
    """Whether trials of what a run of the queue made have failed, or can't be read: the run says which."""
    from assay.run.session_choice import failed_trials
    from assay.rundir.session import Session

    if not queued_run.session:
        return False
    session = Session(runs_directory(runs) / queued_run.session)
    try:
        return bool(failed_trials(session, session.plan()))
    except InputError:
        return True


def stop_queued(name: str, by: str, *, runs: str | PathLike[str] | None = None) -> QueuedRun:
    """Stop a run of the queue, or keep it from starting, like `assay queue stop`.

    A running one ends what it started and can be resumed. Raises InputError if there is none, or it ended.
    """
    directory = _directory(runs)
    queued_run = directory.one(name)
    if queued_run.outcome is not None:
        raise InputError(f"run {name} of the queue has ended already")
    directory.ask_to_stop(name, by)
    start_worker(runs=runs)
    return directory.one(name)


def start_worker(*, runs: str | PathLike[str] | None = None) -> bool:
    """See that a process takes requests if any wait; it outlives this one. Returns whether it was started."""
    directory = _directory(runs)
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
    directory, count = _directory(runs), 0
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

    directory = _directory(runs)
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


_KEYS_OF_SUITES = ("workload", "benchmarks", "template")  # every suite has one of the first two


def suites_in(place: Path) -> list[tuple[str, bool]]:
    """Suites and templates below a directory: path relative to it, and whether it is a template; sorted.

    Only plain files count, up to three directories deep; links are not followed.
    """
    from assay.suite import document

    suites = []
    for depth in ("", "*/", "*/*/", "*/*/*/"):
        for path in place.glob(f"{depth}*.yaml"):
            inside = not path.is_symlink() and path.resolve().is_relative_to(place.resolve())
            data = document.read(path).data if inside and path.is_file() else None
            if isinstance(data, dict) and not data.keys().isdisjoint(_KEYS_OF_SUITES):
                suites.append((str(path.relative_to(place)), "template" in data))
    return sorted(suites)


def suite_in(place: Path, name: str) -> tuple[Path, bool]:
    """A suite or template by its path below a directory, and whether it is a template.

    Raises InputError if `suites_in` does not list it: nothing else can be named.
    """
    from assay.suite.findings import suggestion

    known = dict(suites_in(place))
    if name not in known:
        raise InputError(f"there is no suite {name!r} here; {suggestion(name, known)}")
    return (place / name).resolve(), known[name]


def _checked(request: QueueRequest, runs_dir: Path) -> None:
    """Raises InputError with everything that can't be run as written."""
    if request.failed and request.new:
        raise InputError(
            "failed repeats trials of an existing session, and new starts another one: choose one"
        )
    kind, others = ("template", OF_SUITES) if request.template else ("suite", OF_TEMPLATES)
    unused = [name for name in others if getattr(request, name) not in (None, False, (), {})]
    if unused:
        allowed = ", ".join(OF_TEMPLATES if request.template else OF_SUITES)
        what = f"is not for a {kind}, which would ignore it; a {kind} has {allowed}"
        raise InputError([Problem(name, what) for name in unused])
    if request.template:
        _template_job(request, runs_dir)
        return
    from assay.run.request import plan_of

    plan_of(_request(request, runs_dir))


def _request(queued: QueueRequest, runs_dir: Path) -> RunRequest:
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


def _template_job(queued: QueueRequest, runs_dir: Path) -> RunRequest:
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
    request = (_template_job if queue_request.template else _request)(queue_request, directory.runs)
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


def _directory(runs: str | PathLike[str] | None) -> QueueDirectory:
    from assay.queue import QueueDirectory

    return QueueDirectory(runs_directory(runs))


def queued_run_document(run: QueuedRun) -> dict[str, Any]:
    """One request and what became of it, without secrets."""
    from assay import redact
    from assay.records import to_plain

    plain: dict[str, Any] = redact.redacted(to_plain(run))
    return plain
