"""Where a job stands, from what its keepers wrote and its batch system says; the keepers' word goes first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from assay.launch.batch.life import QueueAnswer
from assay.launch.batch.queue import QueuedJob
from assay.launch.batch.shared_directory import SharedJobDirectory
from assay.records import JobState, JobStatus

# As a shell reports a program; Slurm's `code:signal` of the script itself
_KILLED = re.compile(r"137(:0)?|0:9")


def of_ended(job: SharedJobDirectory, end: JobStatus, asked: QueueAnswer, called: str) -> JobStatus:
    """The end as the keepers report it, and who made it where they or the job were ended.

    Ranks that handle SIGTERM may end well, or with a failure of their own, before their keeper is asked to:
    so what the batch system did to the job counts, whatever they say.

    called  the batch system
    """
    told = asked.told
    if job.was_cancelled() or not (end.state is JobState.CANCELLED or _ended_from_outside(end, asked)):
        return end
    if told is None:
        why = asked.silent or "it does not know the job any more"
        cause = f"its keepers were asked to end, and {called} does not say by whom: {why}"
        return replace(end, state=JobState.LOST, cause=cause)
    said = f"; before that: {end.cause}" if end.state is JobState.FAILED else ""
    if asked.requeued:
        return replace(end, state=JobState.LOST, cause=_why_requeued(told, called) + said)
    state, cause = told.end(()) or (JobState.STOPPED, why_stopped(told, called))
    return replace(end, state=state, cause=cause + said)


def _ended_from_outside(end: JobStatus, asked: QueueAnswer) -> bool:
    """Whether somebody, or the batch system, ended a job although its keepers were not asked to end."""
    from_outside = asked.told is not None and asked.told.ended_from_outside
    return end.state in (JobState.SUCCEEDED, JobState.FAILED) and (from_outside or asked.put_back)


def without_word(
    job: SharedJobDirectory, asked: QueueAnswer, failed_nodes: Sequence[str], called: str
) -> JobStatus:
    """Where a job stands whose keepers have not all said how it ended.

    asked         the batch system's answer, and there is one
    failed_nodes  those of its nodes that are down
    called        the batch system
    """
    told, started_at = asked.told, job.started_at()
    if job.given_up():
        return JobStatus(JobState.CANCELLED, "cancelled before it started")
    if told is None:
        cause = f"{called} does not know the job any more, and its keeper left no word"
        return JobStatus(JobState.LOST, cause, started_at=started_at)
    if asked.requeued:
        return JobStatus(JobState.LOST, _why_requeued(told, called), started_at=started_at)
    if started_at is not None and not told.over:  # whatever it said a moment ago
        if job.overdue() and not told.suspended:
            state = JobState.CANCELLED if job.was_cancelled() else JobState.LOST
            return JobStatus(state, _why_overdue(job, told, called), started_at=started_at)
        return JobStatus(JobState.RUNNING, _silent(job, told, called) or told.trouble, started_at=started_at)
    if told.waits:
        return JobStatus(JobState.PENDING, told.why_waits())
    if not told.over:
        return JobStatus(JobState.PENDING, job.waits_for() or f"starting on {told.nodes}")
    return _over(job, told, failed_nodes, started_at, called)


def _silent(job: SharedJobDirectory, told: QueuedJob, called: str) -> str:
    """Whose end is waited for where other nodes have ended their shares; "" where none has."""
    silent = job.silent_nodes()
    if len(silent) == len(job.shares()):
        return ""
    names = ", ".join(job.hosts()[node] or str(node) for node in silent)
    return f"the others have ended, {names} has not said how its share ended, and {called} says {told.state}"


def _why_overdue(job: SharedJobDirectory, told: QueuedJob, called: str) -> str:
    names = ", ".join(job.hosts()[node] or str(node) for node in job.silent_nodes())
    return (
        f"the keeper of {names} left no word by the trial's time limit of {job.spec()['timeout_s']:g} s, and "
        f"{called} still says {told.state}: its node was started anew, or it was killed there"
    )


def _over(
    job: SharedJobDirectory,
    told: QueuedJob,
    failed_nodes: Sequence[str],
    started_at: float | None,
    called: str,
) -> JobStatus:
    """The batch system says that it has ended, and not every keeper has."""
    end = told.end(failed_nodes)
    if job.was_cancelled() and not told.lost_node:
        return JobStatus(JobState.CANCELLED, "cancelled", started_at=started_at)
    said = job.script_said()
    words = f"; its script said: {said}" if said else ""
    if end is not None:
        return JobStatus(end[0], end[1] + words, started_at=started_at)
    if started_at is not None:
        silent = ", ".join(map(str, job.silent_nodes()))
        if (early := job.failed_early()) is not None:
            return replace(early, cause=f"{early.cause}, before node {silent} of {told.nodes} had begun")
        cause = f"the keeper of node {silent} of {told.nodes} left no word; {why_over(told, called)}"
        cause += f"; {', '.join(failed_nodes)}" if failed_nodes else ""
        return JobStatus(JobState.LOST, cause + words, started_at=started_at)
    if _KILLED.fullmatch(told.exit_code):
        cause = "the batch script or a keeper was killed by SIGKILL before the ranks started"
        return JobStatus(JobState.LOST, f"{cause}; {why_over(told, called)}{words}")
    return JobStatus(JobState.FAILED, told.why_not_started() + words)


def why_stopped(told: QueuedJob, called: str) -> str:
    """That somebody else ended the job."""
    reason = f" ({told.why})" if told.why else ""
    return f"somebody else ended the job, and not this run: {called} says {told.state}{reason}"


def why_over(told: QueuedJob, called: str) -> str:
    """With which words the batch system calls the job over."""
    reason = f", {told.why}" if told.why else ""
    return f"{called} says {told.state}{reason}, exit code {told.exit_code or 'unknown'}"


def _why_requeued(told: QueuedJob, called: str) -> str:
    why = f" ({told.why})" if told.why else ""
    return f"{called} requeued it{why}; what it did before is not mixed with what it would do again"
