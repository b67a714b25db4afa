"""The index, brought up to date with the run directories that it is made from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from assay import read
from assay.errors import InputError, Problem
from assay.records import Result
from assay.rundir import session as rundir


def update_index(root: Path, *, rebuild: bool = False) -> tuple[Problem, ...]:
    """Bring the index up to date with the run directories: read what is new or changed, drop what is gone.

    Gives what could not be read: a damaged run is left out of the index and stops nothing.
    Raises HostError and BusyError as `store.update` does.
    """
    from assay import store

    known = {} if rebuild else store.known(root)
    found = {a.run_id: a for session in rundir.sessions(root) for a in session.last_attempts().values()}
    stamps = {run_id: f"{attempt.stamp()}-{read.VERSIONS}" for run_id, attempt in found.items()}
    damaged: dict[str, Sequence[Problem]] = {}

    def changed() -> Iterator[Result]:
        for run_id, attempt in found.items():
            if known.get(run_id) != stamps[run_id]:
                try:
                    yield read.result(attempt)
                except InputError as error:
                    damaged[run_id] = error.problems

    store.update(root, changed(), known.keys() - found.keys(), stamps, rebuild=rebuild)
    if damaged.keys() & known.keys():  # what it was before it was damaged is not what it is
        store.update(root, (), damaged.keys() & known.keys())
    return tuple(problem for problems in damaged.values() for problem in problems)
