"""The Slurm that tests may use: ASSAY_TEST_SLURM names its slurm.conf, never the one of where one works."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import require

CONF = os.environ.get("ASSAY_TEST_SLURM")


def nodes_that_answer() -> int:
    if shutil.which("sinfo") is None:
        return 0
    argv = ["sinfo", "--noheader", "--responding", "--states=idle,mixed,alloc", "--format=%D"]
    found = subprocess.run(argv, capture_output=True, text=True, check=False)
    return sum(map(int, found.stdout.split())) if found.returncode == 0 else 0


def said(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


@contextmanager
def down() -> Iterator[None]:
    """The controller answers nobody meanwhile, and a command that does not come back is given up soon."""
    config = (line.partition("=") for line in said("scontrol", "show", "config").splitlines())
    (pid_file,) = (value.strip() for key, _, value in config if key.strip() == "SlurmctldPidFile")
    controller = int(Path(pid_file).read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("assay.launch.slurm.commands.ASK_TIMEOUT_S", 1.0)
        os.kill(controller, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(controller, signal.SIGCONT)


@pytest.fixture(scope="module")
def slurm_cluster() -> Iterator[None]:
    """Slurm's commands go to a cluster for tests with two nodes."""
    require("slurm", CONF is not None, "set ASSAY_TEST_SLURM to the slurm.conf of a cluster for tests")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(CONF))
        require("slurm", nodes_that_answer() >= 2, "no two nodes of it answer to sinfo")
        yield
