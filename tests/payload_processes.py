"""Programs of payloads/ started as they are, as one rank or as several that meet."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


def start(argv: list[str], directory: Path, env: Mapping[str, str], log: Path) -> subprocess.Popen[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
    with log.open("w") as out:
        return subprocess.Popen(
            [sys.executable if word == "{python}" else word for word in argv],
            cwd=directory,
            env={"OMP_NUM_THREADS": "1"} | kept | dict(env),
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )


def end(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and what stood on standard error."""
    try:
        _, errors = process.communicate(timeout=300)
    finally:
        process.kill()
    return process.returncode, errors


def run_workload(directory: Path, name: str, ranks: int, seed: int, params: Mapping[str, Any]) -> Reading:
    """Run the workload as its task says, read it as the workload does; the job must end well."""
    workload = WORKLOADS[name]
    asked = workload.params(**params)
    task = workload.task(asked, Shape(1, ranks), seed)
    for file in task.files:
        (directory / file.name).write_bytes(file.data)
    logs = {f"rank-{rank}.log": directory / f"rank-{rank}.log" for rank in range(ranks)}
    port = free_port()
    started = [
        start(list(task.argv), directory, torchrun(rank, ranks, port), log)
        for rank, log in enumerate(logs.values())
    ]
    for code, errors in [end(process) for process in started]:
        assert code == 0, errors
    return workload.read(logs, asked)
