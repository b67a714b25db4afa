"""An LSF for tests: the commands of lsf_stand_in.py, first on PATH."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
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
        words += f'exec {sys.executable} -I -S {lsf_stand_in.__file__} {name} "$@"\n'
        (commands / name).write_text(f"#!/bin/sh\n{words}")
        (commands / name).chmod(0o755)
    patch.setenv("PATH", f"{commands}:{os.environ['PATH']}")
    return Cluster.make(state, HOSTS, SLOTS)


def job_of(cluster: Cluster, token: str) -> dict[str, Any]:
    """What it knows of the job with this token."""
    found: dict[str, Any] = next(
        job for job in cluster.read()["jobs"].values() if job["name"] == f"assay-{token}"
    )
    return found
