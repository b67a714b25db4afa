"""Jobs of a Slurm cluster: sbatch starts a keeper on each node, files on a shared disk tell the rest.

A job's directory is on a file system that this machine and the nodes share. So Assay reads the ranks' output
as on one machine and asks Slurm only every few seconds, which a controller with many users can bear.
"""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from assay.errors import LaunchError, OptionsError, PlatformError, Problem
from assay.launch import sent, shown, spool
from assay.launch.launcher import JobRefused, Leftover
from assay.launch.slurm import refusals, standing
from assay.launch.slurm.life import ASK_AT_THE_END_EVERY_S, ASK_EVERY_S, Asked, Life
from assay.launch.slurm.options import SlurmSystem
from assay.launch.slurm.script import NAME, batch_script, nodes_of
from assay.launch.slurm.shared import SharedJob
from assay.launch.slurm.states import Slurm, SlurmSilent
from assay.records import Extent, Handle, Job, JobState, JobStatus, Output, Rendered
from assay.shell import ProgramMissing

KILL_WAIT_S = 60.0  # Slurm kills 30 s (KillWait) after it asked, and may need as long to see that it worked
_SUBMITTED = re.compile(r"(\d+)(?:;(\S+))?")


class SlurmLauncher:
    """Runs jobs on a Slurm cluster. `Launcher` says what each method promises."""

    name = "slurm"

    def __init__(self, system: SlurmSystem, directory: Path) -> None:
        self.system = system
        self.directory = Path(system.directory) if system.directory else directory.absolute()
        self.jobs = spool.Spool(self.directory)
        self.slurm = Slurm(system.cluster)
        self._asked: dict[int, Asked] = {}
        self._followed: set[int] = set()  # jobs that were followed to their end

    def render(self, job: Job) -> Rendered:
        """The batch script, the keeper's environment, and the command that each rank is started by."""
        self._check(job)
        job = shown.without_secrets(job)
        nodes = nodes_of(job, self.system)
        ranks = job.shape.ranks // nodes
        script = batch_script(job, self.system, self._python(), f"{NAME}<token>")
        rank = shlex.join(sent.argv(job, self._python()))
        command = f"{script}\n# What each keeper starts, as {ranks} ranks:\n{rank}"
        return shown.rendered(
            job,
            command,
            self.system.env,
            nodes=nodes,
            node="<SLURM_NODEID>",
            meeting=("<first node of the job>", "<from the job's number>"),
        )

    def submit(self, job: Job) -> Handle:
        """Write the job's directory and hand its script to sbatch."""
        self._check(job)
        with spool.told("start the job"):
            kept = SharedJob(self.jobs.create(job.token).directory)
            spool.write(
                kept,
                job,
                python=self._python(),
                env=self.system.env,
                grace_s=self.system.grace,
                pin=self.system.pin_cpus,
                nodes=nodes_of(job, self.system),
                start_timeout_s=self.system.startup,
            )
            script = kept.directory / "job.sh"
            script.write_text(batch_script(job, self.system, self._python(), NAME + job.token))
            return self._sbatch(job.token, kept, script)

    def find(self, token: str) -> Handle | None:
        """The job, if sbatch or Slurm knows it; else it is given up here, so that it never runs."""
        kept = self._kept(token)
        with spool.told("look for the job"):
            if handle := kept.submitted(self.name, token):
                return handle
            for number in self.slurm.numbers(token) if kept.directory.exists() else ():
                if not kept.given_up():
                    return self._noted(kept, token, number)
            kept.give_up()
            begun = kept.taken_by()
            if begun is not None:
                return self._noted(kept, token, begun)
            self._drop(token)
        return None

    def follow(self, handle: Handle, kept: Mapping[str, int]) -> Iterator[Output | None]:
        """New bytes of the files of all nodes, and of the batch script's as the stream `batch`."""
        job = self._kept(handle.token)
        thread = ThreadPoolExecutor(1)
        try:
            life = Life(
                job, lambda: thread.submit(self._ask, handle), lambda asked: self._refuse(handle, job, asked)
            )
            yield from spool.follow(
                job, kept, runs=life.goes_on, pause=time.sleep, end_rest=lambda: self._end_rest(handle)
            )
        finally:
            thread.shutdown(wait=False)  # a controller that does not answer holds nobody up

    def status(self, handle: Handle) -> JobStatus:
        """From what the keepers wrote and Slurm says, asked at most every two seconds until the end."""
        job = self._kept(handle.token)
        if not job.directory.exists():
            return JobStatus(JobState.LOST, f"nothing is left of the job in {job.directory}")
        return replace(self._status(handle, job), hosts=job.hosts())

    def _status(self, handle: Handle, job: SharedJob) -> JobStatus:
        if (refused := job.refused()) is not None:
            return refused
        asked, settled = self._asked.get(_number(handle)), _number(handle) in self._followed
        if asked is None or (not settled and time.monotonic() - asked.at > ASK_EVERY_S):
            asked = self._ask(handle)
        return self._standing(job, asked)

    def cancel(self, handle: Handle) -> None:
        """Ask the keepers to end the job and Slurm to drop it; Slurm kills what does not heed."""
        job = self._kept(handle.token)
        if not job.directory.exists() or job.ended() is not None:
            return
        job.note_cancelled()
        job.give_up()
        if job.taken_by() is not None:
            self._end_ranks(handle, job)
        if job.ended() is None:
            self._scancel(handle)
            self._wait_for_end(handle, job, KILL_WAIT_S)
        asked = self._asked.get(_number(handle))
        if job.ended() is None and asked is not None and asked.goes_on:
            why = asked.silent or f"Slurm says {asked.told.state if asked.told else 'nothing'}"
            raise LaunchError(
                f"job {_number(handle)} of Slurm can't be ended: {why}; "
                f"end it when that is over: scancel {_number(handle)}"
            )

    def fetch(self, handle: Handle, patterns: Sequence[str]) -> Iterator[Output]:
        """From the directory that the ranks of all nodes ran in; at most 1 GiB a job."""
        return self.jobs.fetch(handle.token, patterns)

    def forget(self, handle: Handle) -> None:
        """Remove the job's directory."""
        self.jobs.remove(handle.token, lambda: self.status(handle))

    def leftovers(self) -> Sequence[Leftover]:
        """Jobs of this user that wait or run, and what lies in the system's directory."""
        found: dict[str, list[str]] = {}
        for number, token, state in self.slurm.queued():
            found.setdefault(token, []).append(f"job {number} ({state})")
        going = set(found)
        for directory in sorted(self.directory.glob("*/job.sh")) if self.system.directory else ():
            found.setdefault(directory.parent.name, []).append(f"directory {directory.parent}")
        return [Leftover(token, tuple(what), token in going) for token, what in found.items()]

    def discard(self, tokens: Collection[str]) -> None:
        """Have Slurm end them, wait until it did, remove their directories on the shared disk."""
        for token in tokens:
            self._drop(token)
        give_up = time.monotonic() + KILL_WAIT_S
        while still := [str(n) for n, token, _ in self.slurm.queued() if token in tokens]:
            if time.monotonic() > give_up:
                raise LaunchError(
                    f"jobs {', '.join(still)} of Slurm can't be ended; look at them with squeue"
                )
            time.sleep(ASK_AT_THE_END_EVERY_S)
        for token in tokens if self.system.directory else ():
            spool.remove(self._kept(token).directory)

    # What is sent

    def _check(self, job: Job) -> None:
        """Raises InputError for a job that can't be sent."""
        sent.check_task(job, self.system.env)
        if self.system.container_image is not None and re.search(r"[,:]", str(self.directory)):
            words = f"{self.directory} can't be mounted in a container: no , and no : in its name"
            raise OptionsError([Problem("directory", words)])

    def _python(self) -> str:
        return self.system.python or ("python3" if self.system.container_image else sys.executable)

    def _kept(self, token: str) -> SharedJob:
        return SharedJob(self.jobs.job(token).directory)

    def _sbatch(self, token: str, kept: SharedJob, script: Path) -> Handle:
        """Hand in the script. A refusal gives the job up: sbatch may fail after Slurm has taken it."""
        argv = ("sbatch", "--parsable", f"--chdir={kept.directory}", str(script))
        try:
            said = self.slurm.run(*argv)
        except (SlurmSilent, ProgramMissing) as error:
            kept.give_up()
            raise PlatformError(f"sbatch: {error}") from error
        found = _SUBMITTED.fullmatch(said.stdout.strip()) if said.ok else None
        if found is None:
            kept.give_up()
            why = said.stderr.strip() or said.stdout.strip()
            extent = refusals.extent_of(why)
            if extent is Extent.PLATFORM:
                raise PlatformError(f"sbatch refused the job: {why}")
            raise JobRefused(f"sbatch refused the job: {why}", extent)
        return self._noted(kept, token, int(found[1]))

    def _noted(self, kept: SharedJob, token: str, number: int) -> Handle:
        handle = Handle(self.name, token, {"job_id": number, "cluster": self.system.cluster})
        kept.note_submitted(handle)
        return handle

    def _drop(self, token: str) -> None:
        """Take what was given up out of the queue; where that fails its script still runs nothing."""
        with _unless_silent():
            self.slurm.run("scancel", "--quiet", f"--name={NAME}{token}")

    # How it ends

    def _refuse(self, handle: Handle, job: SharedJob, asked: Asked) -> bool:
        """Give up a job that waits in vain; False where it began meanwhile."""
        job.give_up()
        if job.taken_by() is not None or asked.told is None or asked.hopeless is None:
            return False
        job.note_refused(standing.why_waits(asked.told), asked.hopeless)
        self._scancel(handle)
        return True

    def _end_rest(self, handle: Handle) -> None:
        """End a job that Slurm put back into its queue, or whose keepers are gone while it says RUNNING."""
        self._followed.add(_number(handle))
        asked = self._asked.get(_number(handle))
        if (asked is not None and asked.requeued) or self._kept(handle.token).overdue():
            self._scancel(handle)

    def _ask(self, handle: Handle) -> Asked:
        number = _number(handle)
        begun = self._kept(handle.token).taken_by() is not None
        try:
            asked = Asked(time.monotonic(), begun, self.slurm.ask(number))
        except SlurmSilent as error:
            asked = Asked(time.monotonic(), begun, None, error)
        self._asked[number] = asked
        return asked

    def _standing(self, job: SharedJob, asked: Asked) -> JobStatus:
        end = job.ended()
        if end is not None:
            return standing.of_ended(job, end, asked)
        if asked.silent is not None and not job.given_up():
            started_at = job.started_at()
            state = JobState.RUNNING if started_at else JobState.PENDING
            return JobStatus(state, str(asked.silent), started_at=started_at)
        failed: list[str] = []
        if asked.told is not None and asked.told.over and asked.told.nodes:
            with _unless_silent():
                failed = self.slurm.failed_nodes(asked.told.nodes)
        return standing.without_word(job, asked, failed)

    def _end_ranks(self, handle: Handle, job: SharedJob) -> None:
        """Ask the keepers alone, who give the ranks their grace time; plain scancel leaves them KillWait."""
        give_up = time.monotonic() + self.system.grace + spool.KEEPER_SLACK_S
        while job.ended() is None and time.monotonic() < give_up:
            self._scancel(handle, "--signal=TERM")  # again: a keeper that was just being started missed it
            if self._wait_for_end(handle, job, 1.0):
                return

    def _scancel(self, handle: Handle, *options: str) -> None:
        with _unless_silent():
            self.slurm.run("scancel", "--quiet", *options, str(_number(handle)))

    def _wait_for_end(self, handle: Handle, job: SharedJob, patience_s: float) -> bool:
        """Whether the keepers or Slurm said within this time that nothing of the job runs any more."""
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
    """Go on where Slurm gives no answer: what was asked of it is looked at again later."""
    with suppress(SlurmSilent, ProgramMissing):
        yield
