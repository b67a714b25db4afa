"""The rights that `assay cluster rbac` prints: a run works with them, and not with one of them less."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

import kubernetes_cluster as cluster
from assay import launch
from assay.cli import assay as assay_group
from assay.errors import LaunchError
from assay.launch.kubernetes.client import Cluster, connect
from assay.launch.kubernetes.launcher import KubernetesLauncher
from assay.launch.kubernetes.objects import rbac
from assay.launch.kubernetes.objects.kinds import KINDS
from assay.launch.kubernetes.objects.manifests import as_yaml, render
from assay.launch.kubernetes.objects.order import LABEL_TOKEN, labels_of
from assay.launch.kubernetes.objects.pod_security import pod_of
from assay.launch.kubernetes.objects.rbac import Right, needed
from assay.launch.kubernetes.options import KubernetesSystem
from assay.records import Job, RunState, Shape, Task
from cli_contract import runs
from conftest import long_but

PATIENCE_S = 180
SUITE = """
import json, os, time
import numpy as np
a = np.random.rand(256, 256)
began = time.perf_counter()
for _ in range(20):
    a @ a
print("flops:", 20 * 2 * 256**3 / (time.perf_counter() - began))
"""


def kubeconfig(namespace: str, account: str, path: Path) -> Path:
    """A kubeconfig of exactly this ServiceAccount, by a token that the cluster made for it."""
    admin = json.loads(cluster.kubectl("config", "view", "--minify", "--raw", "-o", "json"))
    token = cluster.kubectl("-n", namespace, "create", "token", account, "--duration", "1h").strip()
    context = {"cluster": "there", "user": account, "namespace": namespace}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "there", "cluster": admin["clusters"][0]["cluster"]}],
        "users": [{"name": account, "user": {"token": token}}],
        "contexts": [{"name": account, "context": context}],
        "current-context": account,
    }
    path.write_text(json.dumps(config))
    return path


class Account:
    """A namespace with Pod Security `restricted`, and the ServiceAccount of `assay cluster rbac` in it."""

    def __init__(self, namespace: str, folder: Path) -> None:
        self.namespace, self.folder = namespace, folder
        self.admin = os.environ["KUBECONFIG"]
        self.apply(rbac.objects("auto", namespace))
        self.config = kubeconfig(namespace, rbac.RUNNER, folder / "config")

    def apply(self, objects: list[dict[str, Any]]) -> None:
        cluster.kubectl("--kubeconfig", self.admin, "apply", "-f", "-", stdin=as_yaml(objects))

    def grant(self, rights: list[Right]) -> None:
        """Exactly these, and wait until the cluster's authorizer knows."""
        _, role, _ = rbac.objects("auto", self.namespace)
        self.apply([{**role, "rules": rbac.rules(rights)}])
        give_up = time.monotonic() + 20
        for right in needed("auto"):
            while self.may(right) != (right in rights):
                assert time.monotonic() < give_up, f"{right} did not change"
                time.sleep(0.05)

    def may(self, right: Right) -> bool:
        """What the API server says that the account may; KUBECONFIG is the account's."""
        name, _, sub = right.resource.partition("/")
        return self.api().may(right.verb, name, group=right.group, sub=sub)

    def api(self) -> Cluster:
        return connect(None, self.namespace)

    def pod_on_a_dead_node(self, token: str) -> None:
        """A pod of this job as the cluster shows it when its node no longer answers."""
        name, mine = f"lost-{token[:8]}", labels_of(token)
        metadata = {"name": name, "namespace": self.namespace, "labels": mine}
        spec = {**pod_of(cluster.system(self.namespace)), "nodeName": "no-such-node", "volumes": []}
        spec["containers"][0]["volumeMounts"] = []
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        self.apply([pod])
        told = {"ContainersReady": "True", "Ready": "False"}
        status = {"phase": "Running", "conditions": [{"type": t, "status": s} for t, s in told.items()]}
        cluster.kubectl(
            "--kubeconfig", self.admin, "-n", self.namespace, "patch", "pod", name,
            "--subresource=status", "--type=merge", "-p", json.dumps({"status": status}),
        )  # fmt: skip

    def launcher(self, spool: Path, **options: Any) -> KubernetesLauncher:
        made = launch.make("kubernetes", cluster.system(self.namespace, grace=0.5, **options), spool=spool)
        assert isinstance(made, KubernetesLauncher)
        return made


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Account]:
    with cluster.namespace(**{"pod-security.kubernetes.io/enforce": "restricted"}) as name:
        yield Account(name, tmp_path_factory.mktemp("account"))


@pytest.fixture
def as_account(account: Account, monkeypatch: pytest.MonkeyPatch) -> Account:
    monkeypatch.setenv("KUBECONFIG", str(account.config))
    return account


def write(folder: Path, namespace: str) -> Path:
    program = {"argv": ["{python}", "-c", SUITE]}
    metric = {"pattern": "flops: (?P<value>[0-9.e+]+)", "unit": "FLOP/s", "better": "higher"}
    suite = {
        "suite": "least",
        "workload": "command",
        "params": {**program, "metrics": {"flops": metric}},
        "systems": ["there"],
        "shapes": ["1x1", "2x1"],
        "repeats": 1,
    }
    there = {
        "launcher": "kubernetes",
        "namespace": namespace,
        "image": cluster.IMAGE,
        "imagePullPolicy": "IfNotPresent",
    }
    (folder / "suite.yaml").write_text(json.dumps(suite))
    (folder / "systems.yaml").write_text(json.dumps({"there": there}))
    return folder / "suite.yaml"


def job(argv: tuple[str, ...] = ("{python}", "-c", "import time; time.sleep(300)")) -> Job:
    return Job(uuid.uuid4().hex, "trial-1x1-r01", Shape(1, 1), Task(argv), 1, 120.0)


def run(suite: Path) -> subprocess.CompletedProcess[str]:
    return assay("run", str(suite), "--runs", str(suite.parent / "runs"))


def validate(suite: Path) -> subprocess.CompletedProcess[str]:
    return assay("plan", str(suite), "--show", "command-1x1-r01", "--validate")


def assay(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from assay.cli import main; main()", *args],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def rights(*when: str) -> list[Right]:
    return [right for right in needed("auto") if right.when in when]


def without(right: Right) -> list[Right]:
    return [other for other in needed("auto") if other != right]


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_whole_suite_runs_under_the_printed_service_account_in_a_restricted_namespace(
    as_account: Account, tmp_path: Path
) -> None:
    as_account.grant(list(needed("auto")))
    ended = run(write(tmp_path, as_account.namespace))
    assert ended.returncode == 0, ended.stderr
    assert [run.state for run in runs(tmp_path)] == [RunState.FINISHED] * 2


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.parametrize("right", long_but(1, rights("run")), ids=str)
def test_a_run_without_one_of_the_rights_names_it_and_fails_unless_it_only_leaves_something_behind(
    as_account: Account, tmp_path: Path, right: Right
) -> None:
    as_account.grant(without(right))
    ended = run(write(tmp_path, as_account.namespace))
    assert (ended.returncode != 0) == (right.verb != "delete"), ended.stdout + ended.stderr
    assert named(right) in ended.stdout + ended.stderr


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.parametrize("right", long_but(1, rights("waits")), ids=str)
def test_a_job_that_waits_can_t_be_followed_without_the_right_to_see_why(
    as_account: Account, tmp_path: Path, right: Right
) -> None:
    as_account.grant(without(right))
    launcher = as_account.launcher(tmp_path, nodeSelector={"example.test/no": "such-node"})
    handle = launcher.submit(job())
    with pytest.raises(LaunchError, match=named(right)):
        list(launcher.follow(handle, {}))
    launcher.cancel(handle)
    launcher.forget(handle)


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.parametrize("right", long_but(1, rights("end")), ids=str)
def test_a_job_can_t_be_ended_without_the_right_to_see_it(
    as_account: Account, tmp_path: Path, right: Right
) -> None:
    as_account.grant(list(needed("auto")))
    launcher = as_account.launcher(tmp_path)
    handle = launcher.submit(job())
    as_account.grant(without(right))
    with pytest.raises(LaunchError, match=named(right)):
        launcher.cancel(handle)
    as_account.grant(list(needed("auto")))
    launcher.cancel(handle)
    launcher.forget(handle)


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.parametrize("right", long_but(1, rights("adopt")), ids=str)
def test_a_job_can_t_be_adopted_without_the_right_to_find_it(
    as_account: Account, tmp_path: Path, right: Right
) -> None:
    as_account.grant(without(right))
    with pytest.raises(LaunchError, match=named(right)):
        as_account.launcher(tmp_path).find(job().token)


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.parametrize("right", long_but(1, rights("node lost")), ids=str)
def test_a_pod_of_a_lost_node_can_t_be_struck_off_without_the_right_to(
    as_account: Account, tmp_path: Path, right: Right
) -> None:
    as_account.grant(without(right))
    launcher = as_account.launcher(tmp_path)
    handle = launcher.submit(job())
    as_account.pod_on_a_dead_node(handle.token)
    with pytest.raises(LaunchError, match=named(right)):
        launcher.cancel(handle)
    as_account.grant(list(needed("auto")))
    launcher.cancel(handle)
    assert cluster.objects(as_account.namespace, "pods", f"{LABEL_TOKEN}={handle.token}") == []
    launcher.forget(handle)


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.parametrize("right", long_but(1, rights("clean")), ids=str)
def test_what_runs_left_can_t_be_cleaned_without_the_right_to(
    as_account: Account, tmp_path: Path, right: Right
) -> None:
    as_account.grant(list(needed("auto")))
    launcher = as_account.launcher(tmp_path)
    handle = launcher.submit(replace(job(), shape=Shape(2, 1)))  # with a Service
    as_account.grant(without(right))
    if right.group and right.resource not in known(as_account.api(), right.group):
        assert handle.token in {
            left.token for left in launcher.leftovers()
        }  # of kinds that a cluster lacks nothing can be left
    else:
        with pytest.raises(LaunchError, match=named(right)):
            launcher.discard([handle.token])
    as_account.grant(list(needed("auto")))
    launcher.discard([handle.token])
    assert handle.token not in {left.token for left in launcher.leftovers()}


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.parametrize("right", long_but(1, rights("validate")), ids=str)
def test_a_plan_can_t_be_validated_without_the_right_to(
    as_account: Account, tmp_path: Path, right: Right
) -> None:
    suite = write(tmp_path, as_account.namespace)
    as_account.grant(list(needed("auto")))
    assert validate(suite).returncode == 0
    as_account.grant(without(right))
    refused = validate(suite)
    assert refused.returncode != 0
    assert named(right) in refused.stdout + refused.stderr


def known(api: Cluster, group: str) -> list[str]:
    """Plurals of what this cluster has of a group, in any version."""
    versions = api.groups().get(group, ())
    return [plural for version in versions for plural in api.kinds(f"{group}/{version}").values()]


def named(right: Right) -> str:
    """How the API server names a right that is missing."""
    return f'cannot {right.verb} resource "{right.resource}"'


def test_every_object_that_a_kind_renders_may_be_created() -> None:
    for name, kind in KINDS.items():
        shape = Shape(1 if name == "pod" else 2, 1)
        made = render(
            Job("token", "trial", shape, Task(("true",), image="image"), 1, 60.0),
            KubernetesSystem.model_validate({"kind": name}),
            kind,
        )
        allowed = {(right.group, right.resource) for right in needed(name) if right.verb == "create"}
        for obj in made.objects:
            assert (obj["apiVersion"].rpartition("/")[0], f"{obj['kind'].lower()}s") in allowed


def test_nothing_but_what_the_flag_asks_for_is_cluster_wide() -> None:
    assert [obj["kind"] for obj in rbac.objects("auto", "bench")] == ["ServiceAccount", "Role", "RoleBinding"]
    with_doctor = rbac.objects("auto", "bench", doctor=True)
    (wide,) = (obj for obj in with_doctor if obj["kind"] == "ClusterRole")
    assert {verb for rule in wide["rules"] for verb in rule["verbs"]} == {"get", "list"}
    assert "nodes/proxy" not in json.dumps(wide)


def test_the_command_prints_what_kubectl_takes(tmp_path: Path) -> None:
    systems = tmp_path / "systems.yaml"
    systems.write_text("lab: {launcher: kubernetes, namespace: bench, kind: jobset}\n")
    said = CliRunner().invoke(assay_group, ["cluster", "rbac", "lab", "--systems", str(systems)])
    assert said.exit_code == 0
    assert list(YAML(typ="safe").load_all(said.output)) == rbac.objects("jobset", "bench")
    told = CliRunner().invoke(assay_group, ["cluster", "rbac", "lab", "--systems", str(systems), "--json"])
    assert {"verb": "create", "resource": "jobsets"}.items() <= json.loads(told.output)["rights"][3].items()
