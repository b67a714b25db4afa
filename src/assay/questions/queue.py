"""Runs that wait for their turn: added, looked at and stopped."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from assay.errors import InputError, Problem
from assay.questions.evidence import runs_directory
from assay.questions.question import RUNS, Answer, FileText, Question, Reference, argument, option, question
from assay.questions.queue_work import queue_directory, start_worker, suite_request, template_request
from assay.questions.values import PresentFile
from assay.registry import CommandTable
from assay.view.blocks import Paragraph, Table, TableBody, TableRow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from assay.queue import QueuedRun, QueueRequest
    from assay.view.blocks import Block

OF_SUITES = ("systems", "decided", "max_repeats")  # fields of a request that only a suite has
OF_TEMPLATES = ("labels", "params", "system", "shape", "limit", "seed")
COMMANDS: Final = CommandTable(
    """Run suites one after the other; a browser with `assay serve --allow run` adds to the same queue.

    \b
    Examples:
      assay queue add my-suite/suite.yaml
      assay queue list
    """,
    {
        "list": ("assay.questions.queue:ListQueue", "List what waits, runs and ended."),
        "add": ("assay.questions.queue:Enqueue", "Put a suite at the end of the queue."),
        "stop": ("assay.questions.queue:StopQueued", "Stop a run, or keep it from starting."),
        "work": (
            "assay.questions.queue_work:WorkQueue",
            "Run what waits, one after the other, until nothing does.",
        ),
    },
)


@question
class ListQueue(Question):
    """List what waits, runs and ended in the queue, oldest first."""

    runs: Reference | None = option(RUNS, default=None, local=True)

    def answer(self) -> RunQueue:
        """Every request."""
        return queue(runs=self.runs)


@question
class Enqueue(Question):
    """Put SUITE at the end of the queue, and see that a process takes it.

    That process goes on when this command, or a server, ends. Its progress is in the queue's directory.

    \b
    Exit codes: 0 it is in the queue; 4 it can't be run as written; 6 too many wait.
    """

    has_json: ClassVar[bool] = False

    suite: PresentFile = argument()
    system: Sequence[str] = option("Run only this system; repeatable.", default=(), metavar="NAME")
    new: bool = option("Start a new session even if one is unfinished.", default=False)
    failed: bool = option("Repeat the failed trials of the newest session.", default=False)
    runs: Reference | None = option(RUNS, default=None, local=True)

    def __post_init__(self) -> None:
        refuse_both(new=self.new, failed=self.failed)

    def answer(self) -> FileText:
        """The name of the run in the queue."""
        from assay.queue import QueueRequest, own_user_name

        file, by = str(Path(self.suite).resolve()), own_user_name()
        systems = tuple(self.system)
        request = QueueRequest(file, by, time.time(), systems, failed=self.failed, new=self.new)
        return FileText(f"{enqueue(request, runs=self.runs).id}\n")


def refuse_both(*, new: bool, failed: bool) -> None:
    """Raises ValueError for both."""
    if new and failed:
        raise ValueError("--failed repeats trials of an existing session; --new starts another one")


@question
class StopQueued(Question):
    """Stop RUN of the queue, or keep it from starting.

    What it started is ended, as after Ctrl-C; the same suite resumes its session.
    """

    has_json: ClassVar[bool] = False

    name: str = argument(metavar="RUN")
    runs: Reference | None = option(RUNS, default=None, local=True)

    def answer(self) -> FileText:
        """Nothing to say, once it is asked to stop."""
        from assay.queue import own_user_name

        stop_queued(self.name, own_user_name(), runs=self.runs)
        return FileText("")


@dataclass(frozen=True)
class RunQueue(Answer):
    """The result of `queue`: every request, oldest first, and whether a process takes them now."""

    runs: tuple[QueuedRun, ...]
    has_worker: bool

    def view(self) -> Iterator[Block]:
        """A line for each request."""
        if not self.runs:
            yield Paragraph("The queue is empty.")
            return
        rows = tuple(TableRow(_cells(run)) for run in self.runs)
        yield Table("", ("",) * 5, (TableBody("", rows),), frozenset(range(5)), listing=True)

    def document(self) -> dict[str, Any]:
        """Every request, oldest first."""
        return {
            "schema": "assay.queue/1",
            "has_worker": self.has_worker,
            "runs": [queued_run_document(run) for run in self.runs],
        }


def _cells(run: QueuedRun) -> tuple[str, ...]:
    outcome = "" if run.outcome is None else f"{run.outcome.answer}: {run.outcome.words}"
    cells = (run.id, run.state, run.session or run.request.file, f"by {run.request.by}", outcome)
    return tuple(" ".join(cell.splitlines()) for cell in cells)  # one line a request


def queue(*, runs: str | PathLike[str] | None = None) -> RunQueue:
    """What waits, runs and ended in the queue of a runs directory, like `assay queue list`.

    runs  directory of the runs; None means $ASSAY_RUNS, or else `runs` here
    """
    directory = queue_directory(runs)
    return RunQueue(tuple(directory.all()), directory.has_worker)


def enqueue(request: QueueRequest, *, runs: str | PathLike[str] | None = None) -> QueuedRun:
    """Put a run at the end of the queue, like `assay queue add`, and see that a process takes it.

    Raises InputError with everything that can't be run as written, BusyError if too many wait.
    """
    _checked(request, runs_directory(runs))
    directory = queue_directory(runs)
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
    directory = queue_directory(runs)
    queued_run = directory.one(name)
    if queued_run.outcome is not None:
        raise InputError(f"run {name} of the queue has ended already")
    directory.ask_to_stop(name, by)
    start_worker(runs=runs)
    return directory.one(name)


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
        template_request(request, runs_dir)
        return
    from assay.run.request import plan_of

    plan_of(suite_request(request, runs_dir))


def queued_run_document(run: QueuedRun) -> dict[str, Any]:
    """One request and what became of it, without secrets."""
    from assay import redact
    from assay.records import to_plain

    plain: dict[str, Any] = redact.redacted(to_plain(run))
    return plain
