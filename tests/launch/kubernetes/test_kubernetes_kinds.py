"""Kinds of jobs that need an operator, on a cluster that has it."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from test_kubernetes_launcher import OnCluster, make, namespace, running

import kubernetes_cluster as cluster
from assay.launch.kubernetes.objects.kinds import KINDS
from assay.launch.kubernetes.objects.order import LABEL_TOKEN, name_of
from assay.launch.launcher import Launcher
from assay.records import Handle, JobState, JobStatus, RankExit, RunState
from assay.testing.launchers import (
    END_WELL,
    LauncherContract,
    RanksContract,
    follow_to_end,
    job,
    python,
    run,
    wait_for_output,
)
from cli_contract import PATIENCE_S, assay, runs

__all__ = ["namespace"]  # a fixture
pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]
AS_ROOT = {"kind": "mpijob", "runAsUser": 0}  # a user that the image knows, which ssh asks for
# Sums the ranks with the image's own MPI; MPI's constants are addresses in its library
SUM_OF_RANKS = """
import ctypes, os, signal, sys, time
mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
def constant(name): return ctypes.byref(ctypes.c_char.in_dll(mpi, name))
mpi.MPI_Init(None, None)
world, rank, total = constant("ompi_mpi_comm_world"), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
whole, add = constant("ompi_mpi_int"), constant("ompi_mpi_op_sum")
mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(total), 1, whole, add, world)
print(rank.value, os.environ["RANK"], total.value, flush=True)
if "fail" in sys.argv[1:]:
    if rank.value == 2: os.kill(os.getpid(), signal.SIGSEGV)
    time.sleep(60)
mpi.MPI_Finalize()
"""


class TestAuto(OnCluster, RanksContract):
    """One worker is one pod."""

    brief = True

    kind = "auto"


@pytest.mark.long  # the tests below it run always
class TestMpiJob(OnCluster, LauncherContract):
    def make(self, spool: Path, *, grace_s: float) -> Launcher:
        return make(self.namespace, spool, grace=grace_s, **AS_ROOT)


@pytest.mark.parametrize("kind", ["jobset", "trainjob"])
def test_an_operators_job_says_how_its_ranks_ended_and_is_gone_when_cancelled(
    kind: str, namespace: str, tmp_path: Path
) -> None:
    launcher = make(namespace, tmp_path, kind=kind, imagePullPolicy=None)
    status, streams = run(launcher, job(python("import os; print(os.environ['RANK'])"), 2))
    assert (status.state, status.cause) == (JobState.SUCCEEDED, "")
    assert (streams["rank-0"], streams["rank-1"]) == (b"0\n", b"1\n")
    failing = python("import os, time; os.environ['RANK'] == '1' and os._exit(3); time.sleep(60)")
    status, _ = run(launcher, job(failing, 2))
    assert (status.state, status.cause) == (JobState.FAILED, "rank 1 exited 3")
    handle = launcher.submit(job(python("import time; time.sleep(60)"), 2))
    launcher.cancel(handle)
    assert launcher.status(handle).state is JobState.CANCELLED
    assert running(namespace, f"{LABEL_TOKEN}={handle.token}") == []


@pytest.mark.parametrize("options", [{"kind": "jobset"}, {"kind": "trainjob"}, AS_ROOT], ids=str)
@pytest.mark.parametrize("ends", ["", END_WELL], ids=["by SIGTERM", "well"])
def test_an_operators_object_that_somebody_deletes_ends_as_stopped(
    options: dict[str, object], ends: str, namespace: str, tmp_path: Path
) -> None:
    launcher = make(namespace, tmp_path, grace=5.0, imagePullPolicy=None, **options)
    handle = launcher.submit(job(python(ends + "import time; print('up', flush=True); time.sleep(60)"), 2))
    for rank in ("rank-0", "rank-1"):
        wait_for_output(launcher, handle, rank)
    plural = KINDS[str(handle.data["kind"])].job_ref.plural
    cluster.kubectl("-n", namespace, "delete", plural, name_of(handle.token), "--wait=false")
    follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert (status.state, "its job object was deleted" in status.cause) == (JobState.STOPPED, True), status
    launcher.forget(handle)


def test_ranks_below_mpirun_find_one_another(namespace: str, tmp_path: Path) -> None:
    launcher = make(namespace, tmp_path, **AS_ROOT)
    status, streams = run(launcher, job(("{python}", "-c", SUM_OF_RANKS), 3))
    assert status.state is JobState.SUCCEEDED, status.cause
    assert [streams[f"rank-{rank}"] for rank in range(3)] == [
        b"%d %d 3\n" % (rank, rank) for rank in range(3)
    ]


def test_the_rank_that_failed_below_mpirun_is_named(namespace: str, tmp_path: Path) -> None:
    launcher = make(namespace, tmp_path, **AS_ROOT)
    status, _ = run(launcher, job(("{python}", "-c", SUM_OF_RANKS, "fail"), 3))
    assert (status.state, status.cause) == (JobState.FAILED, "rank 2 was killed by SIGSEGV")
    assert RankExit(2, None, "SIGSEGV", first=True) in status.exits


@pytest.mark.torch
@pytest.mark.long
def test_a_suite_of_an_mpi_job_gives_its_results(namespace: str, tmp_path: Path) -> None:
    there = {"launcher": "kubernetes", "namespace": namespace, "image": cluster.IMAGE, "python": "host"}
    suite = {
        "suite": "mpi",
        "workload": "collectives",
        "params": {"payload_bytes": [1024, 1048576], "min_time_s": 0.2, "backend": ["gloo", "mpi"]},
        "systems": ["there"],
        "shapes": ["2x1"],
        "repeats": 1,
    }
    (tmp_path / "suite.yaml").write_text(json.dumps(suite))
    (tmp_path / "systems.yaml").write_text(json.dumps({"there": {**there, **AS_ROOT}}))
    with assay(tmp_path / "suite.yaml") as going:
        said, error = going.communicate(timeout=PATIENCE_S)
    assert going.returncode == 0, error
    assert "B/s" in said + error
    assert [one.state for one in runs(tmp_path)] == [RunState.FINISHED, RunState.FINISHED]
    assert running(namespace) == []


STAYS = "import time; print('up', flush=True); time.sleep(120)"


def started(namespace: str, spool: Path, **options: object) -> tuple[Launcher, Handle]:
    """An MPIJob whose two ranks run."""
    launcher = make(namespace, spool, grace=2.0, **AS_ROOT, **options)
    handle = launcher.submit(job(python(STAYS), 2, timeout_s=300))
    for rank in ("rank-0", "rank-1"):
        wait_for_output(launcher, handle, rank)
    return launcher, handle


def named(namespace: str, handle: Handle, part: str) -> str:
    found = cluster.objects(namespace, "pods", f"{LABEL_TOKEN}={handle.token}")
    return next(pod["metadata"]["name"] for pod in found if part in pod["metadata"]["name"])


def ended(launcher: Launcher, handle: Handle, within_s: float) -> JobStatus:
    began = time.monotonic()
    follow_to_end(launcher, handle)
    status = launcher.status(handle)
    assert time.monotonic() - began < within_s, status
    launcher.forget(handle)
    return status


@pytest.mark.parametrize("part", ["launcher", "worker-1"])
def test_a_pod_of_an_mpi_job_that_somebody_deletes_loses_the_job(
    part: str, namespace: str, tmp_path: Path
) -> None:
    launcher, handle = started(namespace, tmp_path)
    name = named(namespace, handle, part)
    cluster.kubectl("-n", namespace, "delete", "pod", name, "--wait=false")
    status = ended(launcher, handle, 45)
    assert status.state is JobState.LOST, status
    assert f"pod {name} on node" in status.cause
    assert "was deleted while the job ran, but not by this run" in status.cause


def test_a_worker_of_an_mpi_job_that_is_evicted_loses_the_job(namespace: str, tmp_path: Path) -> None:
    launcher, handle = started(namespace, tmp_path)
    name = named(namespace, handle, "worker-1")
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace},
    }
    cluster.kubectl(
        "create", "--raw", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", "-f", "-",
        stdin=json.dumps(eviction),
    )  # fmt: skip
    status = ended(launcher, handle, 45)
    assert status.state is JobState.LOST, status
    assert f"pod {name} was evicted by a request" in status.cause


@pytest.mark.parametrize("after_s", [0, 2])
def test_an_mpi_job_whose_pods_are_no_longer_ready_ends_with_the_container_that_ended(
    after_s: int, namespace: str, tmp_path: Path
) -> None:
    short = {"name": "short", "image": cluster.IMAGE, "imagePullPolicy": "IfNotPresent"}
    short |= {"command": ["sh", "-c", f"sleep {after_s}; exit 1"]}
    patch = {"spec": {"containers": [short]}}
    launcher = make(namespace, tmp_path, grace=2.0, patch=patch, **AS_ROOT)
    status = ended(launcher, launcher.submit(job(python(STAYS), 2, timeout_s=300)), 60)
    assert status.state is JobState.FAILED, status
    assert "container short of pod" in status.cause
    assert "exited 1, so the pod is not ready" in status.cause
