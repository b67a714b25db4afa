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


def ended_status(job: SharedJobDirectory, end: JobStatus, answer: QueueAnswer, called: str) -> JobStatus:
    """The end as the keepers report it, and who caused it if they or the job were ended.

    Ranks that handle SIGTERM may succeed, or fail in their own way, before their keeper is asked to end:
    so what the batch system did to the job counts, whatever they report.

    called  the batch system's name
    """
    queued = answer.job
    if job.was_cancelled() or not (end.state is JobState.CANCELLED or _ended_from_outside(end, answer)):
        return end
    if queued is None:
        why = answer.silent or "it no longer knows the job"
        cause = f"its keepers were asked to end, but {called} does not say by whom: {why}"
        return replace(end, state=JobState.LOST, cause=cause)
    before = f"; before that: {end.cause}" if end.state is JobState.FAILED else ""
    if answer.requeued:
        return replace(end, state=JobState.LOST, cause=_why_requeued(queued) + before)
    state, cause = queued.end(()) or (JobState.STOPPED, queued.why_stopped())
    return replace(end, state=state, cause=cause + before)


def _ended_from_outside(end: JobStatus, answer: QueueAnswer) -> bool:
    """Whether somebody, or the batch system, ended a job although its keepers were not asked to end."""
    from_outside = answer.job is not None and answer.job.ended_from_outside
    return end.state in (JobState.SUCCEEDED, JobState.FAILED) and (from_outside or answer.put_back)


def unreported_status(
    job: SharedJobDirectory, answer: QueueAnswer, failed_nodes: Sequence[str], called: str
) -> JobStatus:
    """The state of a job whose keepers have not all reported how it ended.

    answer        the batch system's answer, which must exist
    failed_nodes  those of its nodes that are down
    called        the batch system's name
    """
    queued, started_at = answer.job, job.started_at()
    if job.given_up():
        return JobStatus(JobState.CANCELLED, "cancelled before it started")
    if queued is None:
        cause = f"{called} no longer knows the job, and its keeper left no report"
        return JobStatus(JobState.LOST, cause, started_at=started_at)
    if answer.requeued:
        return JobStatus(JobState.LOST, _why_requeued(queued), started_at=started_at)
    if started_at is not None and not queued.over:  # whatever it said a moment ago
        if job.overdue() and not answer.keepers_late:
            state = JobState.CANCELLED if job.was_cancelled() else JobState.LOST
            return JobStatus(state, _why_overdue(job, queued), started_at=started_at)
        return JobStatus(JobState.RUNNING, _silent(job, queued) or queued.trouble, started_at=started_at)
    if queued.waits:
        return JobStatus(JobState.PENDING, queued.why_waits())
    if not queued.over:
        return JobStatus(JobState.PENDING, job.waits_for() or f"starting on {queued.its_nodes}")
    return _over(job, queued, failed_nodes, started_at)


def _silent(job: SharedJobDirectory, queued: QueuedJob) -> str:
    """The nodes still missing after other nodes ended their shares; "" if no node has ended."""
    silent = job.silent_nodes()
    if len(silent) == len(job.shares()):
        return ""
    names = ", ".join(job.hosts()[node] or str(node) for node in silent)
    word = f"{queued.called} says {queued.state}"
    return f"the other nodes have ended, but {names} has not reported how its share ended, and {word}"


def _why_overdue(job: SharedJobDirectory, queued: QueuedJob) -> str:
    names = ", ".join(job.hosts()[node] or str(node) for node in job.silent_nodes())
    return (
        f"the keeper of {names} left no report by the trial's time limit of {job.spec()['timeout_s']:g} s, "
        f"and {queued.called} still says {queued.state}: its node was rebooted, or the keeper was killed "
        "there"
    )


def _over(
    job: SharedJobDirectory,
    queued: QueuedJob,
    failed_nodes: Sequence[str],
    started_at: float | None,
) -> JobStatus:
    """The batch system says that the job has ended, but not every keeper has reported."""
    end = queued.end(failed_nodes)
    if job.was_cancelled() and not queued.lost_node:
        return JobStatus(JobState.CANCELLED, "cancelled", started_at=started_at)
    printed = job.script_said()
    suffix = f"; its script printed: {printed}" if printed else ""
    if end is not None:
        return JobStatus(end[0], end[1] + suffix, started_at=started_at)
    if started_at is not None:
        silent = ", ".join(map(str, job.silent_nodes()))
        if (early := job.failed_early()) is not None:
            return replace(
                early, cause=f"{early.cause}, before node {silent} of {queued.its_nodes} had started"
            )
        cause = f"the keeper of node {silent} of {queued.its_nodes} left no report; {queued.why_over()}"
        cause += f"; {', '.join(failed_nodes)}" if failed_nodes else ""
        return JobStatus(JobState.LOST, cause + suffix, started_at=started_at)
    if _KILLED.fullmatch(queued.exit_code):
        cause = "the batch script or a keeper was killed by SIGKILL before the ranks started"
        return JobStatus(JobState.LOST, f"{cause}; {queued.why_over()}{suffix}")
    return JobStatus(JobState.FAILED, queued.why_not_started() + suffix)


def _why_requeued(queued: QueuedJob) -> str:
    why = f" ({queued.why})" if queued.why else ""
    return f"{queued.called} requeued it{why}; output from before is not mixed with output from a second run"
