"""The parts of `assay cluster prepare`: what each renders, and their way to a real API server and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import custom_resources
import kubernetes_cluster as cluster
from assay.cluster import marks, prepare
from assay.cluster.components import KINDS, PARTS, Preparation
from assay.cluster.components.part import Part, Platform, Target
from assay.launch.kubernetes import client
from assay.launch.kubernetes.connection import connect
from assay.launch.kubernetes.manifests import as_yaml
from assay.launch.kubernetes.options import KubernetesSystem

GOLDEN = Path(__file__).parent / "golden" / "prepare"
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
        space = obj["metadata"].get("namespace", "")
        group = obj["apiVersion"].rpartition("/")[0]
        asked = [f"{obj['kind']}.{group}" if group else obj["kind"], obj["metadata"]["name"]]
        said = cluster.kubectl(
            "get", *asked, *(["-n", space] if space else []), "-o", "json", "--ignore-not-found"
        )
        now = json.loads(said) if said else None
        if now is not None and "deletionTimestamp" not in now["metadata"]:
            for name in marks.THE_SERVERS:
                now["metadata"].pop(name, None)
            now.pop("status", None)
        else:
            now = None
        found[f"{asked[0]} {space}/{asked[1]}"] = now
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
