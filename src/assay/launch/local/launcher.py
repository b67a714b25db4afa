"""Jobs on this machine: a keeper of their own runs them, so that they need no Assay to go on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from assay import payload_files
from assay.errors import InputError, LaunchError, OptionsError, Problem
from assay.launch import dry_run, job_spec, processes, spool
from assay.launch.job_directory import JobDirectory, not_taken
from assay.launch.launcher import Leftover
from assay.launch.local.options import LocalSystem
from assay.records import Handle, Job, JobState, JobStatus, Output, RenderedJob

KILL_PATIENCE_S = 10.0


class LocalLauncher:
    """Runs jobs on this machine, one process a rank. `Launcher` says what each method promises."""

    name = "local"

    def __init__(self, system: LocalSystem, directory: Path) -> None:
        self.system = system
        self.spool = directory.absolute()
        self.jobs = spool.Spool(self.spool)

    def render(self, job: Job) -> RenderedJob:
        """The command of each rank; what differs from rank to rank or run to run in angle brackets."""
        spool.check_one_node(job, self.name, self.system.env)
        job = dry_run.without_secrets(job)
        command = dry_run.rank_command(job, self._python(), pin_cpus=self.system.pin_cpus)
        return dry_run.rendered(job, command, self.system.env)

    def look(self, job: Job) -> None:
        """For its Python, its working directory, its program, the script that a Python is given."""
        python, cwd = self._python(), job.task.cwd
        if shutil.which(python) is None:
            raise OptionsError([Problem("python", f"found {python}; this machine has no such program")])
        if cwd is not None and not Path(cwd).is_dir():
            raise InputError([Problem("cwd", f"found {cwd}; this machine has no such directory")])
        sent_along = {file.name for file in job.task.files}
        program, *words = job_spec.argv(job, python)
        if os.sep in program:
            found = _is_there(program, cwd, sent_along)
        else:
            path = job_spec.variables(job, self.system.env).get("PATH")
            found = shutil.which(program, path=path) is not None
        if not found:
            raise InputError([Problem("argv", f"found {program}; this machine has no such program")])
        script = words[0] if Path(program).name.startswith("python") and words else ""
        if script.endswith(".py") and not _is_there(script, cwd, sent_along):
            at = cwd or "the job's own directory: name it under files, or say where under cwd"
            raise InputError([Problem("argv", f"found {script}; no such file in {at}")])

    def submit(self, job: Job) -> Handle:
        """Write the job's directory and start its keeper; returns when the keeper has taken the job."""
        spool.check_one_node(job, self.name, self.system.env)
        with spool.told("start the job"), self.jobs.new(job.token) as kept:
            self._write(job, kept.directory)
            exit_code = self._start_keeper(job, kept.directory)
        said = kept.keeper_said()
        handle = self.find(job.token)
        if handle is None:
            raise not_taken(exit_code, said, spool.KEEPER_START_S)
        return handle

    def find(self, token: str) -> Handle | None:
        """The job, if a keeper has taken it; else it is taken here, so that none ever will."""
        with spool.told("look for the job"):
            self.jobs.job(token).give_up()
        return self._handle(token)

    def follow(self, handle: Handle, kept: Mapping[str, int]) -> Iterator[Output | None]:
        """From the streams' files."""
        job = self.jobs.job(handle.token)
        keeper = None if job.status().state.final else job.keeper()
        with processes.watched(keeper.pid if keeper else None) as pause:
            yield from spool.follow(
                job,
                kept,
                runs=lambda: keeper is not None and keeper.runs(),
                pause=pause,
                end_rest=lambda: self._end_rest(job),
            )

    def status(self, handle: Handle) -> JobStatus:
        """From what the keeper wrote, and whether it lives."""
        kept = self.jobs.job(handle.token)
        return replace(kept.status(), hosts=(kept.host(),))

    def cancel(self, handle: Handle) -> None:
        """Ask the keeper to end the job; kill whatever carries the token where it does not."""
        job = self.jobs.job(handle.token)
        keeper = job.keeper()
        if keeper is not None and keeper.runs():
            give_up = time.monotonic() + job.spec()["grace_s"] + spool.KEEPER_SLACK_S
            job.note_cancelled()
            for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped keeper hears nothing
                with suppress(ProcessLookupError):
                    os.kill(keeper.pid, number)
            while keeper.runs() and time.monotonic() < give_up:
                time.sleep(0.01)
        self._kill_rest(handle.token)

    def fetch(self, handle: Handle, patterns: Sequence[str]) -> Iterator[Output]:
        """From the directory that the ranks ran in; at most 1 GiB a job."""
        return self.jobs.fetch(handle.token, patterns)

    def forget(self, handle: Handle) -> None:
        """Remove the job's directory."""
        self.jobs.remove(handle.token, lambda: self.status(handle))

    def leftovers(self) -> Sequence[Leftover]:
        """Processes that carry a job's token."""
        carrying: defaultdict[str, list[str]] = defaultdict(list)
        for pid, token in sorted(processes.values_of("ASSAY_TOKEN").items()):
            carrying[token].append(f"process {pid}")
        return [Leftover(token, tuple(what), runs=True) for token, what in carrying.items()]

    def discard(self, tokens: Collection[str]) -> None:
        """Kill them."""
        for token in tokens:
            self._kill_rest(token)

    def _handle(self, token: str) -> Handle | None:
        keeper = self.jobs.job(token).keeper()
        return None if keeper is None else Handle(self.name, token, asdict(keeper))

    def _end_rest(self, job: JobDirectory) -> None:
        """Ranks die with their keeper, what they started may not; one that succeeded has left nothing."""
        ended = job.ended()
        if ended is None or ended.state is not JobState.SUCCEEDED or ended.cause:
            self._kill_rest(job.directory.name)

    def _kill_rest(self, token: str) -> None:
        left = processes.kill_with_variable("ASSAY_TOKEN", token, KILL_PATIENCE_S)
        if left:
            raise LaunchError(f"processes {left} of job {token} can't be killed: they hang in the kernel")

    # What is sent

    def _python(self) -> str:
        return self.system.python or sys.executable

    def _write(self, job: Job, directory: Path) -> None:
        system = self.system
        spool.write(
            JobDirectory(directory),
            job,
            python=self._python(),
            env=system.env,
            grace_s=system.grace,
            pin=system.pin_cpus,
        )

    def _start_keeper(self, job: Job, directory: Path) -> int | None:
        """Start it in a session of its own, where no Ctrl-C and no end of Assay reaches it.

        It detaches itself once it has taken the job. Whether it has is seen in the directory; the exit code
        of what was started says why not, None where it took too long.
        """
        keeper = directory / payload_files.path_of(job_spec.KEEPER)
        argv = [sys.executable, "-I", "-S", str(keeper), str(directory), "--detach"]
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
            give_up = time.monotonic() + spool.KEEPER_START_S
            while starting.poll() is None and time.monotonic() < give_up:
                pause(spool.LOOK_EVERY_S)
            exit_code = starting.poll()
            starting.kill()
        return exit_code


def _is_there(name: str, cwd: str | None, sent_along: Collection[str]) -> bool:
    """Whether a job that runs in `cwd`, or in a directory of its own with these files, finds the file."""
    if cwd is None and not Path(name).is_absolute():
        return os.path.normpath(name) in sent_along
    return Path(cwd or os.sep, name).exists()
