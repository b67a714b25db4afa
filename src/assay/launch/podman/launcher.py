"""Jobs in a container on this machine, started by Podman or Docker.

The job's directory has the same path inside, and the container's first process is the job's keeper. So
everything is read from the directory, like for a local job, and the engine is used only to start, end, and
name the container. The container stays after its end, for what is known about it, until it is removed.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from assay import payload_files
from assay.errors import InputError, LaunchError, OptionsError, PlatformError, Problem
from assay.launch import job_spec, processes, spool
from assay.launch.job_directory import JobDirectory, Keeper, not_taken
from assay.launch.launcher import JobLostError, JobRefusedError, Leftover
from assay.launch.podman import ContainerSystem, engine, flags, hand_over, with_host_python
from assay.launch.podman.engine import Container, Engine
from assay.records import Extent, Handle, Job, JobState, JobStatus, Output, RenderedJob

TOKEN_LABEL = "assay.dev/token"  # noqa: S105  (the job's name)
_LOOK_S = 0.02


class PodmanLauncher:
    """Runs jobs in containers, one per job. `Launcher` documents what each method promises."""

    def __init__(self, program: str, system: ContainerSystem, directory: Path) -> None:
        self.name = program
        self.system = with_host_python(system)
        self.spool = directory.absolute()
        self.jobs = spool.Spool(self.spool)
        self.engine = Engine(program)
        self._seen: dict[str, Container] = {}  # token → its container, as last seen running

    def render(self, job: Job) -> RenderedJob:
        """The command that starts the container, then each rank's command in it."""
        self._check(job)
        job = job_spec.without_secrets(job)
        started = shlex.join(self._run(job, "<token>", "<directory of the job>"))
        rank = job_spec.rank_command(job, self.system.python, pin_cpus=self.system.pin_cpus)
        return job_spec.rendered(job, f"{started}\n# in it, each rank:\n{rank}", self.system.env)

    def submit(self, job: Job) -> Handle:
        """Write the job's directory and start its container; return when the keeper has taken the job."""
        self._check(job)
        if ":" in str(self.spool):
            raise InputError(
                f"{self.spool}: a directory with a colon in its name can't be mounted into a container"
            )
        with spool.naming_disk_errors("start the job"), self.jobs.new(job.token) as kept:
            system = self.system
            spool.lay_out_programs(kept)
            spool.write(
                kept, job, python=system.python, env=system.env, grace_s=system.grace, pin=system.pin_cpus
            )
            hand_over(kept.directory, system.user)
        answer = self.engine.ask(*self._run(job, job.token, str(kept.directory))[1:])
        if not answer.ok:
            self.find(job.token)
            raise self._refused(job, engine.refusal_of(answer, self.system, self._image(job)))
        self._wait_until_taken(job.token)
        handle = self._give_up(job.token)
        if handle is None:
            why = self._why_not_taken(job)
            self.engine.remove(_container(job.token))
            raise why
        return handle

    def find(self, token: str) -> Handle | None:
        """The job, if a keeper has taken it; otherwise, takes it, and removes its container, if any."""
        handle = self._give_up(token)
        if handle is None:
            self.engine.remove(_container(token))
        return handle

    def follow(self, handle: Handle, kept: Mapping[str, int]) -> Iterator[Output | None]:
        """From the streams' files; when a container's first process ends, everything in it ends."""
        seen = self._look(handle.token)
        with processes.watched(seen.pid if seen else None) as pause:
            yield from spool.follow(
                self.jobs.job(handle.token),
                kept,
                runs=lambda: seen is not None and seen.runs(),
                pause=pause,
                end_rest=lambda: None,
            )

    def status(self, handle: Handle) -> JobStatus:
        """From the keeper's files, and whether its container is running."""
        kept = self.jobs.job(handle.token)
        seen = self._look(handle.token)
        status = kept.status(lambda keeper: _runs(keeper, seen))
        if status.state is JobState.LOST and kept.keeper() is not None:
            status = self._lost(kept, status, seen)
        elif status.state is JobState.STOPPED and seen is None:
            status = replace(status, cause=_removed(handle.token))
        elif status.state is JobState.FAILED and "out of memory" in status.cause and self.system.memory:
            status = replace(
                status, cause=f"{status.cause}; raise the system's memory ({self.system.memory})"
            )
        return replace(status, facts=seen.facts if seen else {}, hosts=(processes.host(),))

    def cancel(self, handle: Handle) -> None:
        """Ask the keeper to end the job; if it does not, kill it, and the container with it."""
        name, seen = _container(handle.token), self._look(handle.token)
        if seen is None or not seen.runs():
            return
        job = self.jobs.job(handle.token)
        grace_s = job.spec()["grace_s"]
        job.note_cancelled()
        for signal_name in ("TERM", "CONT"):  # a stopped keeper handles no signal
            self.engine.signal(name, signal_name)
        if not _ended(seen, grace_s + spool.KEEPER_SLACK_S):
            self.engine.signal(name, "KILL")
        if not _ended(seen, spool.KEEPER_SLACK_S):
            raise LaunchError(f"container {name} can't be ended: its processes hang in the kernel")

    def fetch(self, handle: Handle, patterns: Sequence[str]) -> Iterator[Output]:
        """From the directory that the ranks ran in; at most 1 GiB per job."""
        return self.jobs.fetch(handle.token, patterns)

    def forget(self, handle: Handle) -> None:
        """Remove the container and the job's directory."""
        self.jobs.remove(handle.token, lambda: self.status(handle))
        self.engine.remove(_container(handle.token))
        self._seen.pop(handle.token, None)

    def leftovers(self) -> Sequence[Leftover]:
        """Containers that carry a token."""
        return [
            Leftover(token, (f"container {name}",), seen.runs())
            for token, name, seen in self.engine.labeled(TOKEN_LABEL)
        ]

    def discard(self, tokens: Collection[str]) -> None:
        """Remove them, ended or not."""
        for token in tokens:
            self.engine.remove(_container(token))

    # What is sent

    def _check(self, job: Job) -> None:
        spool.check_one_node(job, self.name, self.system.env)
        self._image(job)

    def _image(self, job: Job) -> str:
        image = self.system.image or job.task.image
        if image is None:
            message = (
                f"launcher {self.name} needs a container image, but neither the system nor the workload "
                "names one; set `image` for the system"
            )
            raise OptionsError([Problem("image", message)])
        return image

    def _refused(self, job: Job, why: engine.Refusal) -> LaunchError:
        """Image and directory may come from the benchmark; the rest comes from the system."""
        if why.extent is Extent.PLATFORM:
            return PlatformError(str(why))
        cwd = job.task.cwd
        own = self.system.image is None or (cwd is not None and cwd in str(why))
        return JobRefusedError(str(why), Extent.BENCHMARK if own else why.extent)

    def _run(self, job: Job, token: str, directory: str) -> list[str]:
        """The command line that starts the job's container."""
        cwd = job.task.cwd
        return [
            self.name,
            "run",
            "--detach",
            f"--name={_container(token)}",
            f"--label={TOKEN_LABEL}={token}",
            *flags(self.system, self.name),
            *([f"--volume={cwd}:{cwd}:rw"] if cwd is not None else []),
            f"--volume={directory}:{directory}:rw",
            f"--entrypoint={self.system.python}",
            self._image(job),
            "-I",
            "-S",
            f"{directory}/{payload_files.path_of(job_spec.KEEPER)}",
            directory,
        ]

    # How it ended

    def _look(self, token: str) -> Container | None:
        """The job's container. The engine is queried only after it ended, because a query costs CPU time."""
        known = self._seen.get(token)
        if known is not None and known.runs():
            return known
        seen = self.engine.container(_container(token))
        if seen is not None and seen.runs():
            self._seen[token] = seen
        return seen

    def _give_up(self, token: str) -> Handle | None:
        """Take the job so that no keeper can; returns its handle if one has."""
        with spool.naming_disk_errors("look for the job"):
            self.jobs.job(token).give_up()
        keeper = self.jobs.job(token).keeper()
        if keeper is None:
            return None
        return Handle(self.name, token, {"container": _container(token), **asdict(keeper)})

    def _wait_until_taken(self, token: str) -> None:
        kept, seen = self.jobs.job(token), self._look(token)
        give_up = time.monotonic() + spool.KEEPER_START_S
        while kept.keeper() is None and seen is not None and seen.runs() and time.monotonic() < give_up:
            time.sleep(_LOOK_S)

    def _why_not_taken(self, job: Job) -> LaunchError:
        """Why no keeper took the job, from how its container ended."""
        name = _container(job.token)
        seen, answer = self.engine.container(name), self.engine.ask("logs", name)
        if seen is None:
            return JobLostError(f"container {name} was removed before its keeper took the job")
        last_lines = " ".join((answer.stdout + answer.stderr).strip().splitlines()[-3:])
        why = not_taken(seen.exit_code, last_lines, spool.KEEPER_START_S)
        if isinstance(why, JobLostError):
            return why
        return self._refused(job, engine.Refusal("the job's keeper did not take the job", last_lines))

    def _lost(self, kept: JobDirectory, lost: JobStatus, seen: Container | None) -> JobStatus:
        """The status of a job whose keeper left no report, from what the engine says about its container."""
        token = kept.directory.name
        if seen is None:
            return replace(lost, state=JobState.STOPPED, cause=_removed(token))
        if seen.exit_code is None:
            return lost
        ended = f"container {_container(token)} ended with exit code {seen.exit_code} while the job ran"
        if self.engine.was_killed(_container(token)):
            return replace(
                lost, state=JobState.STOPPED, cause=f"{ended}: somebody killed it with {self.name}"
            )
        limit = f" (its limit is {self.system.memory})" if self.system.memory else ""
        killed = (
            f": it was killed, by someone or because it ran out of memory{limit}"
            if seen.exit_code == 137
            else ""
        )
        return replace(lost, cause=ended + killed)


def _removed(token: str) -> str:
    return f"somebody else ended the job: container {_container(token)} was removed while it ran"


def _container(token: str) -> str:
    return f"assay-{token}"


def _runs(keeper: Keeper, seen: Container | None) -> bool:
    """Whether a keeper in a container is alive: its process ID means nothing outside."""
    if keeper.boot_id != processes.boot_id():
        return keeper.runs()
    return seen is not None and seen.runs()


def _ended(seen: Container, patience_s: float) -> bool:
    give_up = time.monotonic() + patience_s
    while seen.runs() and time.monotonic() < give_up:
        time.sleep(_LOOK_S)
    return not seen.runs()
