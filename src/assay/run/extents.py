"""Which other trials a failure's cause would affect: they don't start, and none counts as failed. Pure.

A cause has an `Extent`. If something within that extent finished in this session, that is evidence against
it, and a narrower extent applies: an interpreter that ran a trial must exist. A namespace that had a job may
be gone since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from assay.records import Extent, JobState, JobStatus, Run, RunState, Task, Trial

# extent → what trials within it have in common; a trial's digest covers its system
_COMMON = {
    Extent.POINT: ("digest",),
    Extent.BENCHMARK: ("system", "benchmark"),
    Extent.SHAPE: ("system", "shape"),
    Extent.SYSTEM: ("system",),
    Extent.PLACE: ("system",),
}
_NARROWER = {
    Extent.SYSTEM: Extent.BENCHMARK,
    Extent.BENCHMARK: Extent.POINT,
    Extent.SHAPE: Extent.POINT,
    Extent.POINT: Extent.TRIAL,
}
_EXIT_NOT_FOUND = 127
_NOT_INSTALLED = re.compile(
    r"ModuleNotFoundError: (?P<module>No module named '[^']+')"
    r"|.*error while loading shared libraries: (?P<library>.+)"
)


def not_installed(last_line: str) -> str:
    """What a program lacks, judging by its last line; "" if the line reports nothing missing."""
    match = _NOT_INSTALLED.fullmatch(last_line)
    return "" if match is None else match["module"] or match["library"]


def extent_of(status: JobStatus, task: Task, last_line: str) -> Extent:
    """Which trials the cause of this end would affect, judging by the end alone.

    last_line  of the rank that failed first
    """
    if status.extent is Extent.SYSTEM and task.image is not None:
        return Extent.BENCHMARK  # which may set the faulty image
    if status.extent is not Extent.TRIAL or status.state is not JobState.FAILED:
        return status.extent
    first = next((end for end in status.exits if end.first), None)
    if first is not None and first.never_ran:
        of_system = first.exit_code == _EXIT_NOT_FOUND and task.argv[0] == "{python}"
        return Extent.SYSTEM if of_system else Extent.BENCHMARK
    return Extent.BENCHMARK if not_installed(last_line) else Extent.TRIAL


def narrowed(extent: Extent, trial: Trial, runs: Iterable[Run]) -> Extent:
    """The extent, or the widest narrower one within which nothing has finished.

    runs  of the session so far
    """
    finished = [run.trial for run in runs if run.state is RunState.FINISHED]
    while extent in _NARROWER and any(within(extent, trial, other) for other in finished):
        extent = _NARROWER[extent]
    return extent


def within(extent: Extent, trial: Trial, other: Trial) -> bool:
    """Whether a cause of this extent that stopped the trial would stop the other one too."""
    if extent not in _COMMON:
        return trial.id == other.id
    return all(getattr(trial, name) == getattr(other, name) for name in _COMMON[extent])


def called(extent: Extent, trial: Trial) -> str:
    """The trials of this extent, for people: `system cluster`, `training on cluster`."""
    return {
        Extent.SYSTEM: f"system {trial.system}",
        Extent.PLACE: f"system {trial.system}",
        Extent.SHAPE: f"shape {trial.shape} on {trial.system}",
        Extent.BENCHMARK: f"{trial.benchmark} on {trial.system}",
    }.get(extent, trial.id.rpartition("-r")[0] + f" on {trial.system}")
