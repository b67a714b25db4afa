"""The index, brought up to date with the run directories that it is made from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from assay import read
from assay.errors import InputError, Problem
from assay.records import Reading, Result
from assay.run.answered import answered
from assay.run.index_stamps import DAMAGED
from assay.rundir import session as rundir


def update_index(root: Path, *, rebuild: bool = False) -> tuple[Problem, ...]:
    """Bring the index up to date with the run directories: read what is new or changed, drop what is gone.

    Gives what could not be read. A damaged run stops nothing: it counts as failed, for that reason, and is
    read again each time. Only one of which no file tells what it was is left out. An index that is damaged
    inside is made from nothing, and that is logged.
    Raises HostError and BusyError as `store.update` does.
    """
    return answered(root, lambda: _updated(root, rebuild=rebuild))


def _updated(root: Path, *, rebuild: bool) -> tuple[Problem, ...]:
    from assay import store

    known = {} if rebuild else store.known(root)
    found = {a.run_id: (s, a) for s in rundir.sessions(root) for a in s.last_attempts().values()}
    stamps = {run_id: f"{attempt.stamp()}-{read.VERSIONS}" for run_id, (_, attempt) in found.items()}
    problems: list[Problem] = []
    lost: set[str] = set()

    def changed() -> Iterator[Result]:
        for run_id, (session, attempt) in found.items():
            if known.get(run_id) == stamps[run_id]:
                continue
            try:
                yield read.result(attempt)
            except InputError as error:
                problems.extend(error.problems)
                stamps[run_id] = f"{attempt.stamp()}-{DAMAGED}"
                try:
                    yield Result(session.damaged(attempt, f"can't be read: {error}"), Reading())
                except InputError as unknown:
                    problems.extend(unknown.problems)
                    lost.add(run_id)

    store.update(root, changed(), known.keys() - found.keys(), stamps, rebuild=rebuild)
    if lost & known.keys():  # what it was before it was damaged is not what it is
        store.update(root, (), lost & known.keys())
    return tuple(dict.fromkeys(problems))
