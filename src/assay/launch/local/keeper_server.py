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
from pathlib import Path

from assay import payload_files
from assay.launch import job_spec

_END_S = 2.0  # for it to end once its input is closed; killing it harms no keeper


class KeeperServer:
    """Starts keepers with `keeper.py --serve`, which is itself started with the first one.

    It ends with this object, or with Assay, however that ends; the keepers continue.
    """

    def __init__(self) -> None:
        self._one_at_a_time = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None

    def start(self, directory: Path, patience_s: float) -> int | None:
        """Start the keeper of a job's directory; return when it has taken the job, or ended without it.

        It detaches itself once it has taken the job. The directory shows whether it has; the exit code
        of what was started says why not, None if it took too long.
        """
        with self._one_at_a_time:
            if self._server is None or self._server.poll() is not None:
                self._server = _started(directory)
                weakref.finalize(self, _end, self._server)
            server, self._server = self._server, None  # an interruption here leaves a response unread
            exit_code = _answer(server, directory, patience_s)
            if exit_code is None:
                server.kill()
            elif server.poll() is None:
                self._server = server
            return exit_code


def _started(directory: Path) -> subprocess.Popen[bytes]:
    """Start it in its own session, where neither Ctrl-C nor the end of Assay reaches it or a keeper.

    It runs where Assay is installed, with its modules compiled. It reports problems in the directory.
    """
    keeper = payload_files.DIRECTORY / payload_files.path_of(job_spec.KEEPER)
    with (directory / "keeper.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", str(keeper), "--serve", job_spec.PROBE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=os.sep,
            env={"ASSAY_KEEPER": "-" * 256, **os.environ},  # room in which each shows its job's token
            start_new_session=True,
        )


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


def _end(server: subprocess.Popen[bytes]) -> None:
    """Let it end, as it does when its input closes; kill it if it does not."""
    for pipe in (server.stdin, server.stdout):
        if pipe is not None:
            pipe.close()
    try:
        server.wait(_END_S)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
