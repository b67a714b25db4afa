"""Jobs on this machine: a keeper of their own runs them, so that they need no Assay to go on.

A job is a directory `SPOOL/TOKEN`: what is sent (`spec.json`, `keeper.py`, `probe.py`, the task's files in
`work/`) and what the keeper adds: who took the job, how it ended, and a file for each stream.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict, Field

from assay.errors import InputError, LaunchError
from assay.launch import outputs, processes, sent
from assay.launch.kept import KeptJob
from assay.payloads.relay import stamps
from assay.records import Handle, Job, JobStatus, Output, Rendered

LOOK_EVERY_S = 0.1  # far below what a measured program would notice; the job's end wakes at once
OUTPUT_LIMIT_BYTES = 1 << 30
KEEPER_START_S = 60.0  # it takes 30 ms; a machine that is short of memory may take long
KEEPER_SLACK_S = 8.0  # beyond the grace time: a keeper's own wait after SIGKILL, and some
KILL_PATIENCE_S = 10.0
TOKEN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@contextmanager
def _told(doing: str) -> Iterator[None]:
    """What the disk refuses, as a LaunchError that names the file."""
    try:
        yield
    except OSError as error:
        raise LaunchError(f"can't {doing}: {error.filename}: {error.strerror}") from error


class LocalSystem(BaseModel):
    """What systems.yaml may say of this machine."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)
    max_nodes: ClassVar[int | None] = 1

    python: str | None = Field(
        None, description="Interpreter of the trials, one that has torch; by default the one that runs Assay."
    )
    env: sent.Env = Field(default_factory=dict, description=sent.ENV_HELP)
    pin_cpus: bool = Field(False, description=sent.PIN_HELP)
    grace: sent.Grace = Field(5.0, description=sent.GRACE_HELP)


class LocalLauncher:
    """Runs jobs on this machine, one process a rank. `Launcher` says what each method promises."""

    name = "local"

    def __init__(self, system: LocalSystem, spool: Path) -> None:
        self.system = system
        self.spool = spool.absolute()

    def render(self, job: Job) -> Rendered:
        """The command of each rank; what differs from rank to rank or run to run in angle brackets."""
        self._check(job)
        ranks = str(job.shape.ranks)
        command = shlex.join(sent.argv(job, self._python()))
        if self.system.pin_cpus:  # what it amounts to; the keeper needs no taskset
            command = f"taskset --cpu-list '<cores of the rank>' {command}"
        if job.task.cwd is not None:
            command = f"cd {shlex.quote(job.task.cwd)} && {command}"
        env = {
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": f"<allowed cores / {ranks}, unless set>",
            **self.system.env,
            **job.task.env,
            "WORLD_SIZE": ranks,
            "LOCAL_WORLD_SIZE": ranks,
            "GROUP_RANK": "0",
            "NODE_RANK": "0",
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "<a free port>",
            "ASSAY_TOKEN": "<token>",
            "ASSAY_SEED": str(job.seed),
        }
        return Rendered(command, env, {file.name: f"sha256:{file.sha256}" for file in job.task.files})

    def submit(self, job: Job) -> Handle:
        """Write the job's directory and start its keeper; returns when the keeper has taken the job."""
        self._check(job)
        directory = self._kept(job.token).directory
        with _told("start the job"):
            try:
                directory.mkdir(mode=0o700, parents=True)  # its spec may hold a user's secret variables
            except FileExistsError as error:
                raise LaunchError(f"job {job.token} was submitted or given up before: {directory}") from error
            self._write(job, directory)
            self._start_keeper(job, directory)
        handle = self.find(job.token)
        if handle is None:
            said = self._kept(job.token).keeper_said() or f"it did not start within {KEEPER_START_S:g} s"
            raise LaunchError(f"the job's keeper did not take the job: {said}")
        return handle

    def find(self, token: str) -> Handle | None:
        """The job, if a keeper has taken it; else it is taken here, so that none ever will."""
        with _told("look for the job"):
            self._kept(token).give_up()
        return self._handle(token)

    def follow(self, handle: Handle, kept: Mapping[str, int]) -> Iterator[Output | None]:
        """New bytes of the streams' files, looked for ten times a second, and at once when the job ends."""
        job, taken = self._kept(handle.token), dict(kept)
        keeper = None if job.status().state.final else job.keeper()
        with processes.watched(keeper.pid if keeper else None) as pause:
            over = behind = False
            while behind or not over:
                if not over and (keeper is None or not keeper.runs()):
                    self._kill_rest(handle.token)  # ranks die with their keeper, what they started may not
                    over = True  # known before the look, so that the last look misses nothing
                found = behind = False
                for output in job.new_bytes(taken):
                    found, behind = True, behind or len(output.data) == outputs.CHUNK_BYTES
                    yield output
                if not found:
                    yield None
                if not behind and not over:
                    pause(LOOK_EVERY_S)

    def status(self, handle: Handle) -> JobStatus:
        """From what the keeper wrote, and whether it lives."""
        return self._kept(handle.token).status()

    def cancel(self, handle: Handle) -> None:
        """Ask the keeper to end the job; kill whatever carries the token where it does not."""
        job = self._kept(handle.token)
        keeper = job.keeper()
        if keeper is not None and keeper.runs():
            give_up = time.monotonic() + job.spec()["grace_s"] + KEEPER_SLACK_S
            for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped keeper hears nothing
                with suppress(ProcessLookupError):
                    os.kill(keeper.pid, number)
            while keeper.runs() and time.monotonic() < give_up:
                time.sleep(0.01)
        self._kill_rest(handle.token)

    def fetch(self, handle: Handle, patterns: Sequence[str]) -> Iterator[Output]:
        """From the directory that the ranks ran in; at most 1 GiB a job."""
        for pattern in patterns:
            outputs.check_name(pattern)
        spec = self._kept(handle.token).spec()
        before = {name: tuple(stamp) for name, stamp in spec["files_before"].items()}
        return outputs.written(Path(spec["cwd"]), patterns, before, OUTPUT_LIMIT_BYTES)

    def forget(self, handle: Handle) -> None:
        """Remove the job's directory."""
        job = self._kept(handle.token)
        if not job.directory.exists():
            return
        if not job.status().state.final:
            raise LaunchError(f"job {handle.token} still runs; cancel it first")
        with _told("remove the job"):
            shutil.rmtree(job.directory)

    def _kept(self, token: str) -> KeptJob:
        if TOKEN.fullmatch(token) is None:
            raise ValueError(f"{token!r} is not a token: letters, digits, dots, dashes and underscores")
        return KeptJob(self.spool / token)

    def _handle(self, token: str) -> Handle | None:
        keeper = self._kept(token).keeper()
        return None if keeper is None else Handle(self.name, token, asdict(keeper))

    def _kill_rest(self, token: str) -> None:
        left = processes.kill_with_variable("ASSAY_TOKEN", token, KILL_PATIENCE_S)
        if left:
            raise LaunchError(f"processes {left} of job {token} can't be killed: they hang in the kernel")

    # What is sent

    def _check(self, job: Job) -> None:
        """Raises InputError for a job that can't be run on one machine."""
        shape = job.shape
        if shape.nodes not in (None, 1):
            raise InputError(
                f"{job.trial_id}: shape {shape} asks for {shape.nodes} nodes and launcher local has one: "
                f"write {shape.workers}x{shape.accelerators}, or choose another system"
            )
        sent.check_task(job)

    def _python(self) -> str:
        return self.system.python or sys.executable

    def _write(self, job: Job, directory: Path) -> None:
        work = directory / "work"
        sent.write_files(job, work)
        for name, program in sent.programs("keeper.py", "probe.py").items():
            (directory / name).write_bytes(program)
        cwd = Path(job.task.cwd or work)
        spec = sent.spec(
            job,
            python=self._python(),
            env=self.system.env,
            cwd=str(cwd),
            probe=str(directory / "probe.py"),
            nodes=1,
            grace_s=self.system.grace,
            pin_cpus=self.system.pin_cpus,
            files_before=stamps(cwd, job.task.outputs),
        )
        sent.write_spec(spec, directory)

    def _start_keeper(self, job: Job, directory: Path) -> None:
        """Start it in a session of its own, where no Ctrl-C and no end of Assay reaches it.

        It detaches itself once it has taken the job. Whether it has is seen in the directory, not here.
        """
        argv = [sys.executable, "-I", "-S", str(directory / "keeper.py"), str(directory), "--detach"]
        with (directory / "keeper.log").open("wb") as log:
            starting = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=directory,
                env={**os.environ, "ASSAY_TOKEN": job.token},
                start_new_session=True,
            )
        with starting, processes.watched(starting.pid) as pause:
            give_up = time.monotonic() + KEEPER_START_S
            while starting.poll() is None and time.monotonic() < give_up:
                pause(LOOK_EVERY_S)
            starting.kill()
