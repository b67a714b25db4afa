"""The parts of `assay cluster prepare`: what each renders, and their way to a real API server and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import jsonschema
import pytest
from click.testing import CliRunner, Result

import custom_resources
import kubernetes_cluster as cluster
from assay.cli import assay
from assay.cluster import marks, prepare
from assay.cluster.components import KINDS, PARTS, Preparation
from assay.cluster.components.part import (
    Labelled,
    Offers,
    Part,
    Platform,
    Reference,
    Rolled,
    Says,
    Target,
    bare,
)
from assay.cluster.components.requirements import check
from assay.errors import InputError
from assay.launch.kubernetes import client
from assay.launch.kubernetes.connection import connect
from assay.launch.kubernetes.manifests import as_yaml
from assay.launch.kubernetes.options import KubernetesSystem
from assay.suite import document

GOLDEN = Path(__file__).parent / "golden" / "prepare"
DOCUMENT = Path(__file__).parent.parent / "docs" / "prepare.md"
SCALE = {"cluster": "16217308676014575381", "filesystem": "099B6A7A:5EB99743", "path": "/gpfs/frames"}
OPTIONS: dict[str, dict[str, Any]] = {
    "registry": {"images": "images", "pushes": "ci"},
    "storage": {
        "claims": {
            "frames": {"scale": SCALE, "access": "ReadOnlyMany"},
            "paper": {"scale": {**SCALE, "csi": "2.0.0"}},
            "home": {"nfs": {"server": "nfs.lab", "path": "/home", "mountOptions": ["nconnect=8"]}},
            "local": {"hostPath": "/data", "size": "100Gi"},
            "scratch": {
                "storageClass": {"provisioner": "csi.lab", "parameters": {"fs": "fs1"}},
                "size": "500Gi",
            },
            "there": {"storageClassName": "fast", "size": "1Ti", "access": "ReadWriteOnce"},
        }
    },
    "kueue": {"quota": {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "16"}},
    "chrony": {"servers": ["time1.lab", "time2.lab"]},
    "hugepages": {"size": "1Gi", "count": 32},
    "numa": {"reserved_cpus": "0-1,64-65", "reserved_memory": {"0": "1124Mi"}},
    "network-operator": {
        "driver": "doca3.4.1-26.04-1.1.0.0-1",
        "resources": [
            {"resourceName": "shared_ib0", "rdmaHcaMax": 100, "devices": ["ib0"]},
            {"resourceName": "eth", "selectors": {"vendors": ["15b3"], "linkTypes": ["ether"]}},
        ],
    },
}
"""What parts can't be without, as an example of each."""


def preparation(platform: Platform, namespace: str, *names: str, **options: dict[str, Any]) -> Preparation:
    target = Target(platform, namespace, KubernetesSystem.model_validate({"runAsUser": "assigned"}))
    return Preparation(target, tuple(part(name, **options.get(name, {})) for name in names))


def part(name: str, **options: Any) -> Part:
    return PARTS[name].model_validate({**OPTIONS.get(name, {}), **options})


def everything(platform: Platform, namespace: str) -> Preparation:
    names = [name for name, of in PARTS.items() if platform in of.platforms]
    return preparation(platform, namespace, *names, registry={"images": namespace})


CASES = [(platform, name) for name, of in PARTS.items() for platform in of.platforms]


def rendered(made: Preparation) -> str:
    """All that a preparation of one part asks for, as text."""
    (chosen,) = made.parts
    said = [f"# {of.of}, {of.pin}\n{of.command}\n" for of in made.references(chosen.name)]
    said += [
        f"# {file.path}\n{file.text}" + "".join(f"# then {line}\n" for line in file.then)
        for file in chosen.node_files(made.target)
    ]
    objects = [obj for _, obj in made.objects()]
    return "---\n".join([*said, *([as_yaml(objects)] if objects else [])])


@pytest.mark.parametrize(("platform", "name"), CASES)
def test_what_a_part_asks_for_is_what_it_was(platform: Platform, name: str) -> None:
    golden = GOLDEN / f"{name}.{platform}.yaml"
    assert rendered(preparation(platform, "bench", name)) == golden.read_text()


@pytest.mark.parametrize(("platform", "name"), CASES)
def test_every_object_is_of_a_kind_that_revert_looks_for(platform: Platform, name: str) -> None:
    for _, obj in preparation(platform, "bench", name).objects():
        assert (obj["apiVersion"], obj["kind"]) in KINDS


def test_every_part_and_option_stands_in_the_document() -> None:
    section = DOCUMENT.read_text().partition("## The parts")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    options = {row.split("`")[1]: row.split(" | ")[2] for row in rows}
    assert options.keys() == PARTS.keys()
    for name, of in PARTS.items():
        said = {word for word in options[name].split("`") if word in {*of.model_fields}}
        assert said == {*of.model_fields}, name


# On a cluster that knows the kinds


@pytest.fixture(scope="module")
def known() -> Iterator[None]:
    with cluster.namespace(), custom_resources.brought():
        yield


@pytest.fixture
def space(known: None) -> Iterator[str]:
    """A namespace to prepare for; what was prepared is gone afterwards."""
    del known
    with cluster.namespace() as name:
        yield name
        prepare.revert(there(name))


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
            for counted in marks.THE_SERVERS:
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
    assert (step.does, step.about) == ("delete", ("fields are also of an-editor",))
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
        assert "console-made is there already" in by_kind["OperatorGroup"].about[0]
        assert by_kind["Subscription"].does == "make"
    finally:
        cluster.kubectl("delete", "namespace", "openshift-nfd")
    as_owner(owned_policy())
    try:
        with pytest.raises(InputError, match="cluster-policy is there already, and only one counts"):
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


class Unheard(Part):
    """A part whose kind no cluster has."""

    name: ClassVar = "unheard"
    about: ClassVar = "for tests"
    brings: ClassVar = ("unheard.example",)

    def objects(self, target: Target) -> list[dict[str, Any]]:
        del target
        return [bare("unheard.example/v1", "Unheard", "one")]

    def references(self, target: Target) -> list[Reference]:
        del target
        return [Reference("Unheard", "chart 1.2.3", "helm install unheard")]


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
    ready = Says("nvidia.com/v1", "ClusterPolicy", "cluster-policy", ("status", "state"), "ready")
    assert check(there(space), ready).evidence == "status.state is not said yet; expected ready"
    said = json.dumps({"status": {"state": "ready", "namespace": "gpu-operator"}})
    kind = "clusterpolicies.nvidia.com"
    cluster.kubectl("patch", kind, "cluster-policy", "--subresource=status", "--type=merge", "-p", said)
    assert check(there(space), ready).state == "ok"
    assert check(there(space), replace(ready, name="other")).evidence == "it is not there"
    assert check(there(space), Rolled("mpi-operator", "mpi-operator")).state == "ok"
    assert check(there(space), Rolled("mpi-operator", "other")).state == "fail"
    assert check(there(space), Offers("cpu")).state == "ok"
    assert check(there(space), Offers("nobody.has/this")).evidence.startswith("offered by none of ")
    assert check(there(space), Labelled("kubernetes.io/os", "linux")).state == "ok"
    assert check(there(space), Labelled("kubernetes.io/os", "plan9")).state == "fail"


class Defaulting(Part):
    """A part whose kind has defaults, which the server fills in beside what is applied."""

    name: ClassVar = "defaulting"
    about: ClassVar = "for tests"

    def objects(self, target: Target) -> list[dict[str, Any]]:
        del target
        return [
            bare(f"{DEFAULTING['spec']['group']}/v1", "Defaulting", "one", spec={"plugin": {"image": "x"}})
        ]


_TEXT: dict[str, Any] = {"type": "string"}
_PLUGIN = {
    "type": "object",
    "properties": {
        "image": _TEXT,
        "secrets": {"type": "array", "items": _TEXT, "default": []},
        "level": {"type": "integer", "default": 3},
    },
}
_SPEC = {"type": "object", "properties": {"plugin": _PLUGIN, "other": _PLUGIN}}
DEFAULTING: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "defaultings.test.assay.dev"},
    "spec": {
        "group": "test.assay.dev",
        "scope": "Cluster",
        "names": {"kind": "Defaulting", "plural": "defaultings"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": _SPEC}}},
            }
        ],
    },
}


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


# The command line


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    """A systems file with a part that is right and others that are not."""
    file = tmp_path / "systems.yaml"
    file.write_text(
        "lab:\n  launcher: kubernetes\n  namespace: bench\n"
        "  prepare:\n    memlock:\n    chrony: {servers: [t]}\n"
        "wrong:\n  launcher: kubernetes\n  namespace: bench\n  prepare:\n"
        "    gpu-operatr: {}\n    hugepages: {size: 3Mi, cuont: 1}\n"
    )
    return file


def run(file: Path, *args: str) -> Result:
    return CliRunner().invoke(assay, ["cluster", "prepare", *args, "--systems", str(file)])


def test_a_part_or_option_that_does_not_exist_is_refused_with_its_line(lab: Path) -> None:
    said = run(lab, "wrong", "--for", "kubernetes", "--print")
    assert isinstance(said.exception, InputError)
    lines = str(said.exception).splitlines()
    assert f'{lab}:11: wrong.prepare: "gpu-operatr" is no part; did you mean gpu-operator?' in lines
    assert any(line.startswith(f'{lab}:12: wrong.prepare.hugepages.size: found "3Mi"') for line in lines)
    assert f"{lab}:12: wrong.prepare.hugepages.cuont: unknown key; did you mean count?" in lines


def test_an_editor_knows_the_parts(lab: Path) -> None:
    schema = json.loads(CliRunner().invoke(assay, ["schema", "systems"]).output)
    checks = jsonschema.Draft202012Validator(schema)
    written = document.read(lab).data
    checks.validate({"lab": written["lab"]})
    said = " ".join(error.message for error in checks.iter_errors({"wrong": written["wrong"]}))
    assert "'gpu-operatr' was unexpected" in said
    assert "3Mi" in said


def test_printing_asks_no_cluster(lab: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", "/nowhere")
    said = run(lab, "lab", "--for", "openshift", "--part", "memlock", "--print")
    assert said.output == (GOLDEN / "memlock.openshift.yaml").read_text()


def test_a_part_of_another_platform_is_refused(lab: Path) -> None:
    said = run(lab, "lab", "--for", "kubernetes", "--part", "registry", "--print")
    assert isinstance(said.exception, InputError)
    assert "registry: not for kubernetes" in str(said.exception)


def test_two_actions_at_once_are_wrong_usage(lab: Path) -> None:
    said = run(lab, "lab", "--apply", "--revert")
    assert said.exit_code == 2
    assert "--apply and --revert: say one of them" in said.output


@pytest.mark.kubernetes
@pytest.mark.slow
def test_nodes_restart_only_where_that_is_agreed_to(space: str, lab: Path) -> None:
    text = lab.read_text().replace("bench", space)
    lab.write_text(text)
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
def test_apply_shows_the_plan_and_asks(space: str, lab: Path) -> None:
    lab.write_text(lab.read_text().replace("bench", space))
    asked = ["cluster", "prepare", "lab", "--for", "kubernetes", "--apply", "--systems", str(lab)]
    said = CliRunner().invoke(assay, asked, input="n\n")
    assert "change   Namespace" in said.output
    assert "/etc/chrony.conf" in said.output
    assert said.exit_code == 1  # click's own, which `assay` makes 130
    assert prepare.revert_plan(there(space)) == []
    said = CliRunner().invoke(assay, asked, input="y\n")
    assert [step.does for step in prepare.revert_plan(there(space))] == ["restore"]
