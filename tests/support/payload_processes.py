"""Programs of assay_payloads started as they are, as one rank or as several that meet."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import fork_server
from assay.payload_files import lay_out
from assay.records import Reading, Shape
from assay.workloads import WORKLOADS


def torchrun(rank: int, size: int, port: int) -> dict[str, str]:
    place = {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
    return place | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def environment(env: Mapping[str, str]) -> dict[str, str]:
    """What a program's process has around it: one thread, these variables, and few of this process's."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    return {"OMP_NUM_THREADS": "1"} | kept | dict(env)


def start(argv: list[str], directory: Path, env: Mapping[str, str], log: Path) -> subprocess.Popen[str]:
    with log.open("w") as out:
        return subprocess.Popen(
            [sys.executable if word == "{python}" else word for word in argv],
            cwd=directory,
            env=environment(env),
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )


def end(process: subprocess.Popen[str] | Forked) -> tuple[int, str]:
    """Exit code and what stood on standard error."""
    try:
        _, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode is not None
    return process.returncode, errors


class Forks:
    """Starts programs that use torch without importing it for each: see fork_server.py."""

    def __init__(self) -> None:
        self.codes: dict[int, int] = {}
        self._pids: dict[int, int] = {}
        self._server = subprocess.Popen(
            [sys.executable, fork_server.__file__],
            env=environment({}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._server:  # closes its input, which ends it
            pass

    def start(self, argv: list[str], directory: Path, env: Mapping[str, str], log: Path) -> Forked:
        """As `start`."""
        run, (python, *rest) = len(self._pids), argv
        assert python == "{python}"
        errors = log.with_suffix(".errors")
        asked = {"run": run, "argv": rest, "directory": str(directory), "env": environment(env)}
        asked |= {"out": str(log), "errors": str(errors)}
        assert self._server.stdin is not None
        self._server.stdin.write(f"{json.dumps(asked)}\n".encode())
        while run not in self._pids:
            self.take(timeout_s=120)
        return Forked(self, run, self._pids[run], errors)

    def take(self, timeout_s: float) -> None:
        """The next thing that the server tells. Raises TimeoutExpired."""
        assert self._server.stdout is not None
        if not select.select([self._server.stdout], [], [], timeout_s)[0]:
            raise subprocess.TimeoutExpired("fork_server.py", timeout_s)
        line = self._server.stdout.readline()
        assert line, "the fork server has ended"
        told = json.loads(line)
        if "pid" in told:
            self._pids[told["run"]] = told["pid"]
        else:
            self.codes[told["run"]] = told["code"]


@dataclass(frozen=True)
class Forked:
    """A process that the fork server started; answers as a Popen does."""

    forks: Forks
    run: int
    pid: int
    errors: Path

    @property
    def returncode(self) -> int | None:
        """Exit code, or less the number of the signal that ended it; None while it runs."""
        return self.forks.codes.get(self.run)

    def communicate(self, timeout: float) -> tuple[None, str]:
        """Wait for its end; gives what stood on standard error. Raises TimeoutExpired."""
        deadline = time.monotonic() + timeout
        while self.returncode is None:
            self.forks.take(max(0.0, deadline - time.monotonic()))
        return None, self.errors.read_text()

    def kill(self) -> None:
        """End it where it still runs; the server has taken note of one that does not."""
        if self.returncode is None:
            os.kill(self.pid, 9)


def run_workload(
    directory: Path,
    name: str,
    ranks: int,
    seed: int,
    params: Mapping[str, Any],
    start: Callable[..., subprocess.Popen[str] | Forked] = start,
) -> Reading:
    """Run the workload as its task says, read it as the workload does; the job must end well."""
    workload = WORKLOADS[name]
    asked = workload.params(**params)
    task = workload.task(asked, Shape(1, ranks), seed)
    lay_out(directory, {file.name: file.data for file in task.files})
    logs = {f"rank-{rank}.log": directory / f"rank-{rank}.log" for rank in range(ranks)}
    port = free_port()
    started = [
        start(list(task.argv), directory, torchrun(rank, ranks, port), log)
        for rank, log in enumerate(logs.values())
    ]
    for code, errors in [end(process) for process in started]:
        assert code == 0, errors
    return workload.reader.read(logs, asked)
