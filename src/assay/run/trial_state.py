"""What to do about a trial, given its attempts so far. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, auto

from assay.records import Extent, JobState, Run, RunState, Trial


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
