"""What questions about runs need: a readable index, the runs behind a reference, what was planned."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import BusyError, HostError, InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from assay.analyse.comparison.groups import Metrics
    from assay.errors import Problem
    from assay.records import Plan, Result
    from assay.rundir.session import Session

Names = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A name or path, or a list or tuple of them."""
_log = logging.getLogger("assay")


def runs_directory(path: str | os.PathLike[str] | None = None) -> Path:
    """Where runs are kept: the path, else $ASSAY_RUNS, else `runs/` here."""
    return Path((os.environ.get("ASSAY_RUNS") or "runs") if path is None else path)


def each(*given: Names) -> list[str]:
    """Names or paths as text, one after the other, whether they were given one by one or as lists.

    Raises InputError for what is neither, and where a list is empty.
    """
    found: list[object] = []
    for one in given:
        found += one if isinstance(one, list | tuple) and one else [one]
    for name in found:
        if not isinstance(name, str | os.PathLike):
            raise InputError(f"found {name!r}; expected a name or a path, or a list of them")
    return [os.fspath(name) for name in found if isinstance(name, str | os.PathLike)]


def ready(runs_dir: Path) -> None:
    """Make sure that the index can be read, making it again where it can't, and logging so.

    Raises InputError where there are no runs; nothing is written there.
    """
    from assay import store

    why = store.trouble(runs_dir)
    if why is None:
        return
    from assay.rundir.session import sessions

    if not store.index_path(runs_dir).exists() and next(sessions(runs_dir), None) is None:
        raise InputError(
            f"{runs_dir}: there are no runs here; `assay run SUITE` makes some, --runs names others"
        )
    from assay.run.index import update_index

    _log.info("%s: %s; reading the run directories again", store.index_path(runs_dir), why)
    for problem in update_index(runs_dir):
        _log.warning("%s", problem)


def up_to_date(runs_dir: Path, suite: str | None, session: str | None = None) -> None:
    """Make sure that the index has these runs as their directories are, and log where it had not.

    suite, session  what is asked about; None: all

    Raises InputError for runs of which no file tells what they were.
    """
    from assay import read, store
    from assay.run.index_stamps import outdated

    def concerned(name: str) -> bool:
        return name == f"{suite}/{session}" if session else suite in (None, name.partition("/")[0])

    warn_of_lost_files(runs_dir, concerned)
    changed = outdated(runs_dir, concerned, read.VERSIONS)
    problems = _taken_in(runs_dir, changed)
    if problems is None:
        return
    unknown = set(changed) & set(outdated(runs_dir, concerned)) - store.known(runs_dir).keys()
    if unknown:
        left = f"{min(unknown)}: can't be taken into the index; make it again with `assay index --rebuild`"
        raise InputError(problems or left)
    for problem in problems:
        _log.warning("%s", problem)


def warn_of_lost_files(runs_dir: Path, concerned: Callable[[str], bool]) -> None:
    """Log which sessions lack a file of their own, and what to do.

    concerned  whether a session matters, by `suite/session`
    """
    from assay.rundir import session as rundir

    for session in rundir.sessions(runs_dir):
        if concerned(session.id) and (problem := session.loss) is not None:
            _log.warning("%s", problem)


def catch_up(runs_dir: Path, changed: Sequence[str]) -> bool:
    """Read runs that changed since the index was made, and log which; False where it stays as it is.

    changed  their ids, as `outdated` gives them
    """
    problems = _taken_in(runs_dir, changed)
    for problem in problems or ():
        _log.warning("%s", problem)
    return problems is not None


def _taken_in(runs_dir: Path, changed: Sequence[str]) -> Sequence[Problem] | None:
    """What can't be read of runs that changed; None where none did, or the index can't be written."""
    if not changed:
        return None
    from assay.run.index import update_index

    what = f"{changed[0]} has" if len(changed) == 1 else f"{changed[0]} and {len(changed) - 1} more have"
    _log.info("%s changed since the index was made; reading what changed", what)
    try:
        return update_index(runs_dir)
    except (HostError, BusyError) as error:
        _log.warning("%s; what follows is as the index has it", error)
        return None


def reindex(runs_dir: Path) -> None:
    """Bring the index up to date, or log why not: it can be made again, and the results are there anyway."""
    from assay import store
    from assay.run.index import update_index

    path, why = store.index_path(runs_dir), store.trouble(runs_dir)
    if why is not None and path.exists():
        _log.info("%s: %s; it is made again", path, why)
    try:
        problems = update_index(runs_dir)
    except (HostError, BusyError) as error:
        _log.warning("%s", error)
        _log.warning("the index is not up to date; `assay index` mends it")
        return
    for problem in problems:
        _log.warning("%s", problem)


@dataclass(frozen=True)
class RunSet:
    """What a reference names: its runs, and the plan of the newest session among them where it has one."""

    reference: str
    results: tuple[Result, ...]
    plan: Plan | None

    def by_system(self) -> dict[str, list[Result]]:
        """The runs of each system, the plan's systems in its order."""
        found: dict[str, list[Result]] = {s: [] for s in (self.plan.systems if self.plan else ())}
        for result in self.results:
            found.setdefault(result.run.trial.system, []).append(result)
        return {system: results for system, results in found.items() if results}

    def metrics(self) -> Metrics:
        """What a run's workload declares, led by the metric that the suite calls primary."""
        from assay.analyse.comparison.sides import led_by
        from assay.read import metrics

        return led_by(self.plan.primary_metric if self.plan else {}, metrics)


def run_sets(runs_dir: Path, references: Iterable[str]) -> list[RunSet]:
    """The runs that each reference names, from an index that has them as their directories are.

    Raises InputError with the nearest names where nothing fits one, and for what is no name.
    """
    named = list(references)
    for reference in named:
        if not isinstance(reference, str):
            raise InputError(
                f"found {reference!r}; expected a name of runs, like quickstart or quickstart:here"
            )
    if not named:
        return []
    from assay.run.answered import answered

    ready(runs_dir)
    return answered(runs_dir, lambda: [_run_set(runs_dir, reference) for reference in named])


def run_set(runs_dir: Path, reference: str) -> RunSet:
    """The runs that one reference names, as `run_sets`."""
    return run_sets(runs_dir, [reference])[0]


def _run_set(runs_dir: Path, reference: str) -> RunSet:
    from assay import store
    from assay.rundir.session import Session

    asked = store.parse(reference)
    if asked is None:
        up_to_date(runs_dir, None)
    else:
        up_to_date(runs_dir, asked.suite, asked.session)
    results = tuple(store.find(runs_dir, reference))
    for suite, name in sorted({(result.run.suite, result.run.session) for result in results}):
        _must_be_whole(Session(runs_dir / suite / name))
    newest = max(results, key=lambda result: result.run.session).run
    session = Session(runs_dir / newest.suite / newest.session)
    has_plan = (session.path / "plan.json").is_file()
    return RunSet(reference, results, session.plan() if has_plan else None)


def _must_be_whole(session: Session) -> None:
    """Raises InputError for what an import left that was cut short: its runs are no sample of the whole."""
    if not (session.path / "session.json").is_file():
        return
    header = session.header
    if header.content and header.finished_at is None:
        kept, in_all = len(session.last_attempts()), len(session.plan().trials)
        raise InputError(
            f"{session.id}: its import was cut short, {kept} of {in_all} runs are here; "
            f"the same command completes it: {' '.join(header.command_line)}"
        )
