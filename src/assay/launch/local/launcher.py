"""Jobs on this machine: each has its own keeper, so that it continues without Assay."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, NamedTuple

from assay import payload_files
from assay.errors import InputError, LaunchError, OptionsError, Problem
from assay.launch import job_spec, processes, spool
from assay.launch.job_directory import JobDirectory, not_taken
from assay.launch.launcher import Leftover
from assay.launch.local import LocalSystem
from assay.records import Handle, Job, JobState, JobStatus, Output, RenderedJob

KILL_PATIENCE_S = 10.0


class LocalLauncher:
    """Runs jobs on this machine, one process per rank. `Launcher` documents what each method promises."""

    name = "local"

    def __init__(self, system: LocalSystem, directory: Path) -> None:
        self.system = system
        self.spool = directory.absolute()
        self.jobs = spool.Spool(self.spool)
        self._keepers = KeeperServer()

    def render(self, job: Job) -> RenderedJob:
        """The command of each rank; what differs between ranks or runs is in angle brackets."""
        spool.check_one_node(job, self.name, self.system.env)
        job = job_spec.without_secrets(job)
        command = job_spec.rank_command(job, self._python(), pin_cpus=self.system.pin_cpus)
        return job_spec.rendered(job, command, self.system.env)

    def look(self, job: Job) -> None:
        """Checks its Python, its working directory, its program, and the script passed to a Python."""
        python, cwd = self._python(), job.task.cwd
        if shutil.which(python) is None:
            raise OptionsError(
                [Problem("python", f"found {python}; this program does not exist on this machine")]
            )
        if cwd is not None and not Path(cwd).is_dir():
            raise InputError([Problem("cwd", f"found {cwd}; this directory does not exist on this machine")])
        sent_along = {file.name for file in job.task.files}
        program, *arguments = job_spec.argv(job, python)
        path = job_spec.variables(job, self.system.env).get("PATH")
        for where, name in (("argv", program), ("program", _site_program(job.task.argv))):
            there = _is_there(name, cwd, sent_along) if os.sep in name else shutil.which(name, path=path)
            if name and not there:
                raise InputError(
                    [Problem(where, f"found {name}; this program does not exist on this machine")]
                )
        script = arguments[0] if Path(program).name.startswith("python") and arguments else ""
        if script.endswith(".py") and not _is_there(script, cwd, sent_along):
            directory = cwd or "the job's own directory: list it under files, or set cwd"
            raise InputError([Problem("argv", f"found {script}; this file does not exist in {directory}")])

    def prepare(self) -> None:
        """Start the server of keepers."""
        self._keepers.prepare()

    def submit(self, job: Job) -> Handle:
        """Write the job's directory and start its keeper; return when the keeper has taken the job."""
        spool.check_one_node(job, self.name, self.system.env)
        with spool.naming_disk_errors("start the job"), self.jobs.new(job.token) as kept:
            self._write(job, kept.directory)
            exit_code = self._keepers.start(kept.directory, spool.KEEPER_START_S)
        last_line = kept.keeper_said()
        handle = self.find(job.token)
        if handle is None:
            if exit_code is not None and exit_code > 0:  # of the keeper, below 0 of its server: it is gone
                spool.remove(kept.directory)
            raise not_taken(exit_code, last_line, spool.KEEPER_START_S)
        return handle

    def find(self, token: str) -> Handle | None:
        """The job, if a keeper has taken it; otherwise it is taken here, so that none ever will."""
        with spool.naming_disk_errors("look for the job"):
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
        """From the keeper's files, and whether it is alive."""
        kept = self.jobs.job(handle.token)
        return replace(kept.status(), hosts=(kept.host(),))

    def cancel(self, handle: Handle) -> None:
        """Ask the keeper to end the job; if it does not, kill everything with the token."""
        job = self.jobs.job(handle.token)
        keeper = job.keeper()
        if keeper is not None and keeper.runs():
            give_up = time.monotonic() + job.spec()["grace_s"] + spool.KEEPER_SLACK_S
            job.note_cancelled()
            for number in (signal.SIGTERM, signal.SIGCONT):  # a stopped keeper handles no signal
                with suppress(ProcessLookupError):
                    os.kill(keeper.pid, number)
            while keeper.runs() and time.monotonic() < give_up:
                time.sleep(0.01)
            if keeper.runs():
                with suppress(ProcessLookupError):
                    os.kill(keeper.pid, signal.SIGKILL)
        self._kill_rest(handle.token)

    def fetch(self, handle: Handle, patterns: Sequence[str]) -> Iterator[Output]:
        """From the directory that the ranks ran in; at most 1 GiB per job."""
        return self.jobs.fetch(handle.token, patterns)

    def forget(self, handle: Handle) -> None:
        """Remove the job's directory."""
        self.jobs.remove(handle.token, lambda: self.status(handle))

    def leftovers(self) -> Sequence[Leftover]:
        """Processes with a job's token."""
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
        """Ranks die with their keeper, but what they started may not; one that succeeded left nothing."""
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


def _site_program(argv: Sequence[str]) -> str:
    """The site's program that one of Assay's own starts, by its option `--program`; "" if it starts none."""
    ours = argv[:2] == ("{python}", "-m") and "--program" in argv
    return argv[argv.index("--program") + 1] if ours else ""


def _is_there(name: str, cwd: str | None, sent_along: Collection[str]) -> bool:
    """Whether a job that runs in `cwd`, or in its own directory with these files, finds the file."""
    if cwd is None and not Path(name).is_absolute():
        return os.path.normpath(name) in sent_along
    return Path(cwd or os.sep, name).exists()


_END_S = 2.0  # for it to end once its input is closed; killing it harms no keeper


class KeeperServer:
    """Starts keepers with `keeper.py --serve`, which is itself started with the first one at the latest.

    It ends with this object, or with Assay, however that ends; the keepers continue.
    """

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._server: _Server | None = None

    def prepare(self) -> None:
        """Start the server now, so that the first keeper need not wait for an interpreter."""
        with self._one_at_a_time, suppress(OSError):  # `start` tries again, and reports it
            self._server = self._running()

    def start(self, directory: Path, patience_s: float) -> int | None:
        """Start the keeper of a job's directory; return when it has taken the job, or ended without it.

        It detaches itself once it has taken the job. The directory shows whether it has; the exit code
        of what was started says why not, None if it took too long. What a server that ended has printed
        is added to keeper.log, where keepers print.
        """
        with self._one_at_a_time:
            server, self._server = self._running(), None  # an interruption here leaves a response unread
            exit_code = _answer(server.process, directory, patience_s)
            if exit_code is None:
                server.process.kill()
            elif server.process.poll() is None:
                self._server = server
            else:
                server.errors.seek(0)
                with (directory / "keeper.log").open("ab") as log:
                    log.write(server.errors.read())
            return exit_code

    def _running(self) -> _Server:
        if self._server is not None and self._server.process.poll() is None:
            return self._server
        server = _started()
        weakref.finalize(self, _end, *server)
        return server


class _Server(NamedTuple):
    process: subprocess.Popen[bytes]
    errors: IO[bytes]


def _started() -> _Server:
    """Start it in its own session, where neither Ctrl-C nor the end of Assay reaches it or a keeper.

    It runs where Assay is installed, with its modules compiled.
    """
    keeper = payload_files.DIRECTORY / payload_files.path_of(job_spec.KEEPER)
    errors = os.fdopen(os.memfd_create("keeper-server"), "w+b")
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(keeper), "--serve", job_spec.PROBE, job_spec.SAMPLER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        cwd=os.sep,
        env={"ASSAY_KEEPER": "-" * 256, **os.environ},  # room in which each shows its job's token
        start_new_session=True,
    )
    return _Server(process, errors)


def _answer(server: subprocess.Popen[bytes], directory: Path, patience_s: float) -> int | None:
    assert server.stdin is not None
    assert server.stdout is not None
    give_up = time.monotonic() + patience_s
    environment = {**os.environ, "ASSAY_TOKEN": directory.name}
    request = json.dumps({"directory": str(directory), "environment": environment}).encode() + b"\n"
    os.set_blocking(server.stdin.fileno(), False)  # a stopped server reads nothing, and a pipe holds 64 KiB
    try:
        while request:
            if not _ready(server.stdin.fileno(), select.POLLOUT, give_up):
                return None
            request = request[os.write(server.stdin.fileno(), request) :]
    except BrokenPipeError:
        return server.wait()
    if not _ready(server.stdout.fileno(), select.POLLIN, give_up):
        return None
    answer = server.stdout.readline()
    return int(answer) if answer else server.wait()


def _ready(pipe: int, event: int, give_up: float) -> bool:
    """Whether the pipe becomes ready before that time of the monotonic clock."""
    poll = select.poll()
    poll.register(pipe, event)
    return bool(poll.poll(max(0.0, give_up - time.monotonic()) * 1000))


def _end(server: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    """Let it end, as it does when its input closes; kill it if it does not."""
    for pipe in (server.stdin, server.stdout, errors):
        if pipe is not None:
            pipe.close()
    try:
        server.wait(_END_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
