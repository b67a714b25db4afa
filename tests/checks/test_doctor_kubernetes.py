"""The doctor's checks of a cluster: over made-up ones, and on a real one as administrator and with little."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from test_kubernetes_rights import kubeconfig

import kubernetes_cluster as cluster
from assay.checks import Check
from assay.cli import assay
from assay.launch.kubernetes.client import Object, connect
from assay.launch.kubernetes.doctor import access, node_checks
from assay.launch.kubernetes.doctor.checks import CHECKS
from assay.launch.kubernetes.doctor.cluster_view import AdmissionRefusal, ClusterView, ReadFailure
from assay.launch.kubernetes.objects import rbac
from assay.launch.kubernetes.objects.manifests import as_yaml
from assay.launch.kubernetes.objects.pod_security import is_openshift
from assay.launch.kubernetes.options import KubernetesSystem

NOW = 1_800_000_000.0
FORBIDDEN = ReadFailure("list nodes", "nodes is forbidden", forbidden=True)
GPU = {"nvidia.com/gpu": "1", "cpu": "8"}


def system(**given: Any) -> KubernetesSystem:
    return KubernetesSystem.model_validate(given)


def node(
    name: str,
    labels: dict[str, str] | None = None,
    spec: Object | None = None,
    offers: dict[str, str] | None = None,
) -> Object:
    info = dict.fromkeys(node_checks.ALIKE, "same")
    ready = {"type": "Ready", "status": "True"}
    status = {"conditions": [ready], "allocatable": {"cpu": "64", **(offers or {})}, "nodeInfo": info}
    return {"metadata": {"name": name, "labels": labels or {}}, "spec": spec or {}, "status": status}


def gpu_node(name: str, count: int = 8, labels: dict[str, str] | None = None) -> Object:
    return node(
        name, {node_checks.GPU_LABEL: "H100", **(labels or {})}, offers={"nvidia.com/gpu": str(count)}
    )


def pod(
    on: str,
    name: str = "work",
    space: str = "bench",
    ready: bool = True,
    asks: dict[str, str] | None = None,
) -> Object:
    return {
        "metadata": {"name": name, "namespace": space},
        "spec": {"nodeName": on, "containers": [{"resources": {"requests": asks or {}}}]},
        "status": {"conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def seen(**but: Any) -> ClusterView:
    """A healthy cluster of two nodes, but for what is given."""
    now = NOW
    lease = {"metadata": {"name": "n1"}, "spec": {"renewTime": stamp(now - 4)}}
    kubelet = {"cpuManagerPolicy": "none", "topologyManagerPolicy": "none"}
    healthy = ClusterView(
        system=system(),
        context="lab",
        namespace="bench",
        version="v1.34.4",
        rights=dict.fromkeys(rbac.needed("auto"), True),
        kinds={"pod": True, "job": True},
        admitted=admitted(),
        is_openshift=False,
        space={"metadata": {"name": "bench", "labels": {}}},
        quotas=[],
        account={"metadata": {"name": "default"}},
        account_may=[],
        constraints=None,
        may_use_scc=False,
        nodes=[node("n1"), node("n2")],
        pods=[pod("n1", "coredns-1", "kube-system")],
        deployments=[],
        storage_classes=[],
        leases=[lease],
        server_ahead_s=(-0.4, 0.6),
        read_at=now,
        kubelets={"n1": kubelet},
    )
    return replace(healthy, **but)


def admitted(resources: dict[str, Any] | None = None, **annotations: str) -> Object:
    """A pod as the API server would take it."""
    named = {
        name.replace("_", "/").replace("openshift/", "openshift.io/"): v for name, v in annotations.items()
    }
    return {"metadata": {"annotations": named}, "spec": {"containers": [{"resources": resources or {}}]}}


def stamp(at: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1e6):06}Z"


def deployment(name: str, ready: int) -> Object:
    status = {"readyReplicas": ready} if ready else {}
    return {"metadata": {"name": name, "namespace": "ops"}, "spec": {"replicas": 1}, "status": status}


def quota(keys: dict[str, tuple[str, str]]) -> Object:
    status = {
        "hard": {k: hard for k, (hard, _) in keys.items()},
        "used": {k: used for k, (_, used) in keys.items()},
    }
    return {"metadata": {"name": "team"}, "status": status}


def claim(phase: str, of: str | None = "fast") -> Object:
    spec = {"storageClassName": of, "accessModes": ["ReadWriteMany"]}
    return {"metadata": {}, "spec": spec, "status": {"phase": phase}}


def made_by(driver: str) -> Object:
    annotations = {"volume.kubernetes.io/storage-provisioner": driver}
    return {**claim("Bound"), "metadata": {"annotations": annotations}}


def on_volume(name: str) -> Object:
    found = claim("Bound", None)
    return {**found, "spec": {**found["spec"], "volumeName": name}}


LATE = {"metadata": {"name": "fast"}, "volumeBindingMode": "WaitForFirstConsumer"}


def lacking(verb: str, resource: str) -> dict[rbac.Right, bool]:
    return {right: (right.verb, right.resource) != (verb, resource) for right in rbac.needed("auto")}


def enforcing(level: str) -> Object:
    return {"metadata": {"name": "bench", "labels": {"pod-security.kubernetes.io/enforce": level}}}


TAINT = {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}
TOLERANT = system(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])
WITH_GPU = system(resources={"accelerator": GPU})
WITH_CLAIM = system(volumes=[{"mountPath": "/data", "persistentVolumeClaim": "data"}])
PINNED = system(pin_cpus=True, resources={"accelerator": {"cpu": "4", "memory": "8Gi"}})
STATIC = {"cpuManagerPolicy": "static", "topologyManagerPolicy": "single-numa-node"}
RDMA = system(runAsUser="assigned", capabilities=["IPC_LOCK"])

REFUSED = AdmissionRefusal("can't create Pod assay-doctor: no")

# check, what is not as in a healthy cluster, state, what evidence and remedy say
CASES: list[tuple[Any, dict[str, Any], str, str, str]] = [
    (access.server, {}, "ok", "Kubernetes v1.34.4, context lab, namespace bench", ""),
    (access.rights, {}, "ok", "all 21", ""),
    (
        access.rights,
        {"rights": lacking("create", "jobs")},
        "fail",
        "missing: create jobs.batch",
        '- {apiGroups: ["batch"], resources: [jobs], verbs: [create]}',
    ),
    (access.rights, {"rights": lacking("create", "pods")}, "warn", "missing: create pods", "apiGroups"),
    (access.operator, {}, "ok", "need no operator", ""),
    (access.operator, {"kinds": {"jobset": False}}, "fail", "no JobSet of jobset.x-k8s.io", "install JobSet"),
    (
        access.operator,
        {"system": system(kind="jobset"), "kinds": {"jobset": True}},
        "fail",
        "no deployment named like",
        "install JobSet",
    ),
    (
        access.operator,
        {
            "system": system(kind="jobset"),
            "kinds": {"jobset": True},
            "deployments": [deployment("jobset-controller-manager", 0)],
        },
        "fail",
        "0 of 1 pods ready",
        "kubectl -n ops describe deployment jobset-controller-manager",
    ),
    (
        access.operator,
        {
            "system": system(kind="mpijob"),
            "kinds": {"mpijob": True},
            "deployments": [deployment("mpi-operator", 1)],
        },
        "ok",
        "mpi-operator in ops has 1 of 1 pods ready",
        "",
    ),
    (access.level, {}, "ok", "no level; the pods meet restricted", ""),
    (access.level, {"space": None}, "fail", "bench does not exist", "kubectl create namespace bench"),
    (
        access.level,
        {"system": RDMA, "space": enforcing("restricted")},
        "fail",
        "the pods request capability IPC_LOCK",
        "enforce=privileged",
    ),
    (access.level, {"system": RDMA, "space": enforcing("privileged")}, "ok", "enforces privileged", ""),
    (access.admission, {}, "ok", "would accept a pod of the system", ""),
    (
        access.admission,
        {
            "admitted": AdmissionRefusal(
                "can't create Pod x: exceeded quota: team — the quota is used up: free some"
            )
        },
        "fail",
        "rejects the pods: can't create Pod x: exceeded quota: team",
        "the quota is used up: free some",
    ),
    (
        access.admission,
        {"admitted": AdmissionRefusal("can't create Pod x: no")},
        "fail",
        "can't create Pod x: no",
        "ask the namespace's administrator",
    ),
    (
        access.admission,
        {"admitted": ReadFailure("create pods", "", forbidden=True)},
        "unknown",
        "this user may not create pods",
        "assay cluster rbac SYSTEM",
    ),
    (access.constraints, {}, "ok", "not OpenShift", ""),
    (access.constraints, {"is_openshift": True}, "fail", "user ID 1000", "runAsUser: assigned"),
    (
        access.constraints,
        {"is_openshift": True, "admitted": admitted(openshift_scc="anyuid")},
        "ok",
        "the pods are admitted under anyuid",
        "",
    ),
    (
        access.constraints,
        {"is_openshift": True, "system": system(runAsUser="assigned")},
        "ok",
        "restricted-v2",
        "",
    ),
    (
        access.constraints,
        {"is_openshift": True, "system": RDMA, "constraints": {}},
        "fail",
        "may not use assay-bench",
        "assay cluster prepare",
    ),
    (
        access.constraints,
        {"is_openshift": True, "system": RDMA, "constraints": {}, "may_use_scc": True},
        "ok",
        "may use it",
        "",
    ),
    (access.account, {}, "ok", "default may neither read Secrets nor create pods", ""),
    (access.account, {"account_may": ["get secrets"]}, "warn", "may get secrets", "serviceAccountName"),
    (access.account, {"account": None}, "fail", "default does not exist", "create serviceaccount default"),
    (access.quota, {}, "ok", "none in the namespace", ""),
    (
        access.quota,
        {
            "system": WITH_GPU,
            "admitted": admitted({"requests": GPU}),
            "quotas": [quota({"requests.nvidia.com/gpu": ("8", "6")})],
        },
        "ok",
        "has 2 of 8 left, for 2 pods of one accelerator",
        "",
    ),
    (
        access.quota,
        {
            "system": WITH_GPU,
            "admitted": REFUSED,
            "quotas": [quota({"requests.nvidia.com/gpu": ("8", "8")})],
        },
        "fail",
        "has 0 of 8 left",
        "describe quota",
    ),
    (
        access.quota,
        {"admitted": REFUSED, "quotas": [quota({"requests.cpu": ("8", "0")})]},
        "fail",
        "requires requests.cpu",
        "request less",
    ),
    (
        access.quota,
        {
            "admitted": REFUSED,
            "system": system(resources={"pod": {"cpu": "2"}, "limit_cpu": False}),
            "quotas": [quota({"limits.cpu": ("8", "0"), "requests.cpu": ("8", "0")})],
        },
        "fail",
        "team requires limits.cpu, but the pods don't set it",
        "request less",
    ),
    (
        access.quota,
        {
            "admitted": admitted({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}),
            "quotas": [quota({"limits.cpu": ("8", "0"), "requests.cpu": ("8", "0")})],
        },
        "ok",  # the namespace's LimitRange has added them
        "team: limits.cpu has 8 of 8 left, for 16 pods of one accelerator; team: requests.cpu",
        "",
    ),
    (
        access.quota,
        {"admitted": REFUSED, "quotas": [quota({"pods": ("4", "4")})]},
        "fail",
        "pods has 0 of 4 left",
        "describe quota",
    ),
    (access.claims, {}, "ok", "mounts none", ""),
    (access.claims, {"claims": {"data": None}}, "fail", "data does not exist", "kubectl -n bench"),
    (
        access.claims,
        {"claims": {"data": claim("Pending")}},
        "warn",
        "Pending (storage class fast, which does not exist)",
        "describe pvc data",
    ),
    (access.claims, {"claims": {"data": claim("Bound", None)}}, "ok", "ReadWriteMany", ""),
    (
        access.claims,
        {"claims": {"data": claim("Pending")}, "storage_classes": [LATE]},
        "ok",
        "data is provisioned when its first pod is created (storage class fast, WaitForFirstConsumer)",
        "",
    ),
    (
        access.claims,
        {"claims": {"data": made_by("spectrumscale.csi.ibm.com")}, "storage_classes": [LATE]},
        "ok",
        "provisioned by spectrumscale.csi.ibm.com, storage class fast",
        "",
    ),
    (
        access.claims,
        {"claims": {"data": on_volume("gpfs-data")}},
        "ok",
        "static volume gpfs-data",
        "",
    ),
    (access.dns, {}, "ok", "1 of 1 pods in kube-system", ""),
    (
        access.dns,
        {"pods": [pod("n1", "dns-default-x", "openshift-dns", ready=False)]},
        "fail",
        "none of its 1 pods in openshift-dns is ready",
        "one worker",
    ),
    (access.dns, {"pods": []}, "unknown", "no pod with a known name", ""),
    (node_checks.usable_nodes, {}, "ok", "2 of 2", ""),
    (
        node_checks.usable_nodes,
        {"nodes": [node("n1", None, TAINT)]},
        "fail",
        "tainted nvidia.com/gpu:NoSchedule",
        "tolerations",
    ),
    (node_checks.usable_nodes, {"nodes": [node("n1", None, TAINT)], "system": TOLERANT}, "ok", "1 of 1", ""),
    (
        node_checks.usable_nodes,
        {"nodes": [node("n1", None, {"unschedulable": True})]},
        "fail",
        "cordoned",
        "uncordon",
    ),
    (
        node_checks.usable_nodes,
        {"system": system(nodeSelector={"rack": "7"})},
        "fail",
        "without label rack=7",
        "nodeSelector",
    ),
    (
        node_checks.devices,
        {"system": WITH_GPU},
        "fail",
        "1 requested for one accelerator, but no node has",
        "device plugin",
    ),
    (
        node_checks.devices,
        {
            "system": WITH_GPU,
            "nodes": [gpu_node("n1"), gpu_node("n2")],
            "pods": [pod("n1", asks={"nvidia.com/gpu": "5"})],
        },
        "ok",
        "nvidia.com/gpu: 11 of 16 free on 2 nodes",
        "",
    ),
    (
        node_checks.devices,
        {"system": WITH_GPU, "nodes": [gpu_node("n1", 1)], "pods": [pod("n1", asks={"nvidia.com/gpu": "1"})]},
        "warn",
        "0 of 1 free",
        "wait",
    ),
    (
        node_checks.devices,
        {"system": WITH_GPU, "nodes": [gpu_node("n1")], "pods": FORBIDDEN},
        "unknown",
        "8 on 1 nodes; free amount: not readable: this user may not list nodes",
        "",
    ),
    (
        node_checks.devices,
        {"nodes": [node("n1", offers={"rdma/hca": "8"})]},
        "ok",
        "announced but not requested: rdma/hca",
        "",
    ),
    (
        node_checks.labels,
        {"nodes": [node("n1", offers={"nvidia.com/gpu": "8"})]},
        "warn",
        "on n1",
        "GPU feature discovery",
    ),
    (node_checks.labels, {"nodes": [gpu_node("n1"), gpu_node("n2")]}, "ok", "H100 on 2", ""),
    (node_checks.alike, {}, "ok", "all 2: kernel same", ""),
    (
        node_checks.alike,
        {"nodes": [gpu_node("n1"), gpu_node("n2", labels={"nvidia.com/cuda.driver-version.full": "580.1"})]},
        "warn",
        "nvidia.com/cuda.driver-version.full: none on 1, 580.1 on 1",
        "nodeSelector",
    ),
    (node_checks.cpu_manager, {}, "ok", "none with topology manager none on 1", ""),
    (
        node_checks.cpu_manager,
        {"system": PINNED},
        "fail",
        "pin_cpus requests exclusive CPUs",
        "cpuManagerPolicy: static",
    ),
    (
        node_checks.cpu_manager,
        {"system": PINNED, "kubelets": {"n1": STATIC}},
        "ok",
        "static with topology",
        "",
    ),
    (
        node_checks.cpu_manager,
        {"kubelets": ReadFailure("get nodes/proxy", "", forbidden=True)},
        "unknown",
        "this user may not get nodes/proxy",
        "ask an administrator to run: kubectl get --raw",
    ),
    (node_checks.server_clock, {}, "ok", "between -0.4 and +0.6 s", ""),
    (node_checks.server_clock, {"server_ahead_s": (7.2, 8.2)}, "warn", "+7.2 and +8.2 s ahead", "chronyc"),
    (node_checks.node_clocks, {}, "ok", "last reports 4.0 to 4.0 s ago", ""),
    (node_checks.node_clocks, {"read_at": NOW - 60}, "warn", "n1 is at least", "chronyc"),
    (node_checks.node_clocks, {"read_at": NOW + 300}, "warn", "last reported 304 s ago", "chronyc"),
]


@pytest.mark.parametrize(
    ("check", "but", "state", "evidence", "remedy"),
    CASES,
    ids=[f"{case[0].__name__}-{case[2]}" for case in CASES],
)
def test_a_check_says_what_it_found_and_what_mends_it(
    check: Any, but: dict[str, Any], state: str, evidence: str, remedy: str
) -> None:
    told: Check = check(seen(**but))
    assert told.state == state, told
    assert evidence in told.evidence
    assert remedy in told.remedy
    assert (told.state in ("warn", "fail")) <= bool(told.remedy)


def test_every_check_of_a_healthy_cluster_is_fine_and_each_has_a_case() -> None:
    assert [check(seen()) for check in CHECKS if check(seen()).state != "ok"] == []
    assert {case[0] for case in CASES} == set(CHECKS)


@pytest.mark.parametrize("what", ["space", "quotas", "account", "nodes", "pods", "leases", "server_ahead_s"])
def test_what_can_t_be_read_is_never_guessed(what: str) -> None:
    made = [check(seen(**{what: FORBIDDEN}, system=WITH_GPU)) for check in CHECKS]
    named = [check for check in made if "this user may not list nodes" in check.evidence]
    assert named
    assert {check.state for check in named} == {"unknown"}


@pytest.mark.parametrize(
    ("kinds", "annotations", "expected"),
    [
        ([], {}, False),
        (["SecurityContextConstraints"], {}, False),  # a definition that some operator brought
        (["SecurityContextConstraints", "PodSecurityPolicySubjectReview"], {}, True),
        (["SecurityContextConstraints"], {"openshift.io/sa.scc.uid-range": "1000700000/10000"}, True),
    ],
)
def test_openshift_is_where_its_own_server_or_its_controller_acts(
    kinds: list[str], annotations: dict[str, str], expected: bool
) -> None:
    class There:
        namespace = "bench"

        def kinds(self, api_version: str) -> dict[str, str]:
            assert api_version == "security.openshift.io/v1"
            return dict.fromkeys(kinds, "plural")

        def find(self, *_: Any, **__: Any) -> Object:
            return {"metadata": {"annotations": annotations}}

    assert is_openshift(There()) is expected  # type: ignore[arg-type]


# On a cluster


class Lab:
    """A namespace, and a system in it."""

    def __init__(self, namespace: str, folder: Path) -> None:
        self.namespace, self.folder = namespace, folder

    def doctor(self, *args: str, **options: Any) -> tuple[int, dict[str, Check]]:
        entry = {"launcher": "kubernetes", "namespace": self.namespace, "image": cluster.IMAGE, **options}
        file = self.folder / "systems.yaml"
        file.write_text(
            json.dumps({"lab": {"imagePullPolicy": "IfNotPresent", "runAsUser": "assigned", **entry}})
        )
        said = CliRunner().invoke(assay, ["doctor", "lab", "--systems", str(file), "--json", *args])
        document = json.loads(said.stdout)
        assert document["schema"] == "assay.doctor/1"
        return said.exit_code, {check["name"]: Check(**check) for check in document["checks"]}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with cluster.namespace(**{"pod-security.kubernetes.io/enforce": "restricted"}) as name:
        yield Lab(name, tmp_path)


@pytest.fixture
def as_account(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """The same, seen by the ServiceAccount that `assay cluster rbac` prints."""
    cluster.kubectl("apply", "-f", "-", stdin=as_yaml(rbac.objects("auto", lab.namespace)))
    path = kubeconfig(lab.namespace, rbac.RUNNER, lab.folder / "config")
    with monkeypatch.context() as patched:
        patched.setenv("KUBECONFIG", str(path))
        yield lab


@pytest.mark.kubernetes
@pytest.mark.slow
def test_an_administrator_is_told_all_of_a_real_cluster(lab: Lab) -> None:
    code, checks = lab.doctor()
    assert code == 0
    assert checks.pop("image").state == "unknown"
    assert {check.state for check in checks.values()} <= {"ok", "warn"}, checks
    assert "enforces restricted, and the pods meet restricted" in checks["pod security"].evidence
    assert "topology manager none" in checks["CPU manager"].evidence


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_namespaced_account_is_told_what_it_may_not_read_and_by_which_verb(as_account: Lab) -> None:
    code, checks = as_account.doctor()
    assert code == 0
    unknown = {name: check.evidence for name, check in checks.items() if check.state == "unknown"}
    assert unknown["nodes"] == "not readable: this user may not list nodes"
    assert unknown["pod security"] == "not readable: this user may not get namespaces"
    assert unknown["quota"] == "not readable: this user may not list resourcequotas"
    assert " SYSTEM" not in "".join(check.remedy for check in checks.values())
    assert "assay cluster rbac --doctor lab --systems" in checks["quota"].remedy
    assert unknown["DNS"] == "not readable: this user may not list pods in all namespaces"
    assert checks["rights"].state == "ok"
    assert checks["API server's clock"].state == "ok"


@pytest.mark.kubernetes
@pytest.mark.slow
def test_with_the_doctors_role_only_the_kubelets_stay_unread(
    lab: Lab, as_account: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("KUBECONFIG", os.environ["ASSAY_TEST_KUBECONFIG"])
        made = rbac.objects("auto", lab.namespace, doctor=True)
        cluster.kubectl("apply", "-f", "-", stdin=as_yaml(made))
    try:
        code, checks = as_account.doctor()
    finally:
        monkeypatch.setenv("KUBECONFIG", os.environ["ASSAY_TEST_KUBECONFIG"])
        name = f"{rbac.DOCTOR}-{lab.namespace}"
        cluster.kubectl("delete", "clusterrolebinding,clusterrole", name)
    assert code == 0
    assert {name for name, check in checks.items() if check.state == "unknown"} == {"CPU manager", "image"}


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_quota_a_role_and_a_claim_show_on_a_real_cluster(lab: Lab) -> None:
    space = lab.namespace
    cluster.kubectl("-n", space, "create", "quota", "small", "--hard=requests.cpu=1,pods=2")
    cluster.kubectl(
        "-n",
        space,
        "create",
        "rolebinding",
        "wide",
        "--clusterrole=edit",
        f"--serviceaccount={space}:default",
    )
    resources = {"accelerator": {"cpu": "2", "memory": "1Gi"}}
    volumes = [{"mountPath": "/data", "persistentVolumeClaim": "data"}]
    code, checks = lab.doctor(resources=resources, volumes=volumes)
    assert code == 5
    failed = {name for name, check in checks.items() if check.state == "fail"}
    assert failed == {"quota", "claims", "admission"}
    assert "exceeded quota: small" in checks["admission"].evidence
    assert "requests.cpu has 1 of 1 left, for 0 pods" in checks["quota"].evidence
    assert "get secrets, create pods" in checks["pods' account"].evidence


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "resources", "said"),
    [
        ("quota", {"pod": {"cpu": "1"}, "limit_cpu": False}, "must specify limits.cpu"),
        ("limits", {"pod": {"cpu": "2", "memory": "1Gi"}}, "maximum cpu usage per Container is 100m"),
    ],
)
def test_what_the_namespace_admits_no_pod_by_is_never_fine(
    lab: Lab, rule: str, resources: dict[str, Any], said: str
) -> None:
    if rule == "quota":
        cluster.kubectl("-n", lab.namespace, "create", "quota", "small", "--hard=limits.cpu=4")
    else:
        limits = {"limits": [{"type": "Container", "max": {"cpu": "100m"}}]}
        least = {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "tiny"}, "spec": limits}
        cluster.kubectl("-n", lab.namespace, "apply", "-f", "-", stdin=json.dumps(least))
    code, checks = lab.doctor(resources=resources)
    assert code == 5
    assert checks["admission"].state == "fail"
    assert said in checks["admission"].evidence
    assert checks["admission"].remedy
    assert checks["quota"].state == ("fail" if rule == "quota" else "ok")


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_cluster_that_has_only_openshifts_kinds_is_not_openshift(lab: Lab) -> None:
    assert "SecurityContextConstraints" in connect(None, lab.namespace).kinds("security.openshift.io/v1")
    _, checks = lab.doctor(runAsUser=1000)
    assert checks["SCC"].state == "ok"
    assert "not OpenShift" in checks["SCC"].evidence
    assert "OpenShift" not in checks["API server"].evidence


@pytest.mark.kubernetes
@pytest.mark.slow
def test_deep_tells_what_only_a_pod_can_and_leaves_nothing(
    as_account: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, checks = as_account.doctor("--deep", runAsUser=1000)
    assert checks["test pod"].state == "ok", checks["test pod"]
    assert checks["python"].state == "ok"
    assert checks["pod's clock"].state == "ok"
    assert checks["/dev/shm"].state == "ok"
    # no registry: it never comes
    monkeypatch.setattr("assay.launch.kubernetes.doctor.smoke.START_WITHIN_S", 40.0)
    _, refused = as_account.doctor("--deep", runAsUser=1000, image="assay-test/none:1")
    assert refused["test pod"].state == "fail"
    assert "image" in refused["test pod"].evidence
    monkeypatch.setenv("KUBECONFIG", os.environ["ASSAY_TEST_KUBECONFIG"])
    for what in ("jobs", "configmaps", "pods"):
        assert cluster.objects(as_account.namespace, what, "app.kubernetes.io/managed-by=assay") == []


def test_a_server_that_does_not_answer_is_one_check_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {
        "clusters": [{"name": "gone", "cluster": {"server": "https://127.0.0.1:9"}}],
        "users": [{"name": "me", "user": {"token": "none"}}],
        "contexts": [{"name": "gone", "context": {"cluster": "gone", "user": "me"}}],
        "current-context": "gone",
    }
    (tmp_path / "config").write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    monkeypatch.setattr("assay.launch.kubernetes.wire.FIRST_PATIENCE_S", 0.2)
    code, checks = Lab("bench", tmp_path).doctor()
    assert code == 5
    assert [check.name for check in checks.values()] == ["API server"]
    assert "does not respond" in checks["API server"].evidence
