"""Which nodes a system has, which of them are away, and who else uses them."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from test_kubernetes_rights import kubeconfig

import kubernetes_cluster as cluster
from assay.errors import InputError
from assay.launch.kubernetes.client import Object
from assay.launch.kubernetes.doctor.node_checks import away
from assay.launch.kubernetes.nodes import is_ours, suits, use
from assay.launch.kubernetes.objects import rbac
from assay.launch.kubernetes.objects.manifests import as_yaml
from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.platform import Member
from assay.launch.slurm import SlurmSystem
from assay.node_sweep import member_list
from slurm_cluster import slurm_cluster  # noqa: F401  (a fixture)

PATIENCE_S = 90.0


def node(labels: dict[str, str] | None = None, *, ready: bool = True, **spec: Any) -> Object:
    about = {"name": "n1", "labels": {"zone": "a", "cores": "64", **(labels or {})}}
    conditions = [{"type": "Ready", "status": "True" if ready else "Unknown"}]
    return {
        "metadata": about,
        "spec": spec,
        "status": {"conditions": conditions, "allocatable": {"cpu": "64"}},
    }


def pod(cpu: str = "100m", owner: str = "ReplicaSet", **more: str) -> Object:
    about = {"namespace": "team", "name": "web", "ownerReferences": [{"kind": owner}]}
    return {
        "metadata": about,
        "spec": {"containers": [{"resources": {"requests": {"cpu": cpu, **more}}}, {}]},
    }


def affine(operator: str, *values: str, key: str = "zone") -> KubernetesSystem:
    expression = {"key": key, "operator": operator, **({"values": list(values)} if values else {})}
    terms = [
        {"matchExpressions": [{"key": "none", "operator": "Exists"}]},
        {"matchExpressions": [expression]},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return KubernetesSystem.model_validate({"affinity": {"nodeAffinity": required}})


@pytest.mark.parametrize(
    ("system", "is_ours"),
    [
        (KubernetesSystem(), True),
        (KubernetesSystem(nodeSelector={"zone": "b"}), False),
        (KubernetesSystem(nodes=("n2", "n1")), True),
        (KubernetesSystem(nodes=("n2",)), False),
        (affine("In", "b", "a"), True),
        (affine("In", "b"), False),
        (affine("NotIn", "a"), False),
        (affine("NotIn", "b", key="rack"), True),
        (affine("Exists", key="rack"), False),
        (affine("DoesNotExist", key="rack"), True),
        (affine("Gt", "32", key="cores"), True),
        (affine("Lt", "64", key="cores"), False),
        (affine("Gt", "1"), False),
    ],
)
def test_a_node_is_the_systems_where_labels_and_affinity_say_so(
    system: KubernetesSystem, is_ours: bool
) -> None:
    assert suits(node(), system) is is_ours


def test_a_term_of_fields_and_no_term_at_all() -> None:
    def system(*terms: Any) -> KubernetesSystem:
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
        return KubernetesSystem.model_validate({"affinity": {"nodeAffinity": required}})

    named = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    assert suits(node(), system(named))
    assert not suits(node(), system({}))


def test_a_taint_of_people_parts_a_node_from_the_system_one_of_its_state_only_for_now() -> None:
    mine = {"key": "team", "value": "x", "effect": "NoSchedule"}
    pressed = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}
    system = KubernetesSystem()
    assert not suits(node(taints=[mine]), system)
    assert suits(node(taints=[pressed]), system)
    assert away(node(taints=[pressed]), system) == "tainted node.kubernetes.io/disk-pressure:NoSchedule"
    assert (away(node(ready=False), system), away(node(unschedulable=True), system)) == (
        "not ready",
        "cordoned",
    )
    assert away(node(), system) == ""


def test_idle_is_a_node_without_others_devices_and_with_little_of_their_cpu() -> None:
    assert use(node(), [pod(), pod("2")]) == ""
    assert use(node(), [pod("2"), pod("1500m")]) == "others' pods have 3.5 of 64 CPUs"
    assert use(node(), [pod("32", owner="DaemonSet"), pod("32", owner="Node")]) == ""
    assert use(node(), [pod(owner="DaemonSet", **{"nvidia.com/gpu": "1"})]) == "team/web has nvidia.com/gpu"


def test_only_a_pod_of_assays_in_the_same_namespace_is_ones_own() -> None:
    ours = pod()
    ours["metadata"]["labels"] = {"assay.dev/token": "1f"}
    assert [is_ours(ours, "team"), is_ours(ours, "bench"), is_ours(pod(), "team")] == [True, False, False]


SINFO = """n1|batch*|idle|gpu,nvme
n2|batch*|mixed|gpu
n3|batch*|idle*|gpu,nvme
n4|batch*|drained|gpu,nvme
n5|long|idle|gpu,nvme
n6|batch*|reserved|gpu,nvme
n7|batch*|idle~|nvme
"""
TOPOLOGY = """SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-3]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n[4-7]
SwitchName=spine Level=1 LinkSpeed=1 Nodes=n[1-7] Switches=leaf[1-2]
"""
SCONTROL = """#!/usr/bin/env python3
import re, sys
if sys.argv[2] == "topology":
    print({topology!r}, end="")
for part in re.findall(r"[^,\\[]+(?:\\[[^\\]]*\\])?", sys.argv[3] if len(sys.argv) > 3 else ""):
    stem, _, numbers = part.strip(",").rstrip("]").partition("[")
    first, _, last = numbers.partition("-")
    for number in range(int(first), int(last) + 1) if first else [""]:
        print(f"{{stem}}{{number}}")
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition of seven nodes below two switches."""
    programs = {
        "sinfo": f"#!/bin/sh\ncat <<'END'\n{SINFO}END\n",
        "scontrol": SCONTROL.format(topology=TOPOLOGY),
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


def told(named: tuple[str, ...] = (), *, idle: bool = False, by: str = "", **options: Any) -> list[Member]:
    return list(member_list("slurm", SlurmSystem.model_validate(options), named=named, idle=idle, by=by)())


def names(found: list[Member]) -> list[str]:
    return [member.name for member in found]


@pytest.mark.usefixtures("site")
def test_slurms_nodes_are_those_of_the_partition_that_have_what_is_asked() -> None:
    assert names(told()) == ["n1", "n2", "n3", "n4", "n6", "n7"]
    assert names(told(partition="long")) == ["n5"]
    assert names(told(constraint="gpu&nvme", exclude="n[3-4]")) == ["n1", "n6"]
    assert names(told(("n[1-2]",), nodelist="n[1-4]")) == ["n1", "n2"]
    with pytest.raises(InputError, match="the system has no node n5"):
        told(("n5",))
    with pytest.raises(InputError, match=r"Slurm decides for each job which nodes have gpu\|nvme"):
        told(constraint="gpu|nvme")


@pytest.mark.usefixtures("site")
def test_slurms_states_say_which_node_is_away_and_which_is_in_use() -> None:
    found = {member.name: (member.away, member.used) for member in told(idle=True)}
    assert found == {
        "n1": ("", ""),
        "n2": ("", "mixed according to Slurm"),
        "n3": ("idle* according to Slurm", ""),
        "n4": ("drained according to Slurm", ""),
        "n6": ("reserved according to Slurm", ""),
        "n7": ("", ""),
    }
    assert told(reservation="maintenance")[4] == Member("n6")
    assert told()[1] == Member("n2"), "without --idle a node that others use is as good"


@pytest.mark.usefixtures("site")
def test_slurms_switch_is_the_leaf_that_a_node_is_at() -> None:
    assert [member.shared["switch"] for member in told(by="switch")] == ["leaf1"] * 3 + ["leaf2"] * 3
    with pytest.raises(InputError, match="--by zone: only the switch of Slurm's nodes is known"):
        told(by="zone")


def eventually(found: Any, wanted: Any) -> None:
    give_up = time.monotonic() + PATIENCE_S
    while (seen := found()) != wanted and time.monotonic() < give_up:
        time.sleep(0.5)
    assert seen == wanted


@pytest.mark.slurm
@pytest.mark.slow
@pytest.mark.usefixtures("slurm_cluster")
def test_a_node_with_somebodys_job_is_in_use_and_there_are_no_switches() -> None:
    argv = ["sbatch", "--parsable", "--nodelist=snode2", "--output=/dev/null", "--wrap=sleep 60"]
    number = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
    try:
        eventually(lambda: {m.name: bool(m.used) for m in told(("snode2",), idle=True)}, {"snode2": True})
    finally:
        subprocess.run(["scancel", number], check=True)
    assert names(told(nodelist="snode[1-2]")) == ["snode1", "snode2"]
    with pytest.raises(InputError, match="No topology information available"):
        told(by="switch")


def on_cluster(namespace: str, **asked: Any) -> dict[str, Member]:
    return {member.name: member for member in member_list("kubernetes", cluster.system(namespace), **asked)()}


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_node_with_others_pods_is_in_use(namespace: str) -> None:
    here = on_cluster(namespace)
    first = sorted(here)[0]
    assert [member.away for member in here.values()] == [""] * len(here)
    assert here[first].shared["kubernetes.io/hostname"] == first
    with cluster.namespace() as theirs:
        container = {"name": "busy", "image": cluster.IMAGE, "imagePullPolicy": "IfNotPresent"}
        container |= {"command": ["sleep", "600"], "resources": {"requests": {"cpu": "600m"}}}
        spec = {"nodeName": first, "terminationGracePeriodSeconds": 0, "containers": [container]}
        made = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "busy"}, "spec": spec}
        cluster.kubectl("-n", theirs, "apply", "-f", "-", stdin=json.dumps(made))
        assert on_cluster(namespace, idle=True)[first].used


@pytest.mark.kubernetes
@pytest.mark.slow
def test_who_may_not_list_nodes_is_told_so_and_names_them(
    namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=as_yaml(rbac.objects("auto", namespace)))
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig(namespace, rbac.RUNNER, tmp_path / "config")))
    with pytest.raises(InputError, match=r"this user may not list nodes\. Name them with --nodes"):
        on_cluster(namespace)
    assert on_cluster(namespace, named=("n2", "n1")) == {"n2": Member("n2"), "n1": Member("n1")}
    with pytest.raises(InputError, match=r"assay cluster rbac --doctor SYSTEM \| kubectl apply"):
        on_cluster(namespace, named=("n1",), idle=True)
