"""The index of run directories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import InputError
from assay.questions.evidence import runs_directory

if TYPE_CHECKING:
    from os import PathLike

    from assay.errors import Problem


@dataclass(frozen=True)
class IndexUpdate:
    """The result of `index`.

    path       of the index
    runs       that it now has; `read` of them anew, and `gone` since it was made
    made_anew  why it was rebuilt; None if it was not
    problems   run directories that could not be read, sessions that lack a file
    """

    path: Path
    runs: int
    read: int
    gone: int
    made_anew: str | None
    problems: tuple[Problem, ...]


def index(*, rebuild: bool = False, runs: str | PathLike[str] | None = None) -> IndexUpdate:
    """Bring the index in line with the run directories, like `assay index`.

    rebuild  start with an empty one
    runs     directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if there is no such directory.
    """
    from assay import store
    from assay.run.index import update_index
    from assay.rundir.session import sessions

    directory = runs_directory(runs)
    if not directory.is_dir():
        raise InputError(f"{directory}: no such directory; name one with --runs")
    why = "--rebuild" if rebuild else store.trouble(directory)
    try:
        before = {} if why else store.known(directory)
    except store.DamagedIndexError as damaged:
        why, before = str(damaged), {}
    problems = update_index(directory, rebuild=why is not None)
    lost = [problem for session in sessions(directory) if (problem := session.loss) is not None]
    after = store.known(directory)
    return IndexUpdate(
        path=store.index_path(directory),
        runs=len(after),
        read=sum(before.get(run) != stamp for run, stamp in after.items()),
        gone=len(before.keys() - after.keys()),
        made_anew=why,
        problems=(*lost, *problems),
    )
