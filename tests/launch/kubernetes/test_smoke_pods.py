"""The smallest pods that use a device: as they stand on file, what their words come to, and on a cluster."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_doctor_kubernetes import FORBIDDEN, node, seen
from test_kubernetes_rendering import GOLDEN, stable

import kubernetes_cluster as cluster
from assay import payload_files
from assay.checks import Check
from assay.cli import assay
from assay.launch import programs
from assay.launch.kubernetes.doctor import smoke
from assay.launch.kubernetes.launcher import KubernetesLauncher
from assay.launch.kubernetes.options import KubernetesSystem
from assay.records import Scalar
from conftest import require

LAB = {"image": "torch:1", "kind": "job", "namespace": "bench", "capabilities": ["IPC_LOCK"]}
DEVICES = [node("n1", offers={"nvidia.com/gpu": "8", "rdma/hca_shared": "63"})]
ASKING: dict[str, Any] = {
    "resources": {"accelerator": {"nvidia.com/gpu": 1, "cpu": 8}, "pod": {"rdma/ib0": 1}}
}
OPENED: dict[str, Scalar] = {
    "fabric.devices": 2,
    "verbs.devices": 2,
    "verbs.opened": 2,
    "verbs.connection_manager": True,
    "memory.locked_bytes": 2**26,
}


def system(**but: Any) -> KubernetesSystem:
    return KubernetesSystem.model_validate({**LAB, **but})


@pytest.mark.parametrize("which", ["vector-add", "rdma-check"])
def test_a_smoke_pod_is_the_one_on_file(tmp_path: Path, which: str) -> None:
    made = {job.trial_id: (chosen, job) for chosen, job in smoke.jobs(seen(system=system(), nodes=DEVICES))}
    chosen, job = made[which]
    shown = KubernetesLauncher(chosen, tmp_path).render(job).command
    assert stable(shown).rpartition("---\n")[2] == (GOLDEN / f"{which}.yaml").read_text()


def test_the_resource_is_the_systems_own_else_an_announced_one() -> None:
    offered = smoke.announced(seen(nodes=DEVICES))
    assert not isinstance(offered, smoke.ReadFailure)
    assert smoke.resource(system(**ASKING), offered, smoke.RDMA) == "rdma/ib0"
    assert smoke.resource(system(), offered, smoke.RDMA) == "rdma/hca_shared"
    assert smoke.resource(system(), {}, smoke.GPU) == "nvidia.com/gpu"
    asked = [dict(chosen.resources.accelerator) for chosen, _ in smoke.jobs(seen(system=system(**ASKING)))]
    assert asked == [{"cpu": "8", "nvidia.com/gpu": "1"}, {"cpu": "8", "rdma/ib0": "1"}]


@pytest.mark.parametrize(
    ("told", "asked", "state", "words"),
    [
        (None, False, "ok", "not announced: no node has nvidia.com/gpu, and the system requests none"),
        (None, True, "fail", "not announced: no node has nvidia.com/gpu"),
        ({"smoke.vector_add": True, "smoke.device": "NVIDIA H100"}, True, "ok", "H100 added two vectors"),
        ({"smoke.error": "RuntimeError: no NVIDIA driver"}, True, "fail", "no NVIDIA driver"),
        ({}, True, "fail", "it reported nothing"),
    ],
)
def test_a_gpu_pod_is_judged_by_what_it_added(
    told: dict[str, Scalar] | None, asked: bool, state: str, words: str
) -> None:
    check = smoke.vector_add("nvidia.com/gpu", told, asked)
    assert (check.state, bool(check.remedy)) == (state, state != "ok")
    assert words in check.evidence


@pytest.mark.parametrize(
    ("resource", "told", "inside", "state", "words"),
    [
        ("rdma/", None, {"fabric.devices": 0}, "ok", "no node has rdma/…; a pod lists no device"),
        ("rdma/ib0", None, {"fabric.devices": 4}, "warn", "no node has rdma/ib0; a pod lists 4 devices"),
        ("rdma/ib0", None, OPENED, "ok", "no node has rdma/ib0; a pod lists 2 devices"),
        ("rdma/ib0", OPENED, {}, "ok", "2 in /dev/infiniband can be opened; 67.11 MB locked"),
        ("rdma/ib0", {"fabric.devices": 0}, {}, "fail", "sees no device"),
        ("rdma/ib0", {**OPENED, "verbs.devices": 0}, {}, "fail", "none in /dev/infiniband"),
        ("rdma/ib0", {**OPENED, "memory.lock_refused": "64 MiB: no"}, {}, "fail", "but 64 MiB: no"),
        ("rdma/ib0", {"smoke.error": "did not start"}, {}, "fail", "did not start"),
    ],
)
def test_an_rdma_pod_is_judged_by_what_it_could_open_and_lock(
    resource: str, told: dict[str, Scalar] | None, inside: dict[str, Scalar], state: str, words: str
) -> None:
    check = smoke.rdma_devices(resource, told, inside)
    assert (check.state, bool(check.remedy)) == (state, state != "ok")
    assert words in check.evidence


def test_what_only_a_node_announces_that_takes_no_pods_of_the_system_is_not_counted() -> None:
    tainted = node("n1", spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}, offers={"rdma/ib0": "1"})
    assert "rdma/ib0" not in smoke.announced(seen(nodes=[tainted]))  # type: ignore[operator]


def test_who_may_not_see_the_nodes_is_told_so() -> None:
    assert {check.state for check in smoke.smoke_checks(seen(nodes=FORBIDDEN), {})} == {"unknown"}


def ran_here(program: str, tmp_path: Path, *before: str) -> dict[str, Scalar]:
    payload_files.lay_out(tmp_path, payload_files.files(program))
    argv = [*before, sys.executable, "-m", program]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    return programs.output_facts(program, f"{done.stdout}\n{done.stderr}")


def test_memory_that_may_not_be_locked_is_told_with_its_limit(tmp_path: Path) -> None:
    limited = ["prlimit", "--memlock=65536:65536"]
    if os.geteuid() == 0:  # who may lock whatever the limit is
        limited += ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
    facts = ran_here(smoke.RDMA_CHECK, tmp_path, *limited)
    assert str(facts["memory.lock_refused"]).endswith("the limit is 65536"), facts


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.slow
def test_a_machine_without_a_gpu_says_so_in_torchs_words(tmp_path: Path) -> None:
    facts = ran_here(smoke.VECTOR_ADD, tmp_path)
    assert ("smoke.vector_add" in facts) != ("smoke.error" in facts)


# On a cluster


@contextmanager
def announced(*resources: str) -> Iterator[None]:
    """Extended resources on a node, which no device stands behind."""
    nodes = json.loads(cluster.kubectl("get", "nodes", "-o", "json"))["items"]
    name = next(node["metadata"]["name"] for node in nodes if not node["spec"].get("taints"))

    def patch(what: str, of: str) -> None:
        path = f"/status/capacity/{of.replace('/', '~1')}"
        value = {"op": what, "path": path, **({"value": "1"} if what == "add" else {})}
        cluster.kubectl(
            "patch", "node", name, "--subresource=status", "--type=json", "-p", json.dumps([value])
        )

    try:
        for resource in resources:
            patch("add", resource)
        for resource in resources:  # each by itself: the kubelet may allot them one after the other
            offered = f"{{.status.allocatable.{resource.replace('.', chr(92) + '.')}}}"
            for _ in range(100):
                if cluster.kubectl("get", "node", name, f"-o=jsonpath={offered}"):
                    break
                time.sleep(0.1)
        yield
    finally:
        for resource in resources:
            patch("remove", resource)


def doctor(space: str, folder: Path, *asked: str, **options: Any) -> dict[str, Check]:
    entry = {"launcher": "kubernetes", "namespace": space, "image": cluster.IMAGE, "runAsUser": 0, **options}
    file = folder / "systems.yaml"
    file.write_text(json.dumps({"lab": {"imagePullPolicy": "IfNotPresent", **entry}}))
    said = CliRunner().invoke(assay, ["doctor", "lab", "--systems", str(file), "--json", *asked])
    return {check["name"]: Check(**check) for check in json.loads(said.stdout)["checks"]}


@pytest.mark.kubernetes
@pytest.mark.slow
def test_announced_devices_that_are_not_there_are_seen_from_pods(tmp_path: Path) -> None:
    with cluster.namespace() as space, announced("example.org/none", "rdma/assay_test"):
        checks = doctor(space, tmp_path, "--deep")
        assert checks["GPU pod"].evidence.startswith("not announced: no node has nvidia.com/gpu")
        assert checks["RDMA pod"].state == "fail"
        assert "sees no device in /sys/class/infiniband" in checks["RDMA pod"].evidence
    with cluster.namespace() as space, announced("nvidia.com/gpu"):
        checks = doctor(space, tmp_path, "--deep")
        assert checks["GPU pod"].state == "fail"
        assert "failed to add two vectors" in checks["GPU pod"].evidence
        assert cluster.objects(space, "jobs") == []


@pytest.mark.kubernetes
def test_the_real_server_takes_both_pods(tmp_path: Path) -> None:
    with cluster.namespace() as space:
        entry = {"launcher": "kubernetes", "namespace": space, "image": cluster.IMAGE}
        (tmp_path / "systems.yaml").write_text(json.dumps({"lab": entry}))
        asked = [
            "cluster",
            "smoke",
            "lab",
            "--systems",
            str(tmp_path / "systems.yaml"),
            "--validate",
            "--json",
        ]
        said = CliRunner().invoke(assay, asked)
        assert said.exit_code == 0, said.output
        document = json.loads(said.stdout)
        assert [pod["name"] for pod in document["pods"]] == ["vector-add", "rdma-check"]
        assert document["refused"] == []
        assert cluster.objects(space, "jobs") == []


@contextmanager
def reading_at_most(bytes_per_s: int, space: str, directory: Path) -> Iterator[None]:
    """Each container that comes to be in the namespace reads the directory's disk no faster."""
    groups = Path("/sys/fs/cgroup/blkio")
    device = directory.stat().st_dev
    limit = f"{os.major(device)}:{os.minor(device)} {bytes_per_s}"
    over = threading.Event()

    def bound() -> None:
        while not over.wait(0.2):
            for pod in cluster.objects(space, "pods"):
                of_pod = f"*/kubepods/**/pod{pod['metadata']['uid']}/*/blkio.throttle.read_bps_device"
                with suppress(FileNotFoundError):  # a pod has ended, this one or a neighbour
                    for file in groups.glob(of_pod):
                        file.write_text(limit)

    require(
        "kubernetes-processes", any(groups.glob("*/kubepods")), "the nodes' cgroups are not of this machine"
    )
    thread = threading.Thread(target=bound)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.kubernetes
@pytest.mark.slow
def test_data_on_a_host_path_is_read_from_a_pod_and_held_against_what_is_asked(tmp_path: Path) -> None:
    for number in range(8):
        (tmp_path / f"shard-{number}").write_bytes(os.urandom(2**24))
    os.sync()  # what isn't written yet stays in the page cache
    volumes = [{"hostPath": str(tmp_path), "mountPath": "/data", "readOnly": True}]
    slow_bytes_per_s = 20_000_000
    with cluster.namespace() as space, reading_at_most(slow_bytes_per_s, space, tmp_path):
        asked = ("--data", "/data", "--at-least", "100MB/s")
        found = doctor(space, tmp_path, *asked, volumes=volumes)["data"]
        absent = doctor(space, tmp_path, "--data", "/nowhere", volumes=volumes)["data"]
    assert found.state == "fail", found
    told = re.search(
        r"^([\d.]+) MB/s \(.* MB/s to .* MB/s in \d+ rounds\).*too slow in every round", found.evidence
    )
    assert told, found
    assert 0.5 < float(told[1]) * 1e6 / slow_bytes_per_s < 1.5
    assert (absent.state, "No such file" in absent.evidence) == ("fail", True), absent
