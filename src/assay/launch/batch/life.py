"""Whether a followed job continues: its files are checked often, its batch system is queried rarely."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from assay.launch.batch.queue import QueueSilentError
from assay.launch.batch.queued_job import QueuedJob
from assay.launch.batch.shared_directory import OVERDUE_S, SharedJobDirectory
from assay.records import Extent, JobState, JobStatus

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
