"""Slurm: the contract on a real cluster, on one node and over two; what only Slurm can show."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from assay import launch
from assay.launch import processes
from assay.launch.launcher import Launcher
from assay.launch.slurm.launcher import SlurmLauncher
from assay.launch.slurm.options import SlurmSystem
from conftest import require
from launcher_contract import LauncherContract

pytestmark = pytest.mark.slurm

SLEEP = "import time; print('up', flush=True); time.sleep(60)"


def slurm_answers() -> bool:
    if shutil.which("sinfo") is None:
        return False
    said = subprocess.run(["sinfo", "--noheader"], capture_output=True, text=True, check=False)
    return said.returncode == 0 and len(idle_nodes()) >= 2


def idle_nodes() -> list[str]:
    argv = ["sinfo", "--noheader", "--Node", "--responding", "--format=%N|%T"]
    said = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    return [line.split("|")[0] for line in said.splitlines() if line.endswith(("idle", "mixed", "allocated"))]


@pytest.fixture(autouse=True, scope="module")
def _cluster() -> None:
    require("slurm", slurm_answers(), "no Slurm with two nodes answers to sinfo; set SLURM_CONF")


def in_slurm(token: str) -> list[str]:
    argv = ["squeue", "--noheader", f"--name=assay-{token}", "--format=%A %T"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()


def eventually(fact: Callable[[], bool], patience_s: float) -> bool:
    give_up = time.monotonic() + patience_s
    while not fact() and time.monotonic() < give_up:
        time.sleep(0.1)
    return fact()


class TestOnOneNode(LauncherContract):
    def make(self, spool: Path, *, grace_s: float) -> Launcher:
        return launch.make("slurm", SlurmSystem(grace=grace_s, placement="pack"), spool=spool)

    def left(self, token: str) -> list[str]:
        found = [Path(f"/proc/{pid}/cmdline") for pid in processes.with_variable("ASSAY_TOKEN", token)]
        return [path.read_text() for path in found]


@pytest.fixture
def launcher(tmp_path: Path) -> SlurmLauncher:
    return SlurmLauncher(SlurmSystem(grace=0.5), tmp_path / "jobs")
