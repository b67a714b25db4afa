"""Where a job stands, from what its keepers wrote and what Slurm says; the keepers' word goes first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.launch.slurm.life import Asked
from assay.launch.slurm.script import EXIT_NOT_OURS, EXIT_NOT_VISIBLE
from assay.launch.slurm.shared import SharedJob
from assay.launch.slurm.states import ENDED_FROM_OUTSIDE, SUSPENDED, WAITS, Told
from assay.records import JobState, JobStatus

_CAN_NOT_WRITE = "0:53"  # slurmd: the batch script's output file could not be opened

# What to do about a reason that waiting alone may not mend. Source: squeue(1), JOB REASON CODES
PENDING_REMEDIES = {
    "PartitionTimeLimit": "the partition allows less time: lower `timeout` or `startup`",
    "PartitionNodeLimit": "the partition has not so many nodes: take a smaller shape or another partition",
    "PartitionDown": "the partition is down: take another, or ask who runs the cluster",
    "PartitionInactive": "the partition takes no jobs now: take another, or ask who runs the cluster",
    "PartitionConfig": "the partition's limits don't allow the job: assay doctor shows them",
    "BadConstraints": "no nodes can ever fit: look at constraint, gres, mem and cpus_per_rank",
    "InvalidAccount": "the account is not known: set `account`",
    "InvalidQOS": "the QOS is not known: set `qos`",
    "JobHeldUser": "scontrol release lets it go on",
    "JobHeldAdmin": "an administrator holds it",
    "AssocGrpGRES": "the account has all the GPUs that it may",
}


def of_ended(job: SharedJob, end: JobStatus, asked: Asked) -> JobStatus:
    """The end as the keepers tell it, and who made it where they or the job were ended.

    Ranks that handle SIGTERM may end well, or with a failure of their own, before their keeper is asked to:
    so what Slurm did to the job counts, whatever they say.
    """
    told = asked.told
    if job.was_cancelled() or not (end.state is JobState.CANCELLED or _ended_by_slurm(end, asked)):
        return end
    if told is None:
        why = asked.silent or "it does not know the job any more"
        cause = f"its keepers were asked to end, and Slurm does not say by whom: {why}"
        return replace(end, state=JobState.LOST, cause=cause)
    said = f"; before that: {end.cause}" if end.state is JobState.FAILED else ""
    if asked.requeued:
        return replace(end, state=JobState.LOST, cause=_why_requeued(told) + said)
    if told.state == "TIMEOUT":
        cause = "Slurm's own time limit ended it before the trial's: raise the system's `startup`"
        return replace(end, state=JobState.TIMED_OUT, cause=cause + said)
    if told.state in ("PREEMPTED", "NODE_FAIL"):
        return replace(end, state=JobState.LOST, cause=_why_over(told, ()) + said)
    return replace(end, state=JobState.STOPPED, cause=_why_stopped(told) + said)


def _ended_by_slurm(end: JobStatus, asked: Asked) -> bool:
    """Whether Slurm, or somebody through it, ended a job although its keepers were not asked to end."""
    from_outside = asked.told is not None and asked.told.state in ENDED_FROM_OUTSIDE
    return end.state in (JobState.SUCCEEDED, JobState.FAILED) and (from_outside or asked.put_back)


def without_word(job: SharedJob, asked: Asked, failed_nodes: Sequence[str]) -> JobStatus:
    """Where a job stands whose keepers have not all said how it ended.

    asked         Slurm's answer, and there is one
    failed_nodes  those of its nodes that are down
    """
    told, started_at = asked.told, job.started_at()
    if job.given_up():
        return JobStatus(JobState.CANCELLED, "cancelled before it started")
    if told is None:
        cause = "Slurm does not know the job any more, and its keeper left no word"
        return JobStatus(JobState.LOST, cause, started_at=started_at)
    if asked.requeued:
        return JobStatus(JobState.LOST, _why_requeued(told), started_at=started_at)
    if started_at is not None and not told.over:  # whatever Slurm said a moment ago
        if job.overdue() and told.state not in SUSPENDED:
            state = JobState.CANCELLED if job.was_cancelled() else JobState.LOST
            return JobStatus(state, _why_overdue(job, told), started_at=started_at)
        return JobStatus(JobState.RUNNING, _silent(job, told), started_at=started_at)
    if told.state in WAITS:
        return JobStatus(JobState.PENDING, why_waits(told))
    if not told.over:
        return JobStatus(JobState.PENDING, job.waits_for() or f"starting on {told.nodes}")
    return _over(job, told, failed_nodes, started_at)


def _silent(job: SharedJob, told: Told) -> str:
    """Whose end is waited for where other nodes have ended their shares; "" where none has."""
    silent = job.silent_nodes()
    if len(silent) == len(job.shares()):
        return ""
    names = ", ".join(job.hosts()[node] or str(node) for node in silent)
    return f"the others have ended, {names} has not said how its share ended, and Slurm says {told.state}"


def _why_overdue(job: SharedJob, told: Told) -> str:
    names = ", ".join(job.hosts()[node] or str(node) for node in job.silent_nodes())
    return (
        f"the keeper of {names} left no word by the trial's time limit of {job.spec()['timeout_s']:g} s, and "
        f"Slurm still says {told.state}: its node was started anew, or it was killed there"
    )


def why_waits(told: Told) -> str:
    """What a job in the queue waits for, with what to do where waiting alone may not help."""
    reason = "" if told.reason == "None" else told.reason
    remedy = PENDING_REMEDIES.get(reason.partition(",")[0])
    return f"{told.state.lower()}: {reason or 'Slurm gives no reason yet'}" + (
        f"; {remedy}" if remedy else ""
    )


def _over(job: SharedJob, told: Told, failed_nodes: Sequence[str], started_at: float | None) -> JobStatus:
    """Slurm says that it has ended, and not every keeper has."""
    if job.was_cancelled() and told.state != "NODE_FAIL":
        return JobStatus(JobState.CANCELLED, "cancelled", started_at=started_at)
    said = job.script_said()
    words = f"; its script said: {said}" if said else ""
    if told.state == "CANCELLED":
        return JobStatus(JobState.STOPPED, _why_stopped(told) + words, started_at=started_at)
    if told.state == "TIMEOUT":
        cause = f"Slurm's own time limit ended it: raise the system's `startup`{words}"
        return JobStatus(JobState.TIMED_OUT, cause, started_at=started_at)
    if told.state in ("NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REVOKED"):
        return JobStatus(JobState.LOST, _why_over(told, failed_nodes) + words, started_at=started_at)
    if told.state == "OUT_OF_MEMORY":
        cause = f"the job ran out of the memory that Slurm gave it: raise `mem`{words}"
        return JobStatus(JobState.FAILED, cause, started_at=started_at)
    if started_at is not None:
        silent = ", ".join(map(str, job.silent_nodes()))
        if (end := job.failed_early()) is not None:
            return replace(end, cause=f"{end.cause}, before node {silent} of {told.nodes} had begun")
        cause = f"the keeper of node {silent} of {told.nodes} left no word; {_why_over(told, failed_nodes)}"
        return JobStatus(JobState.LOST, cause + words, started_at=started_at)
    return JobStatus(JobState.FAILED, _why_not_started(told) + words)


def _why_stopped(told: Told) -> str:
    reason = f" ({told.reason})" if told.reason not in ("", "None") else ""
    return f"somebody else ended the job, and not this run: Slurm says {told.state}{reason}"


def _why_requeued(told: Told) -> str:
    why = f" ({told.reason})" if told.reason not in ("", "None") else ""
    return f"Slurm requeued it{why}; what it did before is not mixed with what it would do again"


def _why_over(told: Told, failed_nodes: Sequence[str]) -> str:
    reason = f", {told.reason}" if told.reason not in ("", "None") else ""
    if told.state == "NODE_FAIL":
        return f"a node failed while the job ran: {', '.join(failed_nodes) or f'one of {told.nodes}'}{reason}"
    if told.state == "PREEMPTED":
        return f"Slurm preempted it for another job{reason}"
    return f"Slurm says {told.state}{reason}, exit code {told.exit_code or 'unknown'}"


def _why_not_started(told: Told) -> str:
    """A batch script that ended before any rank ran."""
    code = told.exit_code.partition(":")[0]
    if told.exit_code == _CAN_NOT_WRITE or code == str(EXIT_NOT_VISIBLE):
        return (
            f"the nodes ({told.nodes}) can't write the job's directory: set the system's `directory` to one "
            "that they share with this machine"
        )
    if code == str(EXIT_NOT_OURS):
        return "the job was given up before it started"
    return f"the batch script exited {code or 'with an error'} before the ranks started"
