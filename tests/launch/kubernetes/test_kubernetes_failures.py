"""What goes wrong on a cluster, made to happen for real: it is told while it happens, with what to do."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import kubernetes_cluster as cluster
from assay.errors import LaunchError
from assay.records import Extent, JobState
from assay.testing.launchers import job, python
from conftest import long_but
from kubernetes_trial import AT_ONCE_S, FOR_EVER, Trial, assert_final, launcher, left

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    with cluster.namespace() as name:
        yield name


VOLUME = {"mountPath": "/data"}
FINAL: dict[str, tuple[dict[str, Any], list[str]]] = {
    "an image name that is none": (
        {"image": "Not/An:Image:Name"}, ["name is invalid", "InvalidImageName", "registry/name:tag"]),
    "an image that is not to be pulled": (
        {"image": "assay-test/absent:1", "imagePullPolicy": "Never"},
        ["not on the node", "ErrImageNeverPull", "imagePullPolicy"]),
    "no such interpreter": (
        {"python": "/no/such/python"}, ["has no program /no/such/python", "`python`"]),
    "no such ConfigMap": (
        {"volumes": [{**VOLUME, "configMap": "absent"}]}, ["configmap absent, which", "namespace"]),
    "no such Secret": (
        {"volumes": [{**VOLUME, "secret": "absent"}]}, ["secret absent, which"]),
    "no such Secret for a variable": (
        {"envFromSecret": {"PASSWORD": "absent/key"}}, ["secret absent does not exist"]),
    "no such claim": (
        {"volumes": [{**VOLUME, "persistentVolumeClaim": "absent"}]}, ["claim absent does not exist"]),
    "no such path on the node": (
        {"volumes": [{**VOLUME, "hostPath": "/absent/path"}]}, ["/absent/path is missing on the node"]),
    "no such service account": (
        {"serviceAccountName": "absent"}, ["service account absent does not exist"]),
    "no such priority class": (
        {"priorityClassName": "absent"}, ["priority class absent does not exist"]),
    "no such runtime class": (
        {"runtimeClassName": "absent"}, ["runtime class absent does not exist"]),
}  # fmt: skip


@pytest.mark.parametrize("name", long_but(5, list(FINAL)))
def test_what_no_waiting_mends_ends_the_trial_at_once(name: str, namespace: str, tmp_path: Path) -> None:
    options, words = FINAL[name]
    assert assert_final(namespace, tmp_path, options, words).extent is Extent.SYSTEM


def test_a_resource_that_no_node_has_is_named_while_the_trial_waits(namespace: str, tmp_path: Path) -> None:
    asked = {"resources": {"accelerator": {"assay.test/absent": 4}}, "start_timeout": 6}
    trial = Trial(launcher(namespace, tmp_path, **asked), job(FOR_EVER, timeout_s=600))
    status = trial.to_end()
    assert "Insufficient assay.test/absent" in trial.waited[0]
    assert status.state is JobState.FAILED
    assert "Insufficient assay.test/absent" in status.cause
    assert "start_timeout" in status.cause
    assert left(namespace, trial.asked.token) == []


def test_a_label_that_no_node_has_is_waited_for_until_one_has_it(namespace: str, tmp_path: Path) -> None:
    placing = launcher(namespace, tmp_path, nodeSelector={"assay.test/label": namespace})
    trial = Trial(placing, job(python("print(1)")))
    trial.follow_until(lambda t: any("node affinity/selector" in why for why in t.waited))
    node = nodes()[0]
    cluster.kubectl("label", "node", node, f"assay.test/label={namespace}")
    try:
        status = trial.to_end()
        if "rejected" in status.cause:  # by a busy node that had not heard of its label: a run tries it again
            status = Trial(placing, job(python("print(1)"))).to_end()
        assert status.state is JobState.SUCCEEDED, status.cause
    finally:
        cluster.kubectl("label", "node", node, "assay.test/label-")


def test_a_pod_that_its_node_rejects_is_told_as_the_clusters_fault(namespace: str, tmp_path: Path) -> None:
    placed = {"nodeSelector": {"assay.test/label": "absent"}, "patch": {"spec": {"nodeName": nodes()[0]}}}
    trial = Trial(launcher(namespace, tmp_path, **placed), job(FOR_EVER))
    status = trial.to_end()
    assert status.state is JobState.LOST
    assert "was assigned to a node that then rejected it" in status.cause
    assert "NodeAffinity" in status.cause


def test_a_taint_is_named(namespace: str, tmp_path: Path) -> None:
    with tainted_node(namespace) as label:
        trial = Trial(launcher(namespace, tmp_path, nodeSelector=label), job(FOR_EVER))
        trial.follow_until(lambda t: any("untolerated taint" in why for why in t.waited))
        print(trial.waited)
        trial.launcher.cancel(trial.handle)
        assert trial.to_end().state is JobState.CANCELLED


def nodes() -> list[str]:
    """Those that any pod may be put on."""
    found = cluster.objects("default", "nodes")
    return sorted(node["metadata"]["name"] for node in found if not node["spec"].get("taints"))


@contextmanager
def tainted_node(name: str) -> Iterator[dict[str, str]]:
    """A node that nothing runs on, with a taint; its own label."""
    label = {"assay.test/tainted": name}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": label}}
    node["spec"] = {"taints": [{"key": "assay.test/keep-off", "effect": "NoSchedule"}]}
    node["status"] = {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(node))
    try:
        yield label
    finally:
        cluster.kubectl("delete", "node", name)


def test_a_claim_without_storage_is_waited_for(namespace: str, tmp_path: Path) -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "unbound"},
        "spec": {
            "storageClassName": "absent",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    cluster.kubectl("-n", namespace, "create", "-f", "-", stdin=json.dumps(claim))
    volume = {**VOLUME, "persistentVolumeClaim": "unbound"}
    trial = Trial(launcher(namespace, tmp_path, volumes=[volume]), job(FOR_EVER))
    trial.follow_until(lambda t: any("PersistentVolumeClaim" in why for why in t.waited))
    print(trial.waited)
    trial.launcher.cancel(trial.handle)
    assert trial.to_end().state is JobState.CANCELLED


def test_a_full_quota_is_waited_for_until_there_is_room(tmp_path: Path) -> None:
    with cluster.namespace() as own:
        cluster.kubectl("-n", own, "create", "quota", "narrow", "--hard=pods=1")
        cluster.fill(own)
        trial = Trial(launcher(own, tmp_path), job(python("print(1)")))
        trial.follow_until(lambda t: any("quota narrow" in why and "pods=1" in why for why in t.waited))
        cluster.kubectl("-n", own, "delete", "quota", "narrow")
        assert trial.to_end(60.0).state is JobState.SUCCEEDED


def test_a_quota_that_no_pod_fits_is_told_at_once(tmp_path: Path) -> None:
    with cluster.namespace() as own:
        cluster.kubectl("-n", own, "create", "quota", "narrow", "--hard=requests.memory=100Mi")
        asked = {"resources": {"pod": {"memory": "1Gi"}}}
        end = assert_final(own, tmp_path, asked, ["quota narrow", "allows less than one pod requests"])
        assert end.extent is Extent.SHAPE


def test_a_quota_that_wants_limits_is_told_at_once(tmp_path: Path) -> None:
    with cluster.namespace() as own:
        cluster.kubectl("-n", own, "create", "quota", "stated", "--hard=limits.memory=8Gi")
        assert_final(own, tmp_path, {}, ["quota stated", "limits.memory", "resources"])


def test_a_limit_range_is_told_at_once(tmp_path: Path) -> None:
    limit = {"type": "Container", "max": {"memory": "100Mi"}}
    limits = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "small"},
        "spec": {"limits": [limit]},
    }
    with cluster.namespace() as own:
        cluster.kubectl("-n", own, "create", "-f", "-", stdin=json.dumps(limits))
        asked = {"resources": {"pod": {"memory": "1Gi"}}}
        assert_final(own, tmp_path, asked, ["limit range", "maximum memory usage per Container is 100Mi"])


def test_pod_security_is_told_at_once(tmp_path: Path) -> None:
    with cluster.namespace(**{"pod-security.kubernetes.io/enforce": "restricted"}) as own:
        asked = {"volumes": [{**VOLUME, "hostPath": "/tmp"}]}
        assert_final(own, tmp_path, asked, ["Pod Security restricted", "hostPath", "remove what"])


def test_an_admission_policy_is_told_at_once(tmp_path: Path) -> None:
    with cluster.namespace() as own, admission_policy(own, "no benchmarks on weekdays"):
        assert_final(own, tmp_path, {}, [f"policy {own}", "no benchmarks on weekdays"])


@contextmanager
def admission_policy(namespace: str, message: str) -> Iterator[None]:
    """No pod is admitted into the namespace."""
    group = "admissionregistration.k8s.io/v1"
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    where = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    policy = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": namespace},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [pods], "namespaceSelector": where},
            "validations": [{"expression": "false", "message": message}],
        },
    }
    binding = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": namespace},
        "spec": {"policyName": namespace, "validationActions": ["Deny"]},
    }
    for obj in (policy, binding):
        cluster.kubectl("create", "-f", "-", stdin=json.dumps(obj))
    try:
        until_refused(namespace, message)
        yield
    finally:
        for kind in ("validatingadmissionpolicybinding", "validatingadmissionpolicy"):
            cluster.kubectl("delete", kind, namespace)


def until_refused(namespace: str, words: str) -> None:
    """Wait until the API server refuses a pod with these words: its rules take a moment to hold."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "trial-"}}
    pod["spec"] = {"containers": [{"name": "c", "image": cluster.IMAGE}]}
    argv = ["kubectl", "-n", namespace, "create", "--dry-run=server", "-f", "-"]
    give_up = time.monotonic() + AT_ONCE_S
    while time.monotonic() < give_up:
        done = subprocess.run(argv, input=json.dumps(pod), capture_output=True, text=True, check=False)
        if words in done.stderr:
            return
        time.sleep(0.2)
    pytest.fail(f"the rule does not hold: {done.stderr}")


def test_a_webhook_that_does_not_answer_is_waited_for(tmp_path: Path) -> None:
    with cluster.namespace() as own:
        with dead_webhook(own):
            trial = Trial(launcher(own, tmp_path), job(python("print(1)")))
            trial.follow_until(lambda t: any("does not respond" in why for why in t.waited))
            print(trial.waited)
        assert trial.to_end(60.0).state is JobState.SUCCEEDED


@contextmanager
def dead_webhook(namespace: str) -> Iterator[None]:
    """Nobody answers where the API server is to ask before it takes a pod."""
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    hook = {
        "name": "guard.assay.test",
        "clientConfig": {"url": "https://127.0.0.1:9/"},
        "rules": [pods],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 2,
    }
    obj = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": namespace},
        "webhooks": [hook],
    }
    cluster.kubectl("create", "-f", "-", stdin=json.dumps(obj))
    try:
        until_refused(namespace, "failed calling webhook")
        yield
    finally:
        cluster.kubectl("delete", "validatingwebhookconfiguration", namespace)


def test_an_operator_that_is_not_installed_is_named(namespace: str, tmp_path: Path) -> None:
    with pytest.raises(LaunchError, match=r"PyTorchJob.*not installed"):
        launcher(namespace, tmp_path, kind="pytorchjob").submit(job(FOR_EVER))


HOG = python("import time; print('up', flush=True); held = bytearray(400 << 20); time.sleep(600)")


def test_a_rank_that_needs_more_memory_than_the_limit_is_told_as_memory(
    namespace: str, tmp_path: Path
) -> None:
    asked = {"resources": {"pod": {"memory": "128Mi"}}}
    assert_final(namespace, tmp_path, asked, ["out of memory", "128 MiB", "rank 0"], argv=HOG)


def test_a_container_that_is_killed_for_want_of_memory_is_told_with_its_limit(
    namespace: str, tmp_path: Path
) -> None:
    hog = ["python3", "-c", "held = bytearray(400 << 20)"]
    asked = {
        "resources": {"pod": {"memory": "128Mi"}},
        "patch": {"spec": {"containers": [{"name": "ranks", "command": hog}]}},
    }
    assert_final(namespace, tmp_path, asked, ["more memory than its limit", "128Mi", "raise `memory`"])


def test_a_pod_that_writes_more_than_it_may_is_told_as_that(namespace: str, tmp_path: Path) -> None:
    asked = {"volumes": [{**VOLUME, "emptyDir": "Disk", "sizeLimit": "1Mi"}]}
    code = (
        "import time; print('up', flush=True); open('/data/x', 'wb').write(bytes(50 << 20)); time.sleep(600)"
    )
    assert_final(
        namespace,
        tmp_path,
        asked,
        ["wrote more than its limit", "volume-0", "1Mi", "sizeLimit"],
        argv=python(code),
        patience_s=120,
    )


def test_a_deadline_of_the_platform_is_told(namespace: str, tmp_path: Path) -> None:
    asked = {"patch": {"spec": {"activeDeadlineSeconds": 4}}}
    assert_final(namespace, tmp_path, asked, ["deadline"])


def test_a_pod_that_has_to_make_room_is_told_as_preempted(namespace: str, tmp_path: Path) -> None:
    with ExitStack() as there:
        node = there.enter_context(own_resource(namespace))
        for name, value in (("low", 1), ("high", 1000)):
            there.enter_context(priority_class(f"{namespace}-{name}", value))
        one = {"resources": {"pod": {f"assay.test/{namespace}": 1}}}
        low = launcher(namespace, tmp_path / "low", priorityClassName=f"{namespace}-low", **one)
        trial = Trial(low, job(FOR_EVER, timeout_s=600))
        trial.follow_until(lambda t: b"up" in t.printed)
        high = launcher(namespace, tmp_path / "high", priorityClassName=f"{namespace}-high", **one)
        other = Trial(high, job(python("print(1)")))
        status = trial.to_end()
        print(node, status.cause)
        assert (status.state, "make room" in status.cause) == (JobState.LOST, True)
        assert other.to_end().state is JobState.SUCCEEDED


@contextmanager
def own_resource(name: str) -> Iterator[str]:
    """A node that announces one of a resource that no other has."""
    node = nodes()[0]
    where = f"/status/capacity/assay.test~1{name}"
    patch = ["patch", "node", node, "--subresource=status", "--type=json", "-p"]
    cluster.kubectl(*patch, json.dumps([{"op": "add", "path": where, "value": "1"}]))
    try:
        yield str(node)
    finally:
        cluster.kubectl(*patch, json.dumps([{"op": "remove", "path": where}]))


@contextmanager
def priority_class(name: str, value: int) -> Iterator[None]:
    cluster.kubectl("create", "priorityclass", name, f"--value={value}")
    try:
        yield
    finally:
        cluster.kubectl("delete", "priorityclass", name)
