"""An LSF for tests: the commands of lsf_stand_in.py, first on PATH."""

from __future__ import annotations

import os
import shlex
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import lsf_stand_in
from lsf_stand_in import Cluster

HOSTS = ("127.0.1.1", "127.0.1.2")  # names that resolve; both are this machine
SLOTS = 4


@pytest.fixture(name="lsf")
def lsf_commands() -> Iterator[Cluster]:
    """A cluster of two hosts with four slots each."""
    with tempfile.TemporaryDirectory(prefix="assay-lsf-") as place, pytest.MonkeyPatch.context() as patch:
        cluster = installed(Path(place), patch)
        yield cluster
        cluster.send(signal.SIGKILL)
        while cluster.processes():
            time.sleep(0.01)


def installed(place: Path, patch: pytest.MonkeyPatch) -> Cluster:
    """The commands in a directory of their own, and the state in another."""
    commands, state = place / "bin", place / "state"
    commands.mkdir()
    state.mkdir()
    for name in lsf_stand_in.COMMANDS:
        words = f'export {lsf_stand_in.DIRECTORY}="{state}"\n'
        words += f'exec {shlex.join(lsf_stand_in.PROGRAM)} {name} "$@"\n'
        (commands / name).write_text(f"#!/bin/sh\n{words}")
        (commands / name).chmod(0o755)
    patch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    return Cluster.make(state, HOSTS, SLOTS)


@contextmanager
def down(cluster: Cluster) -> Iterator[None]:
    """LSF is down meanwhile, and a command that does not come back is given up soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assay.launch.lsf.commands.ASK_TIMEOUT_S", 1.0)
        with cluster.changed() as state:
            state["down"] = True
        try:
            yield
        finally:
            with cluster.changed() as state:
                state["down"] = False


def job_of(cluster: Cluster, token: str) -> dict[str, Any]:
    """What it knows of the job with this token."""
    found: dict[str, Any] = next(
        job for job in cluster.read()["jobs"].values() if job["name"] == f"assay-{token}"
    )
    return found
