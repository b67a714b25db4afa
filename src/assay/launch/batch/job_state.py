"""A job's state, from its keepers' reports and its batch system; the keepers' reports take precedence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from assay.launch.batch.life import QueueAnswer
from assay.launch.batch.queued_job import QueuedJob
from assay.launch.batch.shared_directory import SharedJobDirectory
from assay.records import JobState, JobStatus

# As a shell reports a program; and Slurm's `code:signal` of the script itself
_KILLED = re.compile(r"137(:0)?|0:9")


def of_ended(job: SharedJobDirectory, end: JobStatus, asked: QueueAnswer, called: str) -> JobStatus:
    """The end as the keepers report it, and who caused it if they or the job were ended.

    Ranks that handle SIGTERM may succeed, or fail in their own way, before their keeper is asked to end:
    so what the batch system did to the job counts, whatever they report.

    called  the batch system's name
    """
    told = asked.told
    if job.was_cancelled() or not (end.state is JobState.CANCELLED or _ended_from_outside(end, asked)):
        return end
    if told is None:
        why = asked.silent or "it no longer knows the job"
        cause = f"its keepers were asked to end, but {called} does not say by whom: {why}"
        return replace(end, state=JobState.LOST, cause=cause)
    said = f"; before that: {end.cause}" if end.state is JobState.FAILED else ""
    if asked.requeued:
        return replace(end, state=JobState.LOST, cause=_why_requeued(told) + said)
    state, cause = told.end(()) or (JobState.STOPPED, told.why_stopped())
    return replace(end, state=state, cause=cause + said)


def _ended_from_outside(end: JobStatus, asked: QueueAnswer) -> bool:
    """Whether somebody, or the batch system, ended a job although its keepers were not asked to end."""
    from_outside = asked.told is not None and asked.told.ended_from_outside
    return end.state in (JobState.SUCCEEDED, JobState.FAILED) and (from_outside or asked.put_back)


def without_word(
    job: SharedJobDirectory, asked: QueueAnswer, failed_nodes: Sequence[str], called: str
) -> JobStatus:
    """The state of a job whose keepers have not all reported how it ended.

    asked         the batch system's answer, which must exist
    failed_nodes  those of its nodes that are down
    called        the batch system's name
    """
    told, started_at = asked.told, job.started_at()
    if job.given_up():
        return JobStatus(JobState.CANCELLED, "cancelled before it started")
    if told is None:
        cause = f"{called} no longer knows the job, and its keeper left no report"
        return JobStatus(JobState.LOST, cause, started_at=started_at)
    if asked.requeued:
        return JobStatus(JobState.LOST, _why_requeued(told), started_at=started_at)
    if started_at is not None and not told.over:  # whatever it said a moment ago
        if job.overdue() and not asked.keepers_late:
            state = JobState.CANCELLED if job.was_cancelled() else JobState.LOST
            return JobStatus(state, _why_overdue(job, told), started_at=started_at)
        return JobStatus(JobState.RUNNING, _silent(job, told) or told.trouble, started_at=started_at)
    if told.waits:
        return JobStatus(JobState.PENDING, told.why_waits())
    if not told.over:
        return JobStatus(JobState.PENDING, job.waits_for() or f"starting on {told.its_nodes}")
    return _over(job, told, failed_nodes, started_at)


def _silent(job: SharedJobDirectory, told: QueuedJob) -> str:
    """The nodes still missing after other nodes ended their shares; "" if no node has ended."""
    silent = job.silent_nodes()
    if len(silent) == len(job.shares()):
        return ""
    names = ", ".join(job.hosts()[node] or str(node) for node in silent)
    word = f"{told.called} says {told.state}"
    return f"the other nodes have ended, but {names} has not reported how its share ended, and {word}"


def _why_overdue(job: SharedJobDirectory, told: QueuedJob) -> str:
    names = ", ".join(job.hosts()[node] or str(node) for node in job.silent_nodes())
    return (
        f"the keeper of {names} left no report by the trial's time limit of {job.spec()['timeout_s']:g} s, "
        f"and {told.called} still says {told.state}: its node was rebooted, or the keeper was killed there"
    )


def _over(
    job: SharedJobDirectory,
    told: QueuedJob,
    failed_nodes: Sequence[str],
    started_at: float | None,
) -> JobStatus:
    """The batch system says that the job has ended, but not every keeper has reported."""
    end = told.end(failed_nodes)
    if job.was_cancelled() and not told.lost_node:
        return JobStatus(JobState.CANCELLED, "cancelled", started_at=started_at)
    said = job.script_said()
    words = f"; its script printed: {said}" if said else ""
    if end is not None:
        return JobStatus(end[0], end[1] + words, started_at=started_at)
    if started_at is not None:
        silent = ", ".join(map(str, job.silent_nodes()))
        if (early := job.failed_early()) is not None:
            return replace(
                early, cause=f"{early.cause}, before node {silent} of {told.its_nodes} had started"
            )
        cause = f"the keeper of node {silent} of {told.its_nodes} left no report; {told.why_over()}"
        cause += f"; {', '.join(failed_nodes)}" if failed_nodes else ""
        return JobStatus(JobState.LOST, cause + words, started_at=started_at)
    if _KILLED.fullmatch(told.exit_code):
        cause = "the batch script or a keeper was killed by SIGKILL before the ranks started"
        return JobStatus(JobState.LOST, f"{cause}; {told.why_over()}{words}")
    return JobStatus(JobState.FAILED, told.why_not_started() + words)


def _why_requeued(told: QueuedJob) -> str:
    why = f" ({told.why})" if told.why else ""
    return f"{told.called} requeued it{why}; output from before is not mixed with output from a second run"
