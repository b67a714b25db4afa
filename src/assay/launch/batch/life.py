"""Whether a job that is followed goes on: its files are looked at often, its batch system is asked seldom."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from assay.launch.batch.queue import QueuedJob, QueueSilentError
from assay.launch.batch.shared_directory import SharedJobDirectory
from assay.records import Extent, JobState, JobStatus

ASK_EVERY_S = 2.0
ASK_AT_THE_END_EVERY_S = 0.25
HOPELESS_FOR_S = 10.0
LAST_WORD_S = 10.0  # between the last keeper's word and that the job is over: an epilog may run
FILES_PATIENCE_S = 5.0  # between the word that a job is over and its last files being seen here


@dataclass(frozen=True)
class QueueAnswer:
    """The newest answer of a batch system about one job, or why there is none.

    at     when it was asked
    begun  the job had been started before it was asked: if it waits now, it was put back into the queue
    """

    at: float
    begun: bool
    told: QueuedJob | None
    silent: QueueSilentError | None = None

    @property
    def goes_on(self) -> bool:
        """It waits or runs, as far as is known."""
        return self.silent is not None or (self.told is not None and not self.told.over)

    @property
    def hopeless(self) -> Extent | None:
        """It waits for what waiting does not bring; which jobs would."""
        return self.told.hopeless if self.told is not None and self.told.waits else None

    @property
    def put_back(self) -> bool:
        """It waits although it had begun."""
        return self.begun and self.told is not None and self.told.waits

    @property
    def requeued(self) -> bool:
        """The batch system starts it anew under its number, or has done so."""
        return self.put_back or (self.told is not None and self.told.restarted)


class Life:
    """One job while it is followed.

    ask     asks the batch system in a thread, so that one that takes seconds keeps no output waiting
    refuse  ends a job that waits in vain; False where it began meanwhile
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
        """False once the job is over and all that it wrote is seen from here."""
        if not self._job.directory.exists():
            return False
        end = self._job.ended()
        if end is not None and self._has_waited(end):
            return not self._job.whole(end) and self._patient()
        if self._job.overdue() and not self._is_suspended():
            return False
        if not self._answer.done():
            return True
        asked = self._answer.result()
        if end is None and self._waits_in_vain(asked) and self._refuse(asked):
            return False
        if asked.goes_on and not asked.requeued:
            every_s = ASK_EVERY_S if end is None or asked.silent is not None else ASK_AT_THE_END_EVERY_S
            if time.monotonic() - asked.at > every_s:
                self._answer = self._ask()
            return True
        if end is None and self._job.given_up():
            return False
        return (end is None or not self._job.whole(end)) and self._patient()

    def _has_waited(self, end: JobStatus) -> bool:
        """Long enough for the word on who ended the job; without it the keepers' own is taken.

        Keepers that were asked to end can't say by whom: it is waited for while the batch system answers.
        """
        if self._ended_at is None:
            self._ended_at = time.monotonic()
        silent = self._answer.done() and self._answer.result().silent is not None
        bounded = end.state is not JobState.CANCELLED or silent
        return bounded and time.monotonic() - self._ended_at > LAST_WORD_S

    def _waits_in_vain(self, asked: QueueAnswer) -> bool:
        """For a while already: a reason may be of a moment."""
        if asked.hopeless is None:
            self._hopeless_at = None
            return False
        self._hopeless_at = self._hopeless_at or time.monotonic()
        return time.monotonic() - self._hopeless_at > HOPELESS_FOR_S

    def _is_suspended(self) -> bool:
        """Its processes are stopped for a while, so that their own time limits are late."""
        told = self._answer.result().told if self._answer.done() else None
        return told is None or told.suspended

    def _patient(self) -> bool:
        """Whether what is missing may still come to be seen; makes an NFS client look anew."""
        self._job.look_anew()
        self._over_at = self._over_at or time.monotonic()
        return time.monotonic() - self._over_at < FILES_PATIENCE_S
