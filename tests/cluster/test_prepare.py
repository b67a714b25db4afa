"""`assay cluster prepare`: what OpenShift is given, and that it is taken back without a trace."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kubernetes_cluster as cluster
from assay.cli import assay
from assay.cluster import prepare
from assay.cluster.components import Preparation
from assay.cluster.components.component import PreparationTarget
from assay.cluster.components.objects import THE_SERVERS
from assay.cluster.components.pods import Pods
from assay.errors import InputError
from assay.launch.kubernetes import client
from assay.launch.kubernetes.client import connect
from assay.launch.kubernetes.objects import pod_security
from assay.launch.kubernetes.options import KubernetesSystem
from assay.launch.kubernetes.wire import ApiError, ApiUnreachableError

OBJECTS = ["Namespace", "ServiceAccount", "SecurityContextConstraints", "Role", "RoleBinding"]


def options(**given: Any) -> KubernetesSystem:
    return KubernetesSystem.model_validate({"runAsUser": "assigned", **given})


def pods(system: KubernetesSystem, namespace: str) -> Preparation:
    return Preparation(PreparationTarget("openshift", namespace, system), (Pods(),))


def test_a_system_that_asks_for_nothing_special_needs_a_namespace_and_an_account_only() -> None:
    space, account = pod_security.openshift_objects(options(), "bench")
    assert space["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    assert account["metadata"] == {**account["metadata"], "name": "assay-ranks", "namespace": "bench"}


def test_rdma_adds_one_capability_to_what_the_strictest_constraints_allow() -> None:
    made = pod_security.openshift_objects(pod_security.with_rdma(options()), "bench")
    assert [obj["kind"] for obj in made] == OBJECTS
    constraints = made[2]
    assert constraints["allowedCapabilities"] == ["IPC_LOCK"]
    assert constraints["requiredDropCapabilities"] == ["ALL"]
    assert constraints["runAsUser"] == {"type": "MustRunAsRange"}
    allowed = {name for name, value in constraints.items() if name.startswith("allow") and value is True}
    assert allowed == set()


@pytest.mark.parametrize(
    ("given", "level", "what"),
    [
        ({}, "restricted", ()),
        ({"runAsUser": 0}, "baseline", ("a user that may be root",)),
        ({"capabilities": ["IPC_LOCK"]}, "privileged", ("capability IPC_LOCK",)),
        ({"capabilities": ["NET_BIND_SERVICE"]}, "restricted", ()),
        ({"hostNetwork": True}, "privileged", ("hostNetwork",)),
        ({"volumes": [{"mountPath": "/d", "hostPath": "/data"}]}, "privileged", ("hostPath /data",)),
        (
            {"patch": {"spec": {"hostIPC": True}}},
            "privileged",
            ("hostIPC",),
        ),
    ],
)
def test_the_pod_security_level_is_read_from_the_pod_that_is_sent(
    given: dict[str, Any], level: str, what: tuple[str, ...]
) -> None:
    spec = pod_security.pod_of(options(**given))
    assert pod_security.level(spec) == level
    assert set(what) <= {ask.what for ask in pod_security.asks(spec)}


@pytest.mark.parametrize("level", ["baseline", "restricted"])
@pytest.mark.parametrize(
    "given",
    [
        {"runAsUser": 1000},
        {"runAsUser": 0},
        {"runAsUser": "image"},
        {"capabilities": ["IPC_LOCK"]},
        {"capabilities": ["NET_BIND_SERVICE"]},
        {"capabilities": ["CHOWN"]},
        {"hostNetwork": True},
        {"volumes": [{"mountPath": "/d", "hostPath": "/tmp"}]},
        {"volumes": [{"mountPath": "/d", "emptyDir": "Disk"}]},
        {"patch": {"spec": {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}}},
    ],
    ids=str,
)
@pytest.mark.kubernetes
@pytest.mark.slow
def test_the_cluster_draws_the_same_line_between_the_levels(
    spaces: dict[str, str], level: pod_security.Level, given: dict[str, Any]
) -> None:
    spec = pod_security.pod_of(KubernetesSystem.model_validate(given))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "line"}, "spec": spec}
    there = connect(None, spaces[level])
    if pod_security.LEVELS.index(level) <= pod_security.LEVELS.index(pod_security.level(spec)):
        there.create(pod, dry_run=True)
        return
    with pytest.raises(ApiError, match="violates PodSecurity"):
        there.create(pod, dry_run=True)


@pytest.fixture(scope="module")
def spaces() -> Iterator[dict[str, str]]:
    label = "pod-security.kubernetes.io/enforce"
    with (
        cluster.namespace(**{label: "baseline"}) as baseline,
        cluster.namespace(**{label: "restricted"}) as restricted,
    ):
        yield {"baseline": baseline, "restricted": restricted}


# On a cluster


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with cluster.namespace() as name:
        made = Lab(name, tmp_path)
        yield made
        cluster.kubectl(
            "delete", "securitycontextconstraints", pod_security.scc_name(name), "--ignore-not-found"
        )


class Lab:
    """A namespace, and a system in it."""

    def __init__(self, namespace: str, folder: Path) -> None:
        self.namespace, self.file = namespace, folder / "systems.yaml"
        there = {"launcher": "kubernetes", "namespace": namespace, "runAsUser": "assigned"}
        self.file.write_text(json.dumps({"lab": there}))

    def prepare(self, *args: str) -> Result:
        asked = ["cluster", "prepare", "--for", "openshift", "lab", "--systems", str(self.file), *args]
        return CliRunner().invoke(assay, asked)

    def steps(self, *args: str) -> dict[str, str]:
        said = self.prepare("--json", "--yes", *args)
        assert said.exit_code == 0, said.exception
        return {step["called"].split()[0]: step["does"] for step in json.loads(said.output)["steps"]}

    def objects(self) -> dict[str, Any]:
        """All that a preparation touches, as it is, without what the server counts."""
        listed = json.loads(
            cluster.kubectl("-n", self.namespace, "get", "serviceaccounts,roles,rolebindings", "-o", "json")
        )["items"]
        listed.append(json.loads(cluster.kubectl("get", "namespace", self.namespace, "-o", "json")))
        constraints = cluster.kubectl(
            "get",
            "securitycontextconstraints",
            pod_security.scc_name(self.namespace),
            "-o",
            "json",
            "--ignore-not-found",
        )
        listed += [json.loads(constraints)] if constraints else []
        for obj in listed:
            for name in THE_SERVERS:
                obj["metadata"].pop(name, None)
        return {f"{obj['kind']} {obj['metadata']['name']}": obj for obj in listed}

    def settled(self) -> dict[str, Any]:
        """The same when the namespace has its own ServiceAccount, which the cluster makes a moment later."""
        while "ServiceAccount default" not in self.objects():
            time.sleep(0.05)
        return self.objects()

    def cluster(self) -> client.Cluster:
        return connect(None, self.namespace)

    def wanted(self) -> Preparation:
        return pods(pod_security.with_rdma(options()), self.namespace)


@pytest.mark.kubernetes
@pytest.mark.slow
def test_the_plan_changes_nothing_and_is_what_apply_then_does(lab: Lab) -> None:
    before = lab.settled()
    planned = lab.steps("--rdma")
    assert lab.objects() == before
    assert planned == {"Namespace": "change", **dict.fromkeys(OBJECTS[1:], "make")}
    assert lab.steps("--rdma", "--apply") == planned
    after = lab.objects()
    assert after[f"SecurityContextConstraints assay-{lab.namespace}"]["allowedCapabilities"] == ["IPC_LOCK"]


@pytest.mark.kubernetes
@pytest.mark.slow
def test_applying_twice_is_once_and_revert_restores_what_was_there(lab: Lab) -> None:
    cluster.kubectl("-n", lab.namespace, "create", "serviceaccount", "assay-ranks")
    cluster.kubectl("-n", lab.namespace, "annotate", "serviceaccount", "assay-ranks", "owner=somebody")
    cluster.kubectl("label", "namespace", lab.namespace, "team=physics")
    before = lab.settled()
    lab.steps("--rdma", "--apply")
    after = lab.objects()
    assert lab.steps("--rdma", "--apply") == dict.fromkeys(OBJECTS, "keep")
    assert lab.objects() == after != before
    undone = lab.steps("--revert")
    assert (undone["Namespace"], undone["Role"]) == ("restore", "delete")
    assert "ServiceAccount" not in undone  # nothing had to be added to it, so it was left alone
    assert lab.objects() == before
    assert lab.steps("--revert") == {}


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_field_of_another_manager_stops_it_before_anything_is_changed(lab: Lab) -> None:
    label = "pod-security.kubernetes.io/enforce"
    cluster.kubectl("label", "--field-manager=the-admin", "namespace", lab.namespace, f"{label}=baseline")
    before = lab.settled()
    assert lab.steps("--rdma")["Namespace"] == "conflict"
    said = lab.prepare("--rdma", "--apply", "--yes")
    assert isinstance(said.exception, InputError)
    assert f'.metadata.labels.{label}: conflict with "the-admin"' in str(said.exception)
    assert lab.objects() == before


@pytest.mark.kubernetes
@pytest.mark.slow
def test_an_equal_field_is_shared_with_its_owner_and_stays_when_it_is_reverted(lab: Lab) -> None:
    label = "pod-security.kubernetes.io/enforce=privileged"
    cluster.kubectl("label", "--field-manager=the-admin", "namespace", lab.namespace, label)
    before = lab.settled()
    lab.steps("--rdma", "--apply")
    lab.steps("--revert")
    assert lab.objects() == before


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.parametrize("interrupted_at", range(1, 5))
def test_an_interrupted_apply_is_reverted_or_completed(
    lab: Lab, interrupted_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lab.settled()
    real, done = client.Cluster.apply, 0

    def breaks(self: client.Cluster, obj: client.Object, **how: bool) -> client.Object:
        nonlocal done
        if not how.get("dry_run"):
            if done == interrupted_at:
                raise ApiUnreachableError("the network is gone")
            done += 1
        return real(self, obj, **how)

    with monkeypatch.context() as patched:
        patched.setattr(client.Cluster, "apply", breaks)
        with pytest.raises(ApiUnreachableError):
            prepare.apply(lab.cluster(), lab.wanted())
    assert lab.objects() != before
    prepare.revert(lab.cluster())
    assert lab.objects() == before
    with monkeypatch.context() as patched:
        done = 0
        patched.setattr(client.Cluster, "apply", breaks)
        with pytest.raises(ApiUnreachableError):
            prepare.apply(lab.cluster(), lab.wanted())
    prepare.apply(lab.cluster(), lab.wanted())
    assert [step.does for step in prepare.plan(lab.cluster(), lab.wanted())] == ["keep"] * 5
    prepare.revert(lab.cluster())
    assert lab.objects() == before


@pytest.mark.kubernetes
@pytest.mark.slow
def test_what_is_no_longer_asked_for_is_taken_back(lab: Lab) -> None:
    lab.steps("--rdma", "--apply")
    taken = dict.fromkeys(OBJECTS[2:], "delete")
    assert lab.steps("--apply") == {"Namespace": "change", "ServiceAccount": "keep", **taken}
    assert not any(name.startswith("Security") for name in lab.objects())


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_namespace_that_was_made_goes_unless_it_holds_something(lab: Lab) -> None:
    name = f"{lab.namespace}-made"
    there = connect(None, name)
    try:
        prepare.apply(there, pods(options(), name))
        cluster.kubectl(
            "-n", name, "run", "work", f"--image={cluster.IMAGE}", "--overrides", json.dumps(RESTRICTED)
        )
        (held,) = (step for step in prepare.revert(there) if step.does == "stays")
        assert "1 pods" in held.about[0]
        cluster.kubectl("-n", name, "delete", "pod", "work", "--grace-period=0", "--force")
        cluster.kubectl("delete", "namespace", name)
        prepare.apply(there, pods(options(), name))
        assert [step.does for step in prepare.revert(there)] == ["delete", "delete"]
        cluster.kubectl("wait", "--for=delete", f"namespace/{name}", "--timeout=60s")
    finally:
        cluster.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")


RESTRICTED = {
    "spec": {
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 1000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [
            {
                "name": "work",
                "image": cluster.IMAGE,
                "command": ["sleep", "60"],
                "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            }
        ],
    }
}


@pytest.mark.kubernetes
@pytest.mark.disruptive  # by others: their tests bring Kueue's definitions and take them away
def test_an_operator_that_is_there_is_not_to_be_installed_first(lab: Lab) -> None:
    """The cluster, which has some of OpenShift's kinds, is recognised as Kubernetes."""
    options = ["--systems", str(lab.file), "--part", "jobset", "--part", "kueue"]
    entry = json.loads(lab.file.read_text())
    entry["lab"]["prepare"] = {"kueue": {"queue": "q", "quota": {"cpu": "4"}}}
    lab.file.write_text(json.dumps(entry))
    said = CliRunner().invoke(assay, ["cluster", "prepare", "lab", *options])
    assert said.exit_code == 0, said.output
    assert "JobSet is present: the cluster has JobSet of jobset.x-k8s.io/v1alpha2" in said.output
    assert "first, JobSet" not in said.output
    assert "first, Kueue" in said.output
    told = CliRunner().invoke(assay, ["cluster", "prepare", "lab", *options, "--json"])
    assert json.loads(told.output)["platform"] == "kubernetes"
    checked = CliRunner().invoke(assay, ["cluster", "prepare", "lab", *options, "--check"])
    assert "SYSTEM" not in checked.output
