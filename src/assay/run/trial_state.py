"""What to do about a trial, given its attempts so far, and about others that a failure's cause would affect.

Those trials don't start, and none counts as failed. A cause has an `Extent`. If something within that extent
finished in this session, that is evidence against it, and a narrower extent applies: an interpreter that ran
a trial must exist. A namespace that had a job may be gone since. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum, auto

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


class TrialState(Enum):
    """What to do about a trial.

    HELD  it failed for a cause that would affect others too: attempt it again, but not in the same call
    """

    TO_BEGIN = auto()
    TO_TAKE_OVER = auto()
    HELD = auto()
    DONE = auto()


def trial_state(trial: Trial, runs: Sequence[Run]) -> TrialState:
    """What to do about a trial with these attempts, oldest first.

    A trial that the platform lost is repeated, at most `retries` times; a program that failed would only
    fail again, and what somebody else ended is not restarted against their will. An attempt that this run's
    user interrupted, or that ended while no Assay watched it, says nothing about the trial: it is repeated
    and does not count toward `retries`.
    """
    if not runs:
        return TrialState.TO_BEGIN
    if not runs[-1].state.final:
        return TrialState.TO_TAKE_OVER
    if runs[-1].state is RunState.FINISHED:
        return TrialState.DONE
    if _says_nothing(runs[-1]):
        return TrialState.TO_BEGIN
    lost = sum(map(counts_as_lost, runs))
    if runs[-1].job is JobState.LOST and lost <= trial.retries:
        return TrialState.TO_BEGIN
    return TrialState.DONE if runs[-1].extent is Extent.TRIAL else TrialState.HELD


def was_hindered(run: Run) -> bool:
    """Whether an attempt is over and only shows what prevented it."""
    return run.state is RunState.FAILED and (run.extent is not Extent.TRIAL or _says_nothing(run))


def counts_as_lost(run: Run) -> bool:
    """Whether an attempt counts toward `retries`."""
    return run.job is JobState.LOST and not _says_nothing(run)


def _says_nothing(run: Run) -> bool:
    unwatched = run.adopted and run.job in (JobState.LOST, JobState.STOPPED)
    return run.job is JobState.CANCELLED or unwatched


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


def trials_of_extent(extent: Extent, trial: Trial) -> str:
    """The trials of this extent, for people: `system cluster`, `training on cluster`."""
    return {
        Extent.SYSTEM: f"system {trial.system}",
        Extent.PLACE: f"system {trial.system}",
        Extent.SHAPE: f"shape {trial.shape} on {trial.system}",
        Extent.BENCHMARK: f"{trial.benchmark} on {trial.system}",
    }.get(extent, trial.id.rpartition("-r")[0] + f" on {trial.system}")


class DeferredTrials:
    """The failures of this call, and the trials that are left for the next one because of them.

    met   failed attempts whose cause would affect other trials too
    left  trials that are not settled, including those of `met`
    """

    def __init__(self) -> None:
        self.met: list[Run] = []
        self.left: list[Trial] = []

    def meet(self, run: Run) -> str:
        """Record such an attempt; returns which trials no longer start."""
        self.met.append(run)
        self.left.append(run.trial)
        hindered = trials_of_extent(run.extent, run.trial)
        return f"no other trial of {hindered} will start: it would fail for the same reason"

    def hinders(self, trial: Trial) -> bool:
        """Whether a trial would fail for the same reason; if so, it is left."""
        hindered = any(within(run.extent, run.trial, trial) for run in self.met)
        if hindered:
            self.left.append(trial)
        return hindered
