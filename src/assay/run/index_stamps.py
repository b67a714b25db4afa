"""Whether the index is as the run directories are: their stamps are compared, and no run is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from assay.rundir import session as rundir

DAMAGED: Final = "damaged"
"""Ends the stamp of a run that could not be read whole: it is read again whenever the index is updated."""


def outdated(root: Path, concerned: Callable[[str], bool], readers: str = "") -> list[str]:
    """Ids of runs that the index lacks, has as they were, or has though they are gone.

    concerned  whether a session matters, by `suite/session`
    readers    version of the readers that have to have read them; "": of any
    """
    from assay import store

    indexed = store.known(root).items()  # a run without a stamp was made from no directory
    known = {run: stamp for run, stamp in indexed if stamp and concerned(run.rpartition("/")[0])}
    there = {
        attempt.run_id: f"{attempt.stamp()}-"
        for session in rundir.sessions(root)
        if concerned(session.id)
        for attempt in session.last_attempts().values()
    }
    return sorted(
        run
        for run in known.keys() | there.keys()
        if run not in there
        or not known.get(run, "").startswith(there[run])
        or not known[run].endswith((readers, DAMAGED))
    )
