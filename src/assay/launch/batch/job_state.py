"""The state of a job: what its files and its batch system say, and whether a followed job continues."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from assay.launch.batch.queue import QueuedJob, QueueSilentError
from assay.launch.batch.shared_directory import OVERDUE_S, SharedJobDirectory
from assay.records import Extent, JobState, JobStatus

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


ASK_EVERY_S = 2.0
ASK_AT_THE_END_EVERY_S = 0.25
HOPELESS_FOR_S = 10.0
LAST_WORD_S = 10.0  # between the last keeper's report and the job's end: an epilog may run
FILES_PATIENCE_S = 5.0  # between a job's end and its last files becoming visible here


@dataclass(frozen=True)
class QueueAnswer:
    """The latest answer of a batch system about one job, or why there is none.

    queried_at    when it was queried
    begun         the job had started before the query: if it waits now, it was requeued
    suspended_at  when a query last reported it as suspended; None if none did
    """

    queried_at: float
    begun: bool
    job: QueuedJob | None
    silent: QueueSilentError | None = None
    suspended_at: float | None = None

    @property
    def keepers_late(self) -> bool:
        """Whether it is suspended, or was until just now, so that its own time limits are late."""
        return self.suspended_at is not None and self.queried_at - self.suspended_at < OVERDUE_S

    @property
    def goes_on(self) -> bool:
        """Whether it waits or runs, as far as is known."""
        return self.silent is not None or (self.job is not None and not self.job.over)

    @property
    def hopeless(self) -> Extent | None:
        """Which jobs would wait in vain as this one does; None if it doesn't."""
        return self.job.hopeless if self.job is not None and self.job.waits else None

    @property
    def put_back(self) -> bool:
        """Whether it waits although it had started."""
        return self.begun and self.job is not None and self.job.waits

    @property
    def requeued(self) -> bool:
        """Whether the batch system restarts it under its number, or has done so."""
        return self.put_back or (self.job is not None and self.job.restarted)


class Life:
    """One job while it is followed.

    ask     queries the batch system in a thread, so that a slow answer delays no output
    refuse  ends a job that waits in vain; False if it started in the meantime
    """

    def __init__(
        self,
        job: SharedJobDirectory,
        ask: Callable[[], Future[QueueAnswer]],
        refuse: Callable[[QueueAnswer], bool],
    ) -> None:
        self._job, self._ask, self._refuse = job, ask, refuse
        self._hopeless_at: float | None = None
        self._answer: Future[QueueAnswer] = ask()
        self._over_at: float | None = None
        self._ended_at: float | None = None

    def goes_on(self) -> bool:
        """False once the job is over and everything it wrote is visible here."""
        if not self._job.directory.exists():
            return False
        end = self._job.ended()
        if end is not None and self._has_waited(end):
            return not self._job.whole(end) and self._patient()
        if self._job.overdue() and not self._is_suspended():
            return False
        if not self._answer.done():
            return True
        answer = self._answer.result()
        if end is None and self._waits_in_vain(answer) and self._refuse(answer):
            return False
        if answer.goes_on and not answer.requeued:
            every_s = ASK_EVERY_S if end is None or answer.silent is not None else ASK_AT_THE_END_EVERY_S
            if time.monotonic() - answer.queried_at > every_s:
                self._answer = self._ask()
            return True
        if end is None and self._job.given_up():
            return False
        return (end is None or not self._job.whole(end)) and self._patient()

    def _has_waited(self, end: JobStatus) -> bool:
        """Long enough for the report of who ended the job; without it the keepers' reports are used.

        Keepers that were asked to end can't say by whom: wait for that while the batch system responds.
        """
        if self._ended_at is None:
            self._ended_at = time.monotonic()
        silent = self._answer.done() and self._answer.result().silent is not None
        bounded = end.state is not JobState.CANCELLED or silent
        return bounded and time.monotonic() - self._ended_at > LAST_WORD_S

    def _waits_in_vain(self, answer: QueueAnswer) -> bool:
        """Whether it has lasted for a while: a reason may be momentary."""
        if answer.hopeless is None:
            self._hopeless_at = None
            return False
        self._hopeless_at = self._hopeless_at or time.monotonic()
        return time.monotonic() - self._hopeless_at > HOPELESS_FOR_S

    def _is_suspended(self) -> bool:
        """Its processes are or were suspended, so that their own time limits are late; also if unknown."""
        answer = self._answer.result() if self._answer.done() else None
        return answer is None or answer.job is None or answer.keepers_late

    def _patient(self) -> bool:
        """Whether what is missing may still become visible; makes an NFS client look again."""
        self._job.look_anew()
        self._over_at = self._over_at or time.monotonic()
        return time.monotonic() - self._over_at < FILES_PATIENCE_S
