"""Slurm: the contracts on a real cluster, and what only Slurm can show."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import ClassVar

import pytest

from assay.errors import PlatformError
from assay.records import Extent, Handle, JobState
from assay.testing.launchers import eventually, follow_to_end, job, left_here, python, wait_for_output
from batch_contract import BATCH_LAUNCHER, SLEEP, BatchLauncherContract, number
from conftest import require
from slurm_cluster import down, nodes_that_answer, said, slurm_cluster  # noqa: F401  (a fixture)

pytestmark = [pytest.mark.slurm, pytest.mark.usefixtures("slurm_cluster")]

RESTORE = shlex.split(os.environ.get("ASSAY_SLURM_UP", ""))  # a command that starts what does not run


class TestSlurm(BatchLauncherContract):
    launcher_name = "slurm"
    hosts = ("snode1", "snode2")
    host_variable = "SLURMD_NODENAME"
    waits, waits_for = {"sbatch": ["--begin=now+1hour"]}, "BeginTime"
    held, released_by = {"sbatch": ["--hold"]}, "scontrol release"
    nowhere: ClassVar = {"partition": "no-such-partition"}
    refusal = r"sbatch refused the job: .*invalid partition"
    with_gpus: ClassVar = {"gres": "gpu"}
    ended_by_hand = "Slurm says CANCELLED"

    def end_as_somebody_else(self, handle: Handle) -> None:
        said("scancel", number(handle))

    def queued(self, token: str) -> bool:
        return said("squeue", "--noheader", f"--name=assay-{token}", "--format=%T").strip() != ""

    def let_start(self, handle: Handle) -> None:
        said("scontrol", "update", f"JobId={number(handle)}", "StartTime=now")

    def requeue(self, handle: Handle) -> None:
        said("scontrol", "update", f"JobId={number(handle)}", "Requeue=1")
        said("scontrol", "requeue", number(handle))

    def down(self) -> AbstractContextManager[None]:
        return down()


made, queued = TestSlurm().made, TestSlurm().queued


@pytest.fixture
def launcher(tmp_path: Path) -> BATCH_LAUNCHER:
    """Each worker has a node."""
    return made(tmp_path)


# Partitions


@contextmanager
def partition(state: str) -> Iterator[str]:
    """A partition that takes no jobs, of the first node."""
    name = f"assay-{state.lower()}-{os.getpid()}"
    node = said("scontrol", "show", "hostnames", said("sinfo", "--noheader", "--format=%N").split()[0])
    said("scontrol", "create", f"PartitionName={name}", f"Nodes={node.split()[0]}", f"State={state}")
    try:
        yield name
    finally:
        eventually(lambda: said("squeue", "--noheader", f"--partition={name}") == "", 60)
        said("scontrol", "delete", f"PartitionName={name}")


def test_a_partition_that_takes_no_jobs_is_the_platforms_fault(tmp_path: Path) -> None:
    with partition("INACTIVE") as name, pytest.raises(PlatformError, match="partition not available"):
        made(tmp_path, partition=name).submit(job(python("print(1)")))


def test_a_job_that_waits_in_vain_is_taken_out_of_the_queue_with_who_else_would(tmp_path: Path) -> None:
    with partition("DOWN") as name:
        down = made(tmp_path / "down", partition=name)
        wide = made(tmp_path / "wide")
        for launcher, ranks, reason, extent in (
            (down, 1, "PartitionDown", Extent.PLATFORM),
            (wide, 5, "Partition", Extent.SHAPE),
        ):
            handle = launcher.submit(job(python("print(1)"), ranks))
            assert follow_to_end(launcher, handle) == {}
            status = launcher.status(handle)
            assert (status.state, status.extent) == (JobState.FAILED, extent), status
            assert reason in status.cause
            assert eventually(lambda handle=handle: not queued(handle.token))  # type: ignore[misc]
            launcher.forget(handle)


# Nodes that fail


@pytest.fixture
def power() -> Iterator[Callable[[str], None]]:
    """Cuts a node's power: kills its slurmd and all that runs there; afterwards it comes back."""
    require("slurm-up", bool(RESTORE), "ASSAY_SLURM_UP names no command that brings a dead node back")

    def cut(node: str) -> None:
        for pid in said("ip", "netns", "pids", node).split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    yield cut
    subprocess.run(RESTORE, check=True, capture_output=True)
    assert eventually(lambda: nodes_that_answer() >= 2, 90)


@pytest.mark.slow
def test_a_node_that_comes_back_before_slurm_missed_it_holds_a_trial_no_longer_than_its_limit(
    launcher: BATCH_LAUNCHER, power: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("assay.launch.batch.shared_directory.OVERDUE_S", 5.0)
    code = "import os, time; print('up', flush=True); time.sleep(2 if os.environ['RANK'] == '0' else 60)"
    asked = job(python(code), 2, timeout_s=15)
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle, "rank-1")
    power(launcher._kept(asked.token).hosts()[1])
    subprocess.run(RESTORE, check=True, capture_output=True)
    began, told = time.time(), set()
    for _ in launcher.follow(handle, {}):
        told.add(launcher.status(handle).cause)
    status = launcher.status(handle)
    assert time.time() - began < 60
    assert status.state is JobState.LOST, status
    assert "snode2" in status.cause
    assert any("snode2 has not reported how its share ended" in words for words in told)
    assert eventually(lambda: not queued(asked.token), 60)


@pytest.mark.slow
@pytest.mark.parametrize("which", [0, 1])
def test_a_job_whose_node_loses_its_power_is_lost_with_the_node_named(
    launcher: BATCH_LAUNCHER, power: Callable[[str], None], which: int
) -> None:
    asked = job(python(SLEEP.replace("60", "300")), 2, timeout_s=400)
    handle = launcher.submit(asked)
    wait_for_output(launcher, handle, "rank-0")
    wait_for_output(launcher, handle, "rank-1")
    hosts = said("squeue", "--noheader", f"--jobs={number(handle)}", "--format=%N").strip()
    node = said("scontrol", "show", "hostnames", hosts).split()[which]
    power(node)
    began = time.monotonic()
    streams = follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert time.monotonic() - began < 120
    assert (streams["rank-0"], streams["rank-1"]) == (b"up\n", b"up\n")
    assert status.state is JobState.LOST, status
    assert node in status.cause
    assert eventually(lambda: left_here(asked.token) == [], 60)


# Suspended jobs


def test_a_job_that_was_suspended_in_the_middle_says_so_and_for_how_long(launcher: BATCH_LAUNCHER) -> None:
    handle = launcher.submit(job(python("import time; print('up', flush=True); time.sleep(12)"), 2))
    wait_for_output(launcher, handle)
    said("scontrol", "suspend", number(handle))
    assert eventually(lambda: "its figures will contain the pause" in launcher.status(handle).cause, 10)
    time.sleep(4)
    said("scontrol", "resume", number(handle))
    follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert status.state is JobState.SUCCEEDED, status
    assert [node.suspended_s is not None and node.suspended_s > 3 for node in status.nodes] == [True, True]
    launcher.forget(handle)
