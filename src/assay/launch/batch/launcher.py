"""Jobs of a batch system: its script starts a keeper on each node; files on a shared disk report the rest.

A job's directory is on a file system that this machine and the nodes share. So Assay reads the ranks' output
as on one machine and queries the batch system only every few seconds, which is fine even with many users.
"""

from __future__ import annotations

import shlex
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from assay.errors import HostError, LaunchError
from assay.launch import job_spec, spool
from assay.launch.batch import BatchSystem, job_state
from assay.launch.batch.job_state import ASK_AT_THE_END_EVERY_S, ASK_EVERY_S, Life, QueueAnswer
from assay.launch.batch.queue import Queue, QueueSilentError
from assay.launch.batch.script import NAME, nodes_of
from assay.launch.batch.shared_directory import SharedJobDirectory
from assay.launch.launcher import Leftover
from assay.records import Handle, Job, JobState, JobStatus, Output, RenderedJob
from assay.shell import ProgramMissingError

KILL_WAIT_S = 60.0  # it kills 20 to 30 s after it asks, and may need as long to notice that it worked
System = TypeVar("System", bound=BatchSystem)


class BatchLauncher(ABC, Generic[System]):
    """Runs jobs on a cluster behind a batch system. `Launcher` documents what each method promises."""

    name: str
    node_variable: str  # the variable with a node's number in its keeper's environment

    def __init__(self, system: System, directory: Path, queue: Queue) -> None:
        self.system = system
        self.directory = Path(system.directory) if system.directory else directory.absolute()
        self.jobs = spool.Spool(self.directory)
        self.queue = queue
        self._answers: dict[int, QueueAnswer] = {}
        self._followed: set[int] = set()  # jobs that were followed to their end

    @abstractmethod
    def script(self, job: Job, name: str) -> str:
        """What is submitted; `name` is the job's name in the batch system, by which it is found."""

    @property
    def python(self) -> str:
        """The interpreter of the trials on the nodes."""
        return self.system.python or sys.executable

    @property
    def handle_data(self) -> Mapping[str, Any]:
        """What a handle contains besides the job's number."""
        return {}

    def check(self, job: Job) -> None:
        """Raise InputError for a job that can't be sent."""
        job_spec.check_task(job, self.system.env)

    def render(self, job: Job) -> RenderedJob:
        """The batch script, the keeper's environment, and each rank's command."""
        self.check(job)
        job = job_spec.without_secrets(job)
        nodes = nodes_of(job, self.system)
        ranks = job.shape.ranks // nodes
        script = self.script(job, f"{NAME}<token>")
        rank = "\n".join([*job_spec.before(job, self.python), shlex.join(job_spec.argv(job, self.python))])
        command = f"{script}\n# What each keeper starts, as {ranks} ranks:\n{rank}"
        return job_spec.rendered(
            job,
            command,
            self.system.env,
            nodes=nodes,
            node=f"<{self.node_variable}>",
            meeting=("<first node of the job>", "<from the job's number>"),
        )

    def submit(self, job: Job) -> Handle:
        """Write the job's directory and submit its script to the batch system.

        A refusal abandons the job: a command may fail after the batch system has accepted the job, whose
        script then finds no directory.
        """
        self.check(job)
        with spool.naming_disk_errors("start the job"), self.jobs.new(job.token) as new:
            kept = SharedJobDirectory(new.directory)
            script = kept.directory / "job.sh"  # first: `leftovers` recognizes the directory by it
            script.write_text(self.script(job, NAME + job.token), encoding="utf-8")
            spool.lay_out_programs(kept)
            spool.write(
                kept,
                job,
                python=self.python,
                env=self.system.env,
                grace_s=self.system.grace,
                pin=self.system.pin_cpus,
                nodes=nodes_of(job, self.system),
                start_timeout_s=self.system.startup,
            )
        with spool.naming_disk_errors("start the job"):
            try:
                number = self.queue.submit(kept.directory, script)
            except (LaunchError, HostError):
                if self._give_up(kept) is None:
                    spool.remove(kept.directory)
                raise
            return self._noted(kept, job.token, number)

    def find(self, token: str) -> Handle | None:
        """The job, if its number was stored or the batch system knows it; else it is abandoned for good."""
        kept = self._kept(token)
        with spool.naming_disk_errors("look for the job"):
            if handle := kept.submitted(self.name, token):
                return handle
            for number in self.queue.numbers(token) if kept.directory.exists() else ():
                if not kept.given_up():
                    return self._noted(kept, token, number)
            if (begun := self._give_up(kept)) is not None:
                return self._noted(kept, token, begun)
            with _unless_silent():
                self.queue.drop(token)
        return None

    def follow(self, handle: Handle, kept: Mapping[str, int]) -> Iterator[Output | None]:
        """New bytes of the files of all nodes, and of the batch script's log as the stream `batch`."""
        job = self._kept(handle.token)
        thread = ThreadPoolExecutor(1)
        try:
            life = Life(
                job,
                lambda: thread.submit(self._ask, handle),
                lambda answer: self._refuse(handle, job, answer),
            )
            yield from spool.follow(
                job, kept, runs=life.goes_on, pause=time.sleep, end_rest=lambda: self._end_rest(handle)
            )
        finally:
            thread.shutdown(wait=False)  # a batch system that does not respond holds nothing up

    def status(self, handle: Handle) -> JobStatus:
        """From the keepers' reports and the batch system's answer, which may be two seconds old."""
        job = self._kept(handle.token)
        if not job.directory.exists():
            return JobStatus(JobState.LOST, f"nothing is left of the job in {job.directory}")
        return replace(self._status(handle, job), hosts=job.hosts())

    def _status(self, handle: Handle, job: SharedJobDirectory) -> JobStatus:
        if (refused := job.refused()) is not None:
            return refused
        answer, settled = self._answers.get(_number(handle)), _number(handle) in self._followed
        if answer is None or (not settled and time.monotonic() - answer.queried_at > ASK_EVERY_S):
            answer = self._ask(handle)
        return self._standing(job, answer)

    def cancel(self, handle: Handle) -> None:
        """Ask the keepers to end the job, then let the batch system kill what remains."""
        job = self._kept(handle.token)
        if not job.directory.exists() or job.ended() is not None:
            return
        job.note_cancelled()
        job.give_up()
        if job.taken_by() is not None:
            self._end_ranks(handle, job)
        if job.ended() is None:
            self._end(handle)
            self._wait_for_end(handle, job, KILL_WAIT_S)
        answer = self._answers.get(_number(handle))
        if job.ended() is None and answer is not None and answer.goes_on:
            called = self.queue.called
            why = answer.silent or f"{called} says {answer.job.state if answer.job else 'nothing'}"
            raise LaunchError(
                f"job {_number(handle)} of {called} can't be ended: {why}; "
                f"end it later with: {self.queue.ends} {_number(handle)}"
            )

    def fetch(self, handle: Handle, patterns: Sequence[str]) -> Iterator[Output]:
        """From the directory that the ranks of all nodes ran in; at most 1 GiB per job."""
        return self.jobs.fetch(handle.token, patterns)

    def forget(self, handle: Handle) -> None:
        """Remove the job's directory."""
        self.jobs.remove(handle.token, lambda: self.status(handle))

    def leftovers(self) -> Sequence[Leftover]:
        """Jobs of this user that wait or run, and what is in the system's directory."""
        traces: dict[str, list[str]] = {}
        for number, token, state in self.queue.queued():
            traces.setdefault(token, []).append(f"job {number} ({state})")
        going = set(traces)
        marks = [path for name in spool.MARKS for path in self.directory.glob(f"*/{name}")]
        for directory in sorted({mark.parent for mark in marks}) if self.system.directory else ():
            traces.setdefault(directory.name, []).append(f"directory {directory}")
        return [Leftover(token, tuple(what), token in going) for token, what in traces.items()]

    def discard(self, tokens: Collection[str]) -> None:
        """Have the batch system end them, wait for that, and remove their directories on the shared disk."""
        for token in tokens:
            with _unless_silent():
                self.queue.drop(token)
        give_up = time.monotonic() + KILL_WAIT_S
        while still := [str(n) for n, token, _ in self.queue.queued() if token in tokens]:
            if time.monotonic() > give_up:
                raise LaunchError(
                    f"jobs {', '.join(still)} of {self.queue.called} can't be ended; "
                    f"check them with {self.queue.lists}"
                )
            time.sleep(ASK_AT_THE_END_EVERY_S)
        for token in tokens if self.system.directory else ():
            spool.remove(self._kept(token).directory)

    def _give_up(self, kept: SharedJobDirectory) -> int | None:
        """Take a job whose number is unknown, leaving only a mark. Returns its number if it has started."""
        kept.give_up()
        begun = kept.taken_by()
        if begun is None:
            kept.leave_mark()
        return begun

    def _kept(self, token: str) -> SharedJobDirectory:
        return SharedJobDirectory(self.jobs.job(token).directory)

    def _noted(self, kept: SharedJobDirectory, token: str, number: int) -> Handle:
        handle = Handle(self.name, token, {"job_id": number, **self.handle_data})
        kept.note_submitted(handle)
        return handle

    # How it ends

    def _refuse(self, handle: Handle, job: SharedJobDirectory, answer: QueueAnswer) -> bool:
        """Abandon a job that waits in vain; False if it started in the meantime."""
        job.give_up()
        if job.taken_by() is not None or answer.job is None or answer.hopeless is None:
            return False
        job.note_refused(answer.job.why_waits(), answer.hopeless)
        self._end(handle)
        return True

    def _end_rest(self, handle: Handle) -> None:
        """End a job that was requeued, or whose keepers are gone while it supposedly runs."""
        self._followed.add(_number(handle))
        answer = self._answers.get(_number(handle))
        if (answer is not None and answer.requeued) or self._kept(handle.token).overdue():
            self._end(handle)

    def _ask(self, handle: Handle) -> QueueAnswer:
        number = _number(handle)
        begun = self._kept(handle.token).taken_by() is not None
        before = self._answers.get(number)
        suspended_at = None if before is None else before.suspended_at
        try:
            job = self.queue.ask(number, handle.token)
        except QueueSilentError as error:
            answer = QueueAnswer(time.monotonic(), begun, None, error, suspended_at)
        else:
            now = time.monotonic()
            suspended = job is not None and job.suspended
            answer = QueueAnswer(now, begun, job, suspended_at=now if suspended else suspended_at)
        self._answers[number] = answer
        return answer

    def _standing(self, job: SharedJobDirectory, answer: QueueAnswer) -> JobStatus:
        end = job.ended()
        if end is not None:
            return job_state.ended_status(job, end, answer, self.queue.called)
        if answer.silent is not None and not job.given_up():
            started_at = job.started_at()
            state = JobState.RUNNING if started_at else JobState.PENDING
            return JobStatus(state, str(answer.silent), started_at=started_at)
        failed: list[str] = []
        if answer.job is not None and answer.job.over and answer.job.nodes:
            with _unless_silent():
                failed = self.queue.failed_nodes(answer.job.nodes)
        return job_state.unreported_status(job, answer, failed, self.queue.called)

    def _end_ranks(self, handle: Handle, job: SharedJobDirectory) -> None:
        """Ask the keepers, which give the ranks their grace time: the batch system has its own."""
        give_up = time.monotonic() + self.system.grace + spool.KEEPER_SLACK_S
        while job.ended() is None and time.monotonic() < give_up:
            with _unless_silent():  # again: a keeper that was just starting missed it
                self.queue.ask_to_end(_number(handle), handle.token)
            if self._wait_for_end(handle, job, 1.0):
                return

    def _end(self, handle: Handle) -> None:
        with _unless_silent():
            self.queue.end(_number(handle), handle.token)

    def _wait_for_end(self, handle: Handle, job: SharedJobDirectory, patience_s: float) -> bool:
        """Wait this long for confirmation that nothing of the job is running."""
        give_up = time.monotonic() + patience_s
        while True:
            if job.ended() is not None or not self._ask(handle).goes_on:
                return True
            if time.monotonic() >= give_up:
                return False
            time.sleep(ASK_AT_THE_END_EVERY_S)


def _number(handle: Handle) -> int:
    return int(str(handle.data["job_id"]))


@contextmanager
def _unless_silent() -> Iterator[None]:
    """Continue if the batch system does not respond: the request is checked again later."""
    with suppress(QueueSilentError, ProgramMissingError):
        yield
