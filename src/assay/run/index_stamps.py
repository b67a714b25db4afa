"""Whether the index matches the run directories: compares their stamps without reading a run."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from assay.rundir import session as rundir

CANNOT_BE_READ: Final = "can't be read: "
"""Begins the cause of a run that could not be read completely."""

DAMAGED: Final = "damaged"
"""Suffix of the stamp of a run that could not be read completely: every index update reads it again."""


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
