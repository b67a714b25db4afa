"""The index of run directories: brought up to date, and queried although it may turn out to be damaged."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

from assay import store
from assay.errors import InputError, Problem, UnreadableError
from assay.inputs import unreadable
from assay.records import Reading, Result
from assay.rundir import session as rundir

T = TypeVar("T")
_log = logging.getLogger("assay")
CANNOT_BE_READ: Final = "can't be read: "
"""Begins the cause of a run that could not be read completely."""

DAMAGED: Final = "damaged"
"""Suffix of the stamp of a run that could not be read completely: every index update reads it again."""


def answered(root: Path, question: Callable[[], T]) -> T:
    """The answer to a query of the index; a damaged index is rebuilt and queried again."""
    try:
        return question()
    except store.DamagedIndexError as error:
        _log.info("%s; rebuilding it from the run directories", error)
        update_index(root, rebuild=True)
    return question()


def update_index(
    root: Path, sessions: Collection[str] | None = None, *, rebuild: bool = False
) -> tuple[Problem, ...]:
    """Bring the index up to date with the run directories: read what is new or changed, drop what is gone.

    sessions  look at no others, by `suite/session`; None: at all. An index that is rebuilt has all

    Returns what could not be read. A damaged run stops nothing: it counts as failed for that reason and is
    read again each time. Only a run of which no file says what it was is left out. An index that is damaged
    inside is rebuilt from scratch, which is logged.
    Raises UnreadableError if the machine can't read files now, after everything else is in the index: their
    runs are not in it, so that the next update reads them. Raises HostError and BusyError as `store.update`
    does.
    """
    if rebuild:
        return _updated(root, sessions, rebuild=True)
    return answered(root, lambda: _updated(root, sessions, rebuild=False))


def _updated(root: Path, sessions: Collection[str] | None, *, rebuild: bool) -> tuple[Problem, ...]:
    from assay import read  # imports the readers, which a list of runs does not need

    selected = None if rebuild or store.trouble(root) else sessions
    known = {} if rebuild else store.known(root, selected)
    attempt_by_run = {
        a.run_id: (s, a)
        for s in rundir.sessions(root, lambda name: selected is None or name in selected)
        for a in s.last_attempts().values()
    }
    stamps: dict[str, str] = {}
    problems: list[Problem] = []
    lost: set[str] = set()
    unread: list[Problem] = []

    def changed() -> Iterator[Result]:
        for run_id, (session, attempt) in attempt_by_run.items():
            stamp = f"{attempt.stamp()}-"
            had = known.get(run_id, "")
            if had.startswith(stamp) and read.is_current(had.removeprefix(stamp)):
                continue
            try:
                try:
                    result = read.result(attempt)
                    stamps[run_id] = f"{stamp}{read.read_by(result.run.trial.workload)}"
                except InputError as error:
                    problems.extend(error.problems)
                    stamps[run_id] = f"{stamp}{DAMAGED}"
                    result = Result(session.damaged(attempt, f"{CANNOT_BE_READ}{error}"), Reading())
            except InputError as unknown:
                problems.extend(unknown.problems)
                lost.add(run_id)
            except UnreadableError as error:
                unread.extend(error.problems)
                lost.add(run_id)
            except OSError as error:
                why = unreadable(Path(error.filename or attempt.path), error)
                (problems if isinstance(why, InputError) else unread).extend(why.problems)
                lost.add(run_id)
            else:
                yield result

    store.update(root, changed(), known.keys() - attempt_by_run.keys(), stamps, rebuild=rebuild)
    if lost & known.keys():  # its state before the damage is not its state now
        store.update(root, (), lost & known.keys())
    if unread:
        raise UnreadableError(unread)
    return tuple(dict.fromkeys(problems))


def outdated(
    root: Path, concerned: Callable[[str], bool], is_current: Callable[[str], bool] = lambda _reader: True
) -> list[str]:
    """IDs of runs that the index lacks, has in an old state, or still has although they are gone.

    concerned   whether a session matters, by `suite/session`
    is_current  whether a reader (`read.read_by`) is unchanged; by default, its version does not matter
    """
    from assay import store

    kept = [session for session in store.indexed_sessions(root) if concerned(session)]
    indexed = store.known(root, kept).items()
    known = {run: stamp for run, stamp in indexed if stamp}  # a run without a stamp has no directory
    there: dict[str, str] = {}
    for session in rundir.sessions(root, concerned):
        name = session.id
        there |= {f"{name}/{trial}": f"{stamp}-" for trial, stamp in session.stamps().items()}
    is_unchanged = cache(is_current)
    return sorted(
        run
        for run in known.keys() | there.keys()
        if run not in there
        or not known.get(run, "").startswith(there[run])
        or not ((reader := known[run].removeprefix(there[run])) == DAMAGED or is_unchanged(reader))
    )
