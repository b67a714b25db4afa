"""What is sent to Kubernetes: golden files, schemas, and what each option changes. No cluster is needed."""

from __future__ import annotations

import base64
import gzip
import io
import json
import random
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from ruamel.yaml import YAML

from assay.errors import InputError
from assay.launch.kubernetes import fields
from assay.launch.kubernetes.objects.kind_choice import BUILT_IN, choose
from assay.launch.kubernetes.objects.kinds import KINDS, Ending
from assay.launch.kubernetes.objects.manifests import as_yaml, render
from assay.launch.kubernetes.objects.order import MEETING_PORT
from assay.launch.kubernetes.objects.payload import MOST_PARTS, PART_BYTES
from assay.launch.kubernetes.options import KubernetesSystem
from assay.records import Job, Shape, Task, TaskFile
from assay.suite.findings import read_strictly
from assay_payloads.keeping import relay
from conftest import ROOT, long_but
from pytorchjob_schema import PYTORCHJOB

TOKEN = "0f3a6b0c9d8e4f52a1b2c3d4e5f60718"
GOLDEN = ROOT / "tests" / "golden" / "kubernetes"
KUBERNETES = "1.34"
FULL: dict[str, Any] = {
    "namespace": "bench",
    "image": "registry.example.org/torch:2.9",
    "imagePullPolicy": "IfNotPresent",
    "imagePullSecrets": ["registry"],
    "python": "/opt/venv/bin/python",
    "env": {"NCCL_DEBUG": "INFO"},
    "envFromSecret": {"HF_TOKEN": "hub/token"},
    "volumes": [
        {"hostPath": "/opt/venv", "mountPath": "/opt/venv", "readOnly": True},
        {"persistentVolumeClaim": "imagenet", "mountPath": "/data", "subPath": "train"},
        {"configMap": "topology", "mountPath": "/etc/nccl"},
        {"emptyDir": "Memory", "sizeLimit": "4Gi", "mountPath": "/scratch"},
    ],
    "shm": "32Gi",
    "resources": {
        "accelerator": {"nvidia.com/gpu": 1, "cpu": 8, "memory": "64Gi"},
        "pod": {"rdma/hca_shared": 1, "openshift.io/mlx5": 2, "hugepages-2Mi": "1Gi"},
    },
    "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "mlx5", "request": "vf"}],
    "pin_cpus": True,
    "runtimeClassName": "nvidia",
    "networks": ["bench/rail-0", "bench/rail-1"],
    "serviceAccountName": "bench",
    "runAsUser": 0,
    "capabilities": ["IPC_LOCK"],
    "placement": "pack",
    "nodeSelector": {"nvidia.com/gpu.product": "H100"},
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}},
    "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "topologySpreadConstraints": [{"topologyKey": "topology.kubernetes.io/zone"}],
    "schedulerName": "gang",
    "priorityClassName": "high",
    "queue": "research",
    "topology": {"required": "cloud.provider.com/topology-block"},
    "labels": {"team": "infra"},
    "annotations": {"cost-centre": "42"},
    "grace": "10s",
    "start_timeout": "30min",
    "ttlSecondsAfterFinished": 600,
    "patch": {"spec": {"containers": [{"name": "ranks", "stdin": True}], "dnsPolicy": "Default"}},
}


def job(shape: str = "2x1", *, files: tuple[TaskFile, ...] = (), timeout_s: float = 60.0) -> Job:
    task = Task(("{python}", "train.py"), {"LR": "0.1"}, files or (TaskFile("train.py", b"print(1)\n"),))
    return Job(TOKEN, f"train-{shape}-r01", Shape.parse(shape), task, seed=7, timeout_s=timeout_s)


def system(**options: Any) -> KubernetesSystem:
    return read_strictly(KubernetesSystem, {"image": "torch:1", **options})


def objects(kind: str, shape: str = "2x1", **options: Any) -> list[dict[str, Any]]:
    return list(render(job(shape), system(**options), KINDS[kind]).objects)


def pods(value: Any) -> Iterator[dict[str, Any]]:
    """Every pod spec with containers, however deep."""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from pods(inner)
    if isinstance(value, dict) and "containers" in value:
        yield value


def pod(kind: str = "job", shape: str = "2x1", **options: Any) -> dict[str, Any]:
    return next(pods(objects(kind, shape, **options)[-1]))


def container(kind: str = "job", shape: str = "2x1", **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = pod(kind, shape, **options)["containers"][0]
    return found


# As it stands on file


def stable(text: str) -> str:
    """Without the programs' text and the archive's bytes, which are not this test's subject."""
    text = re.sub(r"(?m)^  ([\w.]+\.py): (?:\|-?)?\n(?:    .*\n|\n)+", r"  \1: (its text)\n", text)
    return re.sub(r"(files\.tar\.gz\.\d+): \S+", r"\1: (its bytes)", text)


@pytest.mark.parametrize("kind", [name for name in KINDS if name != "pod"])
def test_the_manifest_of_a_kind_is_the_one_on_file(kind: str) -> None:
    shown = render(job("2x4"), system(), KINDS[kind]).yaml()
    assert shown == render(job("2x4"), system(), KINDS[kind]).yaml()
    assert stable(shown) == (GOLDEN / f"{kind}.yaml").read_text()


def test_the_manifest_of_one_pod_is_the_one_on_file() -> None:
    assert stable(render(job("1x8"), system(), KINDS["pod"]).yaml()) == (GOLDEN / "pod.yaml").read_text()


def test_the_manifest_with_every_option_is_the_one_on_file() -> None:
    text = render(job("16x1x2"), system(**FULL), KINDS["job"]).yaml()
    assert stable(text) == (GOLDEN / "every_option.yaml").read_text()


def test_a_text_that_yaml_1_1_takes_for_something_else_is_in_quotation_marks() -> None:
    """kubectl reads `no` as false, which no variable can be."""
    values = ["y", "No", "on", "off", "1:20", "null", "1e3", "plain"]
    text = as_yaml([{"values": values}])
    written = [line.strip(" -") for line in text.splitlines()[1:]]
    assert written == ["'y'", "'No'", "'on'", "'off'", "'1:20'", "'null'", "'1e3'", "plain"]


@pytest.mark.parametrize("kind", long_but(2, [*KINDS]))
def test_the_yaml_is_what_is_sent(kind: str) -> None:
    manifests = render(job("1x2" if kind == "pod" else "2x2"), system(), KINDS[kind])
    assert list(YAML(typ="safe", pure=True).load_all(manifests.yaml())) == list(manifests.objects)


@pytest.mark.parametrize("options", [{}, FULL], ids=["plain", "every option"])
@pytest.mark.parametrize("kind", ["pod", "job"])
def test_built_in_kinds_keep_kubernetes_own_schema(kind: str, options: dict[str, Any]) -> None:
    for manifest in objects(kind, "1x4" if kind == "pod" else "16x1x2", **options):
        kubernetes_validate.validate(manifest, KUBERNETES, strict=True)


@pytest.mark.parametrize("kind", ["mpijob", "jobset", "pytorchjob"])
def test_the_pods_of_other_kinds_keep_kubernetes_own_schema(kind: str) -> None:
    found = list(pods(objects(kind, "4x2", **{**FULL, "patch": {}})[-1]))
    assert found
    for spec in found:
        whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
        kubernetes_validate.validate(whole, KUBERNETES, strict=True)


@pytest.mark.parametrize("shape", ["1x4", "4x2"])
def test_a_pytorchjob_keeps_the_schema_of_its_definition(shape: str) -> None:
    made = objects("pytorchjob", shape)[-1]
    jsonschema.validate(made, PYTORCHJOB)
    replicas = made["spec"]["pytorchReplicaSpecs"]
    assert sum(of["replicas"] for of in replicas.values()) == Shape.parse(shape).workers
    assert all(of["template"]["spec"]["containers"][0]["name"] == "pytorch" for of in replicas.values())


# What a shape becomes


@pytest.mark.parametrize(("shape", "workers", "gpus"), [("2x8", 2, "8"), ("16x1", 16, "1")])
def test_a_worker_is_a_pod_with_its_accelerators(shape: str, workers: int, gpus: str) -> None:
    resources = {"accelerator": {"nvidia.com/gpu": 1}, "pod": {"rdma/hca": 1}}
    made = objects("job", shape, resources=resources)[-1]
    assert made["spec"]["parallelism"] == made["spec"]["completions"] == workers
    asked = next(pods(made))["containers"][0]["resources"]
    assert asked["limits"] == asked["requests"] == {"nvidia.com/gpu": gpus, "rdma/hca": "1"}
    assert KINDS["job"].expected_pods(Shape.parse(shape)) == workers


def test_kind_pod_refuses_several_workers() -> None:
    with pytest.raises(InputError, match="2 workers, but kind pod is one pod: write kind: job, or shape 1x2"):
        objects("pod", "2x1")


def test_a_cpu_that_is_only_a_request_throttles_nobody() -> None:
    asked = container(resources={"pod": {"cpu": 2, "memory": "1Gi"}, "limit_cpu": False})["resources"]
    assert asked == {"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}


def test_pinned_cpus_have_to_be_whole() -> None:
    resources = {"accelerator": {"cpu": "1500m", "memory": "1Gi"}}
    assert (
        container("job", "2x2", pin_cpus=True, resources=resources)["resources"]["limits"]["cpu"] == "3000m"
    )
    with pytest.raises(InputError, match="gives each pod 1500m CPUs; only whole CPUs"):
        objects("job", "2x1", pin_cpus=True, resources=resources)


def test_a_shape_of_one_node_keeps_its_pods_together() -> None:
    terms = pod("job", "4x1x1")["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [term["topologyKey"] for term in terms] == ["kubernetes.io/hostname"]
    assert terms[0]["labelSelector"]["matchLabels"]["assay.dev/token"] == TOKEN


def test_a_shape_of_several_nodes_limits_the_pods_of_each() -> None:
    spec = pod("job", "16x1x2")
    (cap,) = spec["topologySpreadConstraints"]
    assert (cap["maxSkew"], cap["whenUnsatisfiable"], cap["minDomains"]) == (8, "DoNotSchedule", 2**31 - 1)
    assert "preferredDuringSchedulingIgnoredDuringExecution" in spec["affinity"]["podAffinity"]
    assert "affinity" not in pod("job", "4x1x4"), "one pod a node: no company is wanted"


def test_named_nodes_hold_beside_what_the_system_asks() -> None:
    zones = [{"key": "zone", "operator": "In", "values": [zone]} for zone in ("a", "b")]
    own = {"nodeSelectorTerms": [{"matchExpressions": [zone]} for zone in zones]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": own}}
    made = objects("job", "2x1x2", nodes=["n1", "n2"], affinity=affinity)
    kubernetes_validate.validate(made[-1], KUBERNETES, strict=True)
    spec = next(pods(made))
    required = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    found = [
        (term["matchExpressions"][0]["values"], term["matchFields"][0]["values"])
        for term in required["nodeSelectorTerms"]
    ]
    assert found == [(["a"], ["n1"]), (["a"], ["n2"]), (["b"], ["n1"]), (["b"], ["n2"])]
    assert spec["topologySpreadConstraints"][0]["maxSkew"] == 1


def test_placement_spreads_or_packs_where_the_shape_does_not_say() -> None:
    assert pod(placement="spread") == pod(shape="2x1x2")
    assert pod(placement="pack") == pod(shape="2x1x1")
    assert pod(shape="4x1x2", placement="spread") == pod(shape="4x1x2")
    assert pod("pod", "1x2", placement="pack").keys() == pod("pod", "1x2").keys(), (
        "one pod lies where it lies"
    )


def test_the_launcher_of_mpirun_takes_no_accelerator_and_counts_for_no_spread() -> None:
    resources = {"accelerator": {"nvidia.com/gpu": 1}}
    specs = objects("mpijob", "2x4x2", resources=resources)[-1]["spec"]["mpiReplicaSpecs"]
    launcher, worker = (specs[role]["template"] for role in ("Launcher", "Worker"))
    assert "resources" not in launcher["spec"]["containers"][0]
    (cap,) = worker["spec"]["topologySpreadConstraints"]
    chosen = cap["labelSelector"]["matchLabels"].items()
    assert chosen <= worker["metadata"]["labels"].items()
    assert not chosen <= launcher["metadata"]["labels"].items()
    assert specs["Worker"]["replicas"] == 2
    command = launcher["spec"]["containers"][0]["command"]
    assert command[command.index("-np") + 1] == "8"


def test_jobs_on_their_nodes_own_network_meet_at_ports_of_their_own() -> None:
    def port(**options: Any) -> int:
        return int(
            {entry["name"]: entry.get("value") for entry in container(**options)["env"]}["MASTER_PORT"]
        )

    assert port() == MEETING_PORT
    assert port(hostNetwork=True) != MEETING_PORT
    assert pod(hostNetwork=True)["dnsPolicy"] == "ClusterFirstWithHostNet"


def test_the_platform_ends_a_job_only_after_its_keeper_and_assay_had_their_time() -> None:
    made = objects("job", grace="10s", start_timeout="5min")[-1]["spec"]
    assert made["activeDeadlineSeconds"] > 300 + 60 + 10
    assert made["template"]["spec"]["terminationGracePeriodSeconds"] > 10
    assert (made["backoffLimit"], made["template"]["spec"]["restartPolicy"]) == (0, "Never")


# As whom


def test_a_pod_asks_for_no_right_unless_the_system_does() -> None:
    spec = pod()
    assert spec["securityContext"]["runAsNonRoot"] is True
    own = spec["containers"][0]["securityContext"]
    assert own == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    assert "runAsUser" not in pod(runAsUser="assigned")["securityContext"]
    root = pod(runAsUser=0, capabilities=["IPC_LOCK"])
    assert "runAsNonRoot" not in root["securityContext"]
    assert root["containers"][0]["securityContext"]["capabilities"] == {"add": ["IPC_LOCK"]}


def test_a_user_that_the_image_may_not_know_has_a_home_and_a_name() -> None:
    def names(**options: Any) -> set[str]:
        return {entry["name"] for entry in container(**options)["env"]}

    assert {"HOME", "USER"} <= names()
    assert not {"HOME", "USER"} & names(runAsUser=0)
    assert not {"HOME", "USER"} & names(runAsUser="image")


# What travels


def archive_of(made: list[dict[str, Any]]) -> bytes:
    maps = [obj for obj in made if obj["kind"] == "ConfigMap"]
    parts = {name: data for of in maps for name, data in of.get("binaryData", {}).items()}
    return b"".join(base64.b64decode(parts[name]) for name in sorted(parts))


def test_files_travel_in_as_many_config_maps_as_they_need_and_come_out_the_same(tmp_path: Path) -> None:
    big = random.Random(1).randbytes(2 * PART_BYTES)
    files = (TaskFile("data/big.bin", big), TaskFile("run.sh", b"#!/bin/sh\n"), TaskFile("empty", b""))
    made = list(render(job(files=files), system(), KINDS["job"]).objects)
    maps = [obj for obj in made if obj["kind"] == "ConfigMap"]
    assert len(maps) == 1 + 3
    assert all(len(json.dumps(one)) < 1 << 20 for one in maps)
    sent = tmp_path / "sent"
    sent.mkdir()
    for one in maps:  # as the kubelet lays them out
        for name, text in one.get("data", {}).items():
            (sent / name).write_text(text)
        for name, data in one.get("binaryData", {}).items():
            (sent / name).write_bytes(base64.b64decode(data))
    relay.unpack(sent, tmp_path / "job")
    work = tmp_path / "job" / "work"
    assert {str(p.relative_to(work)): p.read_bytes() for p in work.rglob("*") if p.is_file()} == {
        file.name: file.data for file in files
    }
    assert (work / "run.sh").stat().st_mode & 0o111
    mounted = next(volume for volume in next(pods(made[-1]))["volumes"] if volume["name"] == "assay-sent")
    assert [source["configMap"]["name"] for source in mounted["projected"]["sources"]] == [
        one["metadata"]["name"] for one in maps
    ]


def test_the_archive_tells_neither_time_nor_user() -> None:
    packed = archive_of(objects("job"))
    assert packed == archive_of(objects("job"))
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(packed))) as tar:
        assert [(entry.mtime, entry.uid, entry.gname) for entry in tar] == [(0, 0, "")]


@pytest.mark.long
def test_files_that_no_cluster_should_keep_are_refused_with_the_way_out() -> None:
    huge = TaskFile("set.bin", random.Random(1).randbytes((MOST_PARTS + 1) * PART_BYTES))
    with pytest.raises(InputError, match="put large files on a volume and list it under volumes"):
        render(job(files=(huge,)), system(), KINDS["job"])


def test_a_workload_without_an_image_on_a_system_without_one_is_told() -> None:
    with pytest.raises(
        InputError, match="image: neither the system nor the workload names a container image"
    ):
        render(job(), KubernetesSystem(), KINDS["job"])


def test_names_stay_below_what_operators_append_to() -> None:
    for kind in KINDS:
        for made in objects(kind, "1x1"):
            assert len(made["metadata"]["name"]) <= 30


def test_a_token_that_is_no_label_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a token"):
        render(Job("-a", "t", Shape(1, 1), Task(("x",)), 1, 1.0), system(), KINDS["pod"])


# Which kind


def test_auto_takes_the_plainest_kind_and_says_why() -> None:
    assert [choose("auto", Shape.parse(shape))[0].name for shape in ("1x8", "2x8")] == ["pod", "job"]
    kind, why = choose("auto", Shape(2, 1), {("jobset.x-k8s.io/v1alpha2", "jobsets")})
    assert (kind.name, "JobSet" in why) == ("jobset", True)
    assert choose("mpijob", Shape(2, 1))[0].name == "mpijob"
    with pytest.raises(InputError, match="grant create on one of jobs, mpijobs"):
        choose("auto", Shape(2, 1), BUILT_IN - {("batch/v1", "jobs")})


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("pod", "Complete", "Failed"),
        ("job", "Complete", "Failed"),
        ("mpijob", "Succeeded", "Failed"),
        ("jobset", "Completed", "Failed"),
        ("trainjob", "Complete", "Failed"),
        ("pytorchjob", "Succeeded", "Failed"),
    ],
)
def test_a_kind_tells_its_end_and_no_end_before(kind: str, good: str, bad: str) -> None:
    def said(kind_of: str, status: str = "True") -> dict[str, Any]:
        return {
            "status": {"conditions": [{"type": kind_of, "status": status, "reason": "R", "message": "m"}]}
        }

    ended = KINDS[kind].ended
    assert ended(said(good)) == Ending(True, "R: m")
    assert ended(said(bad)) == Ending(False, "R: m")
    assert [ended({}), ended(said(good, "False")), ended(said("Running"))] == [None, None, None]


def test_a_trainjob_refuses_what_it_has_no_place_for() -> None:
    with pytest.raises(InputError, match="does not support hostNetwork, dnsPolicy: use kind: jobset or job"):
        objects("trainjob", hostNetwork=True)


# What may be asked


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pin_cpus": True}, "pin_cpus needs cpu and memory under resources"),
        ({"resources": {"pod": {"cpu": "two"}}}, "expected a Kubernetes quantity"),
        (
            {"resources": {"pod": {"cpu": 1}, "accelerator": {"cpu": 1}}},
            "cpu is under both accelerator and pod",
        ),
        ({"volumes": [{"mountPath": "/a"}]}, "/a: found no source; expected one of hostPath"),
        ({"volumes": [{"mountPath": "/a", "hostPath": "/b", "secret": "c"}]}, "found hostPath and secret"),
        ({"envFromSecret": {"A": "b"}}, "expected Secret and key, like registry/password"),
        ({"envFromSecret": {"RANK": "b/c"}}, "the launcher sets RANK"),
        ({"labels": {"assay.dev/token": "x"}}, "names below assay.dev/ are reserved for Assay"),
        ({"topology": {}}, "write exactly one of required, preferred, and unconstrained"),
        ({"resourceClaims": [{"name": "a"}]}, "write either resourceClaimTemplateName"),
        ({"patch": {"containers": []}}, "a pod template has metadata and spec"),
        (
            {"patch": {"spec": {"containers": [{"image": "x"}]}}},
            "spec.containers[0]: name, the merge key, is missing",
        ),
        ({"patch": {"spec": {"$retainKeys": []}}}, "expected $patch: delete or $patch: replace"),
        ({"kind": "deployment"}, "mpijob"),
        ({"nodes": ["a", "b", "a"]}, "a: listed twice"),
        ({"runAsUser": "root"}, "assigned"),
        ({"namespace": "a" * 64}, "has 64 characters; Kubernetes allows at most 63"),
        ({"namespace": "Bench"}, "found 'Bench'; expected lowercase letters, digits, and dashes"),
        ({"namespace": "a.b"}, "found 'a.b'; expected lowercase letters, digits, and dashes"),
        ({"priorityClassName": "a" * 254}, "has 254 characters; Kubernetes allows at most 253"),
        ({"serviceAccountName": "a..b"}, "expected lowercase letters, digits, dashes, and dots"),
        ({"imagePullSecrets": ["A_b"]}, "found 'A_b'"),
        ({"volumes": [{"mountPath": "/a", "configMap": "A"}]}, "found 'A'"),
        ({"envFromSecret": {"A": f"{'a' * 254}/key"}}, "has 254 characters"),
        ({"nodes": ["node_1"]}, "found 'node_1'"),
        ({"nodeSelector": {"a b": "c"}}, "found 'a b'; expected a label's key"),
        ({"labels": {"k": "b" * 64}}, "has 64 characters; Kubernetes allows at most 63"),
        ({"annotations": {"a/b/c": "d e"}}, "found 'a/b'"),
        ({"tolerations": [{"key": "k", "value": "a b"}]}, "found 'a b'; expected letters, digits"),
        ({"queue": "a" * 64}, "has 64 characters"),
    ],
)
def test_what_can_not_be_is_refused_in_words(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as error:
        system(**options)
    assert said in str(error.value)


def test_the_longest_names_are_accepted() -> None:
    longest = {
        "namespace": "a" * 63,
        "serviceAccountName": "a" * 253,
        "labels": {"x.io/K_a": "b" * 63, "e": ""},
    }
    assert system(**longest, nodes=["ip-10-0-0-1.ec2.internal"]).namespace == "a" * 63


@given(st.integers(1, 10**6), st.sampled_from(["", "m", "k", "Ki", "Gi", "e3"]), st.integers(1, 64))
def test_a_multiple_of_a_quantity_is_exact_and_a_quantity(number: int, unit: str, factor: int) -> None:
    product = fields.quantity_times(f"{number}{unit}", factor)
    assert fields.check_quantity(product) == f"{number * factor}{unit}"


# The patch


def test_a_patch_merges_lists_by_what_tells_their_elements_apart() -> None:
    asked = {
        "spec": {
            "containers": [
                {
                    "name": "ranks",
                    "env": [{"name": "MASTER_PORT", "value": "1"}, {"name": "NEW", "value": "2"}],
                    "volumeMounts": [{"mountPath": "/dev/shm", "$patch": "delete"}],
                },
                {"name": "sidecar", "image": "tcpdump"},
            ],
            "tolerations": [{"operator": "Exists"}],
            "restartPolicy": None,
        }
    }
    before, after = pod(tolerations=[{"key": "a"}]), pod(tolerations=[{"key": "a"}], patch=asked)
    ranks, sidecar = after["containers"]
    env = {entry["name"]: entry["value"] for entry in ranks["env"]}
    assert env.keys() == {entry["name"] for entry in before["containers"][0]["env"]} | {"NEW"}
    assert (env["MASTER_PORT"], env["NEW"]) == ("1", "2")
    assert "/dev/shm" not in {mount["mountPath"] for mount in ranks["volumeMounts"]}
    assert len(ranks["volumeMounts"]) == len(before["containers"][0]["volumeMounts"]) - 1
    assert sidecar == {"name": "sidecar", "image": "tcpdump"}
    assert after["tolerations"] == [{"operator": "Exists"}], "a list without a merge key is replaced"
    assert "restartPolicy" not in after


def test_a_patch_may_replace_a_mapping_whole() -> None:
    asked = {"spec": {"securityContext": {"$patch": "replace", "runAsUser": 7}}}
    assert pod(patch=asked)["securityContext"] == {"runAsUser": 7}


plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3),
)


@given(st.dictionaries(st.sampled_from("abcd"), plain), st.dictionaries(st.sampled_from("abcd"), plain))
def test_a_patch_applied_twice_is_applied_once_and_changes_no_input(old: Any, change: Any) -> None:
    kept = json.dumps([old, change])
    once = fields.patched(old, change)
    assert fields.patched(once, change) == once
    assert json.dumps([old, change]) == kept
