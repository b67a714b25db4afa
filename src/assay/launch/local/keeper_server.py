"""One interpreter that starts the keepers of many jobs: forking is much faster than starting another."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from assay import payload_files
from assay.launch import job_spec

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
