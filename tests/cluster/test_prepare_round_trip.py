"""Parts of `assay cluster prepare` on their way to a real API server, with real schemas, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import custom_resources
import kubernetes_cluster as cluster
from assay.cluster import prepare
from assay.cluster.components import Preparation
from assay.cluster.components.component import (
    DeploymentRollout,
    NodeLabel,
    NodeResource,
    ObjectStatus,
    Platform,
    bare,
)
from assay.cluster.components.objects import THE_SERVERS
from assay.cluster.components.requirements import check, check_all
from assay.errors import InputError
from assay.launch.kubernetes import client
from assay.launch.kubernetes.client import connect
from made_kinds import DEFAULTING, Defaulting, Unheard
from prepared_parts import everything, preparation, run, systems_file

OPERATORS = [
    obj["metadata"]["name"]
    for _, obj in preparation("openshift", "x", "nfd", "gpu-operator", "network-operator").objects()
    if obj["kind"] == "Namespace"
]


@pytest.fixture(scope="module")
def known() -> Iterator[None]:
    with cluster.namespace(), custom_resources.brought(), cluster.openshift_namespaces():
        yield


@pytest.fixture
def space(known: None) -> Iterator[str]:
    """A namespace to prepare for; what was prepared is gone afterwards, operators' namespaces too."""
    del known
    with cluster.namespace() as name:
        yield name
        prepare.revert(there(name))
        for gone in OPERATORS:
            cluster.kubectl("wait", "--for=delete", f"namespace/{gone}", "--timeout=180s")


def there(namespace: str) -> client.Cluster:
    """One that asks anew which kinds there are."""
    connected = connect(None, namespace)
    return client.Cluster(connected.wire, connected.context, namespace)


def seen(of: Preparation) -> dict[str, Any]:
    """Every object that the preparation is about, as it is, without what the server counts; None for none."""
    found: dict[str, Any] = {}
    for _, obj in of.objects():
        space, name = obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
        asked = there(space or of.target.namespace)
        now = asked.find(asked.resource_of(obj), name, everywhere=not space)
        if now is not None and "deletionTimestamp" in now["metadata"]:
            now = None
        if now is not None:
            now.pop("status", None)
            for counted in THE_SERVERS:
                now["metadata"].pop(counted, None)
        found[f"{obj['kind']} {space}/{name}"] = now
    return found


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.parametrize("platform", ["kubernetes", "openshift"])
def test_every_part_is_taken_by_the_server_and_taken_back(space: str, platform: Platform) -> None:
    wanted = everything(platform, space)
    before = seen(wanted)
    applied = prepare.apply(there(space), wanted)
    assert {step.does for step in applied} <= {"make", "change"}
    assert [step.does for step in prepare.plan(there(space), wanted)] == ["keep"] * len(applied)
    assert None not in seen(wanted).values()
    undone = prepare.revert(there(space))
    assert len(undone) == len(applied)
    assert seen(wanted) == before
    assert prepare.revert(there(space)) == []


VARIANTS: list[tuple[Platform, str, dict[str, Any]]] = [
    ("openshift", "numa", {"isolated_cpus": "2-63,66-127", "reserved_memory": {}, "topology": "restricted"}),
    ("openshift", "hugepages", {"size": "2Mi", "count": 4096, "pool": "gpu"}),
    ("kubernetes", "monitoring", {"scrape": "pods", "gpus": False, "interval": "1m30s"}),
    ("openshift", "nfd", {"vendors": ["mellanox"], "approval": "Manual", "channel": "4.20"}),
    ("openshift", "gpu-operator", {"driver": False, "toolkit": False, "mig": "mixed"}),
    ("kubernetes", "nfd", {"vendors": ["nvidia"]}),
    (
        "kubernetes",
        "network-operator",
        {"driver": None, "resources": [{"resourceName": "a", "devices": ["ib0"]}]},
    ),
    ("kubernetes", "kueue", {"quota": {"cpu": "8"}, "nodeLabels": {"pool": "gpu"}, "queue": "night"}),
]


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.parametrize(("platform", "name", "options"), VARIANTS)
@pytest.mark.long
def test_other_options_are_taken_by_the_server_too(
    space: str, platform: Platform, name: str, options: dict[str, Any]
) -> None:
    steps = prepare.plan(there(space), preparation(platform, space, name, **{name: options}))
    assert {step.does for step in steps} == {"make"}, steps


@pytest.mark.kubernetes
@pytest.mark.slow
def test_the_operators_of_this_cluster_are_found_by_their_parts(space: str) -> None:
    wanted = preparation("kubernetes", space, "mpi-operator", "jobset", "trainer")
    assert [one.state for _, one in check_all(there(space), wanted)] == ["ok"] * 3


def as_owner(obj: dict[str, Any], who: str = "the-owner") -> None:
    """Apply an object as somebody else."""
    cluster.kubectl("apply", "--server-side", f"--field-manager={who}", "-f", "-", stdin=json.dumps(obj))


def owned_policy(**driver: Any) -> dict[str, Any]:
    """A ClusterPolicy as another tool left it: some of what Assay asks for, and more."""
    parts = ("daemonsets", "toolkit", "devicePlugin", "gfd", "dcgm", "dcgmExporter", "nodeStatusExporter")
    spec = {"operator": {"defaultRuntime": "containerd"}, "driver": {"version": "570.86.15", **driver}}
    spec |= {name: {"enabled": True} for name in parts[1:6]}
    spec |= {"daemonsets": {"priorityClassName": "high"}, "nodeStatusExporter": {"enabled": False}}
    metadata = {"name": "cluster-policy", "labels": {"app.kubernetes.io/managed-by": "Helm"}}
    return {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": metadata, "spec": spec}


def owned_nics() -> dict[str, Any]:
    driver = {"image": "doca-driver", "repository": "nvcr.io/nvidia/mellanox", "version": "doca-1"}
    spec = {"ofedDriver": driver}
    metadata = {"name": "nic-cluster-policy"}
    kind = {"apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy"}
    return {**kind, "metadata": metadata, "spec": spec}


@pytest.fixture
def owned(space: str) -> Iterator[str]:
    """The namespace, on a cluster whose operators somebody else has set up."""
    try:
        as_owner(owned_policy())
        as_owner(owned_nics())
        yield space
        prepare.revert(there(space))
    finally:
        cluster.kubectl("delete", "clusterpolicies.nvidia.com", "--all")
        cluster.kubectl("delete", "nicclusterpolicies.mellanox.com", "--all")


def policies(namespace: str) -> Preparation:
    """Both operators' objects, with settings that their owner did not make."""
    settings: dict[str, dict[str, Any]] = {
        "gpu-operator": {"peermem": True},
        "network-operator": {"driver": None},
    }
    return preparation("kubernetes", namespace, "pods", "gpu-operator", "network-operator", **settings)


@pytest.mark.kubernetes
@pytest.mark.slow
def test_what_somebody_else_set_up_is_added_to_and_then_as_it_was(owned: str) -> None:
    wanted = policies(owned)
    before = seen(wanted)
    assert [step.does for step in prepare.apply(there(owned), wanted)] == ["change"] * 3
    between = seen(wanted)["ClusterPolicy /cluster-policy"]
    assert between["spec"]["driver"] == {"version": "570.86.15", "enabled": True, "rdma": {"enabled": True}}
    assert between["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    prepare.apply(there(owned), wanted)
    assert [step.does for step in prepare.revert(there(owned))] == ["restore"] * 3
    assert seen(wanted) == before


@pytest.mark.kubernetes
@pytest.mark.slow
def test_what_others_change_meanwhile_stays_theirs(owned: str) -> None:
    wanted = policies(owned)
    before = seen(wanted)
    prepare.apply(there(owned), wanted)
    theirs = {
        "spec": {"driver": {"version": "580.1", "rdma": {"useHostMofed": True}}, "mig": {"strategy": "mixed"}}
    }
    kind = "clusterpolicies.nvidia.com"
    cluster.kubectl("patch", kind, "cluster-policy", "--type=merge", "-p", json.dumps(theirs))
    cluster.kubectl("annotate", kind, "cluster-policy", "note=theirs")
    prepare.revert(there(owned))
    expected = before["ClusterPolicy /cluster-policy"]
    expected["metadata"]["annotations"] = {"note": "theirs"}
    expected["spec"]["driver"] = {"version": "580.1", "rdma": {"useHostMofed": True}}
    expected["spec"]["mig"] = {"strategy": "mixed"}
    assert seen(wanted) == before


@pytest.mark.kubernetes
@pytest.mark.slow
def test_an_object_that_assay_made_goes_and_says_whose_fields_go_with_it(space: str) -> None:
    wanted = preparation("kubernetes", space, "gpu-operator")
    prepare.apply(there(space), wanted)
    theirs = json.dumps({"spec": {"driver": {"version": "580.1"}}})
    kind = "clusterpolicies.nvidia.com"
    cluster.kubectl(
        "patch", kind, "cluster-policy", "--type=merge", "--field-manager=an-editor", "-p", theirs
    )
    (step,) = prepare.revert_plan(there(space))
    assert (step.does, step.about) == ("delete", ("some fields belong to an-editor",))
    prepare.revert(there(space))
    assert set(seen(wanted).values()) == {None}


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_field_of_somebody_else_stops_all_parts_before_anything_is_changed(owned: str) -> None:
    as_owner(owned_policy(rdma={"enabled": False}))
    wanted = policies(owned)
    before = seen(wanted)
    with pytest.raises(InputError, match=r'\.spec\.driver\.rdma\.enabled: conflict with "the-owner"'):
        prepare.apply(there(owned), wanted)
    assert seen(wanted) == before


class BrokenError(Exception):
    """What a killed process looks like to the cluster: nothing more is sent."""


def break_at(patched: pytest.MonkeyPatch, writes: int) -> None:
    """So many requests change something; the next one is not sent."""
    done = 0

    def counted(real: Any) -> Any:
        def sent(self: client.Cluster, *args: Any, **how: Any) -> Any:
            nonlocal done
            if not how.get("dry_run"):
                if done == writes:
                    raise BrokenError
                done += 1
            return real(self, *args, **how)

        return sent

    for name in ("apply", "delete"):
        patched.setattr(client.Cluster, name, counted(getattr(client.Cluster, name)))


@pytest.mark.kubernetes
@pytest.mark.slow
def test_what_the_printed_command_installs_is_what_the_part_asks_for(space: str) -> None:
    wanted = preparation("kubernetes", space, "gpu-operator")
    (reference,) = wanted.references("gpu-operator")
    spec: dict[str, Any] = {}
    for path, value in re.findall(r"--set (\S+)=(\S+)", reference.command):
        *above, last = path.split(".")
        place = spec
        for key in above:
            place = place.setdefault(key, {})
        place[last] = {"true": True, "false": False}.get(value, value)
    del spec["nfd"]
    made = json.dumps(bare("nvidia.com/v1", "ClusterPolicy", "cluster-policy", spec=spec))
    try:
        cluster.kubectl("create", "--field-manager=helm", "-f", "-", stdin=made)
        assert [step.does for step in prepare.plan(there(space), wanted)] == ["keep"]
    finally:
        cluster.kubectl("delete", "clusterpolicies.nvidia.com", "--all")


@pytest.mark.kubernetes
@pytest.mark.slow
def test_killed_at_any_request_it_is_gone_on_with_or_taken_back(
    owned: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = policies(owned)
    before = seen(wanted)
    prepare.apply(there(owned), wanted)
    after = seen(wanted)
    prepare.revert(there(owned))
    broken = {"apply": 0, "revert": 0}
    for at in range(6):
        with monkeypatch.context() as patched, suppress(BrokenError):
            break_at(patched, at)
            broken["apply"] += 1
            prepare.apply(there(owned), wanted)
            broken["apply"] -= 1
        if at % 2:  # taken back, or gone on with
            prepare.revert(there(owned))
            assert seen(wanted) == before, at
        prepare.apply(there(owned), wanted)
        assert seen(wanted) == after, at
        with monkeypatch.context() as patched, suppress(BrokenError):
            break_at(patched, at)
            broken["revert"] += 1
            prepare.revert(there(owned))
            broken["revert"] -= 1
        prepare.revert(there(owned))
        assert seen(wanted) == before, at
    assert broken["apply"] == 3
    assert broken["revert"] == 3


@pytest.mark.kubernetes
@pytest.mark.slow
def test_an_object_for_another_namespace_is_shared_as_it_is_and_else_a_conflict(space: str) -> None:
    prepare.apply(there(space), preparation("kubernetes", space, "gpu-operator"))
    with cluster.namespace() as other:
        same = preparation("kubernetes", other, "gpu-operator")
        (step,) = prepare.apply(there(other), same)
        assert (step.does, step.about) == ("keep", (f"it was prepared for namespace {space}",))
        assert prepare.revert(there(other)) == []
        different = preparation("kubernetes", other, "gpu-operator", **{"gpu-operator": {"mig": "mixed"}})
        with pytest.raises(InputError, match=f"prepared for namespace {space}"):
            prepare.apply(there(other), different)
    assert [step.does for step in prepare.revert(there(space))] == ["delete"]


@pytest.mark.kubernetes
@pytest.mark.slow
def test_one_part_is_applied_and_taken_back_without_touching_the_others(space: str) -> None:
    prepare.apply(there(space), preparation("kubernetes", space, "pods", "gpu-operator"))
    alone = replace(preparation("kubernetes", space, "nfd"), whole=False)
    assert [step.does for step in prepare.apply(there(space), alone)] == ["make"]
    assert [step.part for step in prepare.revert(there(space), ["gpu-operator"])] == ["gpu-operator"]
    assert {step.part for step in prepare.revert_plan(there(space))} == {"nfd", "pods"}
    taken = prepare.apply(there(space), preparation("kubernetes", space, "pods"))
    assert [(step.does, step.part) for step in taken] == [("keep", "pods"), ("delete", "nfd")]


@pytest.mark.kubernetes
@pytest.mark.slow
def test_what_olm_takes_once_only_is_not_made_beside_what_is_there(space: str) -> None:
    group = {"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup"}
    try:
        cluster.kubectl("create", "namespace", "openshift-nfd")
        as_owner({**group, "metadata": {"name": "console-made", "namespace": "openshift-nfd"}})
        steps = prepare.plan(there(space), preparation("openshift", space, "nfd"))
        by_kind = {step.called.split()[0]: step for step in steps}
        assert by_kind["OperatorGroup"].does == "keep"
        assert "console-made already exists" in by_kind["OperatorGroup"].about[0]
        assert by_kind["Subscription"].does == "make"
    finally:
        cluster.kubectl("delete", "namespace", "openshift-nfd")
    as_owner(owned_policy())
    try:
        with pytest.raises(InputError, match="cluster-policy already exists, and only one is effective"):
            prepare.apply(there(space), preparation("openshift", space, "gpu-operator"))
    finally:
        cluster.kubectl("delete", "clusterpolicies.nvidia.com", "--all")


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_claim_stays_whose_data_would_go_with_it(space: str) -> None:
    claim = {"storageClassName": f"class-of-{space}", "size": "1Gi"}
    wanted = preparation("kubernetes", space, "storage", storage={"claims": {"work": claim}})
    volume = bare("v1", "PersistentVolume", f"made-for-{space}")
    source = {"hostPath": {"path": "/tmp"}, "persistentVolumeReclaimPolicy": "Delete"}
    kept = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"]}
    try:
        cluster.kubectl(
            "create",
            "-f",
            "-",
            stdin=json.dumps(
                {**volume, "spec": {**source, **kept, "storageClassName": claim["storageClassName"]}}
            ),
        )
        prepare.apply(there(space), wanted)
        bound = "--for=jsonpath={.status.phase}=Bound"
        cluster.kubectl("-n", space, "wait", bound, "pvc/work", "--timeout=60s")
        (step,) = prepare.revert(there(space))
        assert (step.does, step.about[0].split(" and ")[0]) == ("stays", f"volume made-for-{space}")
        assert None not in seen(wanted).values()
    finally:
        cluster.kubectl("-n", space, "delete", "pvc", "work", "--ignore-not-found")
        cluster.kubectl("delete", "pv", f"made-for-{space}", "--ignore-not-found")


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_kind_that_the_cluster_lacks_is_said_with_what_to_install_and_nothing_is_applied(
    space: str,
) -> None:
    asked = preparation("kubernetes", space, "nfd")
    wanted = replace(asked, parts=(*asked.parts, Unheard()))
    with pytest.raises(
        InputError, match=r"no Unheard of unheard\.example/v1; install first: Unheard, chart 1"
    ):
        prepare.apply(there(space), wanted)
    assert seen(asked) == {"NodeFeatureRule /assay-devices": None}


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_kind_that_comes_with_an_operator_of_the_same_preparation_is_waited_for(space: str) -> None:
    asked = preparation("openshift", space, "registry", registry={"images": space})
    steps = prepare.apply(there(space), replace(asked, parts=(*asked.parts, Unheard())))
    assert [step.does for step in steps] == ["make", "make", "wait"]
    assert None not in seen(asked).values()


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_field_that_the_schema_lacks_is_refused_before_anything_is_changed(space: str) -> None:
    wanted = preparation(
        "kubernetes", space, "pods", "gpu-operator", **{"gpu-operator": {"kernel_modules": "open"}}
    )
    with pytest.raises(InputError, match="kernelModuleType"):  # newer than the definition on this cluster
        prepare.apply(there(space), wanted)
    assert prepare.revert_plan(there(space)) == []


@pytest.mark.kubernetes
@pytest.mark.slow
def test_requirements_tell_what_is_there(space: str) -> None:
    prepare.apply(there(space), preparation("kubernetes", space, "gpu-operator"))
    here = there(space)
    nodes = here.list(client.NODES, everywhere=True).items
    ready = ObjectStatus("nvidia.com/v1", "ClusterPolicy", "cluster-policy", ("status", "state"), "ready")
    assert check(here, ready, nodes).evidence == "status.state is not set yet; expected ready"
    said = json.dumps({"status": {"state": "ready", "namespace": "gpu-operator"}})
    kind = "clusterpolicies.nvidia.com"
    cluster.kubectl("patch", kind, "cluster-policy", "--subresource=status", "--type=merge", "-p", said)
    assert check(here, ready, nodes).state == "ok"
    assert check(here, replace(ready, name="other"), nodes).evidence == "it does not exist"
    assert check(here, DeploymentRollout("mpi-operator", "mpi-operator"), nodes).state == "ok"
    assert check(here, DeploymentRollout("mpi-operator", "other"), nodes).state == "fail"
    assert check(here, NodeResource("cpu"), nodes).state == "ok"
    assert check(here, NodeResource("nobody.has/this"), nodes).evidence.startswith("offered by none of ")
    assert check(here, NodeLabel("kubernetes.io/os", "linux"), nodes).state == "ok"
    assert check(here, NodeLabel("kubernetes.io/os", "plan9"), nodes).state == "fail"


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_check_asks_for_every_object_and_takes_none_that_is_going(space: str) -> None:
    wanted = preparation("openshift", space, "registry", registry={"images": space, "pushes": "ci"})
    assert [one.evidence for _, one in check_all(there(space), wanted)] == ["it does not exist"] * 2
    prepare.apply(there(space), wanted)
    assert [(name, one.state) for name, one in check_all(there(space), wanted)] == [("registry", "ok")] * 2
    held = json.dumps({"metadata": {"finalizers": ["test.assay.dev/held"]}})
    binding = next(obj["metadata"]["name"] for _, obj in wanted.objects())
    cluster.kubectl("-n", space, "patch", "rolebinding", binding, "--type=merge", "-p", held)
    try:
        prepare.revert(there(space))
        going, gone = check_all(there(space), wanted)
        assert (going[1].evidence, gone[1].evidence) == ("it is being deleted", "it does not exist")
    finally:
        free = json.dumps({"metadata": {"finalizers": None}})
        cluster.kubectl("-n", space, "patch", "rolebinding", binding, "--type=merge", "-p", free)


@pytest.fixture
def defaulting(space: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Preparation]:
    """A kind of our own with defaults, an object of it that is somebody else's, and what is asked of it."""
    monkeypatch.setattr(prepare, "KINDS", [("test.assay.dev/v1", "Defaulting")])
    try:
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(DEFAULTING))
        cluster.kubectl("wait", "--for=condition=Established", "crd/defaultings.test.assay.dev")
        as_owner(bare("test.assay.dev/v1", "Defaulting", "one", spec={"other": {"image": "theirs"}}))
        yield replace(preparation("kubernetes", space), parts=(Defaulting(),))
    finally:
        cluster.kubectl("delete", "crd", "defaultings.test.assay.dev", "--ignore-not-found")


@pytest.mark.kubernetes
@pytest.mark.slow
def test_defaults_that_the_server_filled_in_beside_go_too(space: str, defaulting: Preparation) -> None:
    before = seen(defaulting)
    prepare.apply(there(space), defaulting)
    (now,) = seen(defaulting).values()
    assert now["spec"]["plugin"] == {"image": "x", "secrets": [], "level": 3}
    prepare.revert(there(space))
    assert seen(defaulting) == before
    assert before["Defaulting /one"]["spec"]["other"]["level"] == 3


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_default_that_somebody_relies_on_since_stays(space: str, defaulting: Preparation) -> None:
    prepare.apply(there(space), defaulting)
    as_owner(bare("test.assay.dev/v1", "Defaulting", "one", spec={"plugin": {"level": 3}}), "a-later-owner")
    prepare.revert(there(space))
    (now,) = seen(defaulting).values()
    assert now["spec"]["plugin"]["level"] == 3
    assert "image" not in now["spec"]["plugin"]


@pytest.mark.kubernetes
@pytest.mark.slow
def test_nodes_restart_only_where_that_is_agreed_to(space: str, tmp_path: Path) -> None:
    lab = systems_file(tmp_path, space)
    asked = ("lab", "--for", "openshift", "--part", "memlock")
    planned = run(lab, *asked)
    assert "restarts every node of pool worker" in planned.output
    refused = run(lab, *asked, "--apply", "--yes")
    assert isinstance(refused.exception, InputError)
    assert "--restart-nodes" in str(refused.exception)
    assert run(lab, *asked, "--validate").exit_code == 0
    assert run(lab, *asked, "--apply", "--yes", "--restart-nodes").exit_code == 0
    assert run(lab, *asked, "--check").exit_code == 1  # no operator is behind it here
    assert isinstance(run(lab, *asked, "--revert", "--yes").exception, InputError)
    assert run(lab, *asked, "--revert", "--yes", "--restart-nodes").exit_code == 0


@pytest.mark.kubernetes
@pytest.mark.slow
def test_apply_shows_the_plan_and_asks(space: str, tmp_path: Path) -> None:
    lab = systems_file(tmp_path, space)
    said = run(lab, "lab", "--for", "kubernetes", "--apply", says="n\n")
    assert "change   Namespace" in said.output
    assert "/etc/chrony.conf" in said.output
    assert said.exit_code == 1  # click's own, which `assay` makes 130
    assert prepare.revert_plan(there(space)) == []
    run(lab, "lab", "--for", "kubernetes", "--apply", says="y\n")
    assert [step.does for step in prepare.revert_plan(there(space))] == ["restore"]
