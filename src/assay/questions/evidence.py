"""What questions about runs need: a readable index, the runs that a reference names, the plan."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import BusyError, HostError, InputError, UnreadableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from assay.analyse.points.groups import Metrics
    from assay.errors import Problem
    from assay.records import Plan, Result
    from assay.rundir.session import Session

Names = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A name or path, or a list or tuple of them."""
_log = logging.getLogger("assay")


def runs_directory(path: str | os.PathLike[str] | None = None) -> Path:
    """The directory of the runs: the path, else $ASSAY_RUNS, else `runs/` here.

    Raises InputError if its name is not text, because an index can't have such a name.
    """
    directory = Path((os.environ.get("ASSAY_RUNS") or "runs") if path is None else path)
    try:
        os.fspath(directory).encode()
    except UnicodeEncodeError:
        named = os.fsencode(directory).decode(errors="backslashreplace")
        raise InputError(
            f"{named}: the runs directory's name is not UTF-8; rename it or name another"
        ) from None
    return directory


def each(*arguments: Names) -> list[str]:
    """Names or paths as text in one list, whether they were given individually or as lists.

    Raises InputError for anything else, or if a list is empty.
    """
    names: list[object] = []
    for argument in arguments:
        names += argument if isinstance(argument, list | tuple) and argument else [argument]
    for name in names:
        if not isinstance(name, str | os.PathLike):
            raise InputError(f"found {name!r}; expected a name or a path, or a list of them")
    return [os.fspath(name) for name in names if isinstance(name, str | os.PathLike)]


def ready(runs_dir: Path) -> None:
    """Make sure that the index can be read; if it can't, rebuild it and log that.

    Where it can't be written, as on a full disk, this process has its own one, so that runs can be read.

    Raises InputError if there are no runs; nothing is written there then.
    """
    from assay import store

    why = store.trouble(runs_dir)
    if why is None:
        return
    from assay.rundir.session import sessions

    if not store.index_path(runs_dir).exists() and next(sessions(runs_dir), None) is None:
        raise InputError(
            f"{runs_dir}: there are no runs here; `assay run SUITE` makes some, --runs names another "
            "directory"
        )
    _log.info("%s: %s; reading the run directories again", store.index_path(runs_dir), why)
    try:
        problems = updated(runs_dir)
    except UnreadableError as error:  # for whoever asks for these runs: they are read again then
        problems = error.problems
    for problem in problems:
        _warn(str(problem))


def updated(runs_dir: Path, sessions: Collection[str] | None = None) -> tuple[Problem, ...]:
    """Bring the index up to date, and return what can't be read, as `update_index` does.

    Where the index can't be written, as on a full disk or if only another user may replace it, this process
    continues with a copy of it. Raises HostError if that can't be written either, UnreadableError, BusyError.
    """
    from assay import store
    from assay.run.index import update_index

    try:
        return update_index(runs_dir, sessions)
    except UnreadableError:  # the index could be written
        raise
    except HostError as error:
        if not store.use_own_index(runs_dir):
            raise
        _log.warning("%s", error)
        _log.warning("until then, this process uses its own copy of the index, which takes longer")
        return update_index(runs_dir, sessions)


_warned: set[str] = set()  # what this process has said of files that can't be read


def _warn(problem: str) -> None:
    if problem not in _warned:
        _warned.add(problem)
        _log.warning("%s", problem)


def up_to_date(runs_dir: Path, suite: str | None, session: str | None = None) -> None:
    """Make sure that the index matches the directories of these runs, and log differences.

    suite, session  the runs in question; None: all

    Raises InputError for runs of this suite that no file describes; of all runs, they are logged. Raises
    UnreadableError if the machine can't read runs in question now.
    """
    from assay import store
    from assay.run.index import CANNOT_BE_READ, DAMAGED

    def concerned(name: str) -> bool:
        return name == f"{suite}/{session}" if session else suite in (None, name.partition("/")[0])

    unknown = bring_up_to_date(runs_dir, concerned)
    if unknown and suite is not None:
        raise InputError(unknown)
    for run, why in store.unreadable_runs(runs_dir, f"-{DAMAGED}").items():
        if concerned(run.rpartition("/")[0]):
            _warn(why.removeprefix(CANNOT_BE_READ))


def bring_up_to_date(
    runs_dir: Path, concerned: Callable[[str], bool], *, level: int = logging.INFO
) -> tuple[Problem, ...]:
    """Make sure that the index matches the directories of these sessions, and log differences.

    concerned  whether a session matters, by `suite/session`
    level      of the message that runs have changed

    Returns what is wrong, if runs are left out because no file describes them.
    """
    from assay import read, store
    from assay.errors import Problem
    from assay.run.index import outdated

    warn_of_lost_files(runs_dir, concerned)
    changed = outdated(runs_dir, concerned, read.is_current)
    problems = _taken_in(runs_dir, changed, level)
    if problems is None:
        return ()
    for problem in problems:
        _warn(str(problem))
    unknown = set(changed) & set(outdated(runs_dir, concerned)) - store.known(runs_dir).keys()
    left = "can't be added to the index; rebuild it with `assay index --rebuild`"
    return tuple(problems or [Problem(min(unknown), left)]) if unknown else ()


def warn_of_lost_files(runs_dir: Path, concerned: Callable[[str], bool]) -> None:
    """Log which sessions lack a file, and what to do.

    concerned  whether a session matters, by `suite/session`
    """
    from assay.rundir import session as rundir

    unread: list[Problem] = []
    for session in rundir.sessions(runs_dir, concerned):
        try:
            if (problem := session.loss) is not None:
                _log.warning("%s", problem)
        except UnreadableError as error:
            unread += error.problems
    if unread:
        _warn(str(UnreadableError(unread)))


def catch_up(runs_dir: Path, changed: Sequence[str]) -> bool:
    """Read runs that changed since the index was made, and log them; False if the index can't be updated.

    changed  their ids, from `outdated`
    """
    problems = _taken_in(runs_dir, changed)
    for problem in problems or ():
        _warn(str(problem))
    return problems is not None


def _taken_in(runs_dir: Path, changed: Sequence[str], level: int = logging.INFO) -> Sequence[Problem] | None:
    """What can't be read of changed runs; None if none changed, or no index can be written."""
    if not changed:
        return None
    what = f"{changed[0]} has" if len(changed) == 1 else f"{changed[0]} and {len(changed) - 1} more have"
    _log.log(level, "%s changed since the index was made; reading what changed", what)
    try:
        return updated(runs_dir, {run.rpartition("/")[0] for run in changed})
    except UnreadableError:  # the answer would lack runs that may be whole
        raise
    except (HostError, BusyError) as error:
        _log.warning("%s; using the index as it is", error)
        return None


def reindex(runs_dir: Path, sessions: Collection[str] | None = None) -> None:
    """Bring the index up to date, or log why not: it can be rebuilt, and the results are stored anyway.

    sessions  look at no others, by `suite/session`: whoever asks for them finds what has changed; None: all
    """
    from assay import store
    from assay.run.index import update_index

    path, why = store.index_path(runs_dir), store.trouble(runs_dir)
    if why is not None and path.exists():
        _log.info("%s: %s; rebuilding it", path, why)
    try:
        problems = update_index(runs_dir, sessions)
    except (HostError, BusyError) as error:
        _log.warning("%s", error)
        _log.warning("the index is not up to date; `assay index` updates it")
        return
    for problem in problems:
        _warn(str(problem))


@dataclass(frozen=True)
class RunSet:
    """What a reference names: its runs, and the plan of their newest session if it has one."""

    reference: str
    results: tuple[Result, ...]
    plan: Plan | None

    def by_system(self) -> dict[str, list[Result]]:
        """The runs of each system, with the plan's systems in its order."""
        by_system: dict[str, list[Result]] = {s: [] for s in (self.plan.systems if self.plan else ())}
        for result in self.results:
            by_system.setdefault(result.run.trial.system, []).append(result)
        return {system: results for system, results in by_system.items() if results}

    def metrics(self) -> Metrics:
        """What a run's workload declares, with the suite's primary metric first."""
        from assay.analyse.comparison.sides import led_by
        from assay.read import metrics

        return led_by(self.plan.primary_metric if self.plan else {}, metrics)


def run_sets(runs_dir: Path, references: Iterable[str | os.PathLike[str]]) -> list[RunSet]:
    """The runs that each reference names, from an index that matches their directories.

    Raises InputError with the nearest names if a reference matches nothing or is not a name.
    """
    named = [
        os.fspath(reference) if isinstance(reference, os.PathLike) else reference for reference in references
    ]
    for reference in named:
        if not isinstance(reference, str) or not reference:
            raise InputError(
                f"found {reference!r}; expected a name of runs, such as quickstart or quickstart:here"
            )
    if not named:
        return []
    from assay.run.index import answered

    ready(runs_dir)
    return answered(runs_dir, lambda: [_run_set(runs_dir, reference) for reference in named])


def run_set(runs_dir: Path, reference: str | os.PathLike[str]) -> RunSet:
    """The runs that one reference names, as for `run_sets`."""
    return run_sets(runs_dir, [reference])[0]


def _run_set(runs_dir: Path, reference: str) -> RunSet:
    from assay import store
    from assay.rundir.session import Session

    parsed = store.parse(reference)
    if parsed is None:
        up_to_date(runs_dir, None)
    else:
        up_to_date(runs_dir, parsed.suite, parsed.session)
    results = tuple(store.find(runs_dir, reference))
    for suite, name in sorted({(result.run.suite, result.run.session) for result in results}):
        _must_be_whole(Session(runs_dir / suite / name))
    newest = max(results, key=lambda result: result.run.session).run
    session = Session(runs_dir / newest.suite / newest.session)
    has_plan = (session.path / "plan.json").is_file()
    return RunSet(reference, results, session.plan() if has_plan else None)


def _must_be_whole(session: Session) -> None:
    """Raises InputError for an incomplete import: its runs are not a sample of the whole."""
    if not (session.path / "session.json").is_file():
        return
    header = session.header
    if header.content and header.finished_at is None:
        kept, in_all = len(session.last_attempts()), len(session.plan().trials)
        raise InputError(
            f"{session.id}: its import was interrupted, {kept} of {in_all} runs are here; "
            f"the same command completes it: {' '.join(header.command_line)}"
        )
