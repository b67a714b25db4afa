"""The Slurm that tests may use: ASSAY_TEST_SLURM names its slurm.conf, never the one of where one works."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from conftest import require

CONF = os.environ.get("ASSAY_TEST_SLURM")


def nodes_that_answer() -> int:
    if shutil.which("sinfo") is None:
        return 0
    argv = ["sinfo", "--noheader", "--responding", "--states=idle,mixed,alloc", "--format=%D"]
    found = subprocess.run(argv, capture_output=True, text=True, check=False)
    return sum(map(int, found.stdout.split())) if found.returncode == 0 else 0


@pytest.fixture(scope="module")
def slurm_cluster() -> Iterator[None]:
    """Slurm's commands go to a cluster for tests with two nodes."""
    require("slurm", CONF is not None, "set ASSAY_TEST_SLURM to the slurm.conf of a cluster for tests")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SLURM_CONF", str(CONF))
        require("slurm", nodes_that_answer() >= 2, "no two nodes of it answer to sinfo")
        yield
