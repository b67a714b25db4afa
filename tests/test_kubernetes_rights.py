"""The rights that `assay cluster rbac` prints: a run works with them, and not with one of them less."""

from __future__ import annotations

import json
import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

import kubernetes_cluster as cluster
from assay import launch
from assay.cli import assay as assay_group
from assay.cluster import rbac
from assay.cluster.rbac import Right, needed
from assay.launch.kubernetes.kinds import KINDS
from assay.launch.kubernetes.launcher import KubernetesLauncher
from assay.launch.kubernetes.manifests import as_yaml, render
from assay.launch.kubernetes.options import KubernetesSystem
from assay.records import Job, RunState, Shape, Task
from cli_contract import assay, runs

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
        name, _, sub = right.resource.partition("/")
        asked = [right.verb, f"{name}.{right.group}" if right.group else name]
        asked += ["--subresource", sub] if sub else []
        told = subprocess.run(
            ["kubectl", "--kubeconfig", str(self.config), "-n", self.namespace, "auth", "can-i", *asked],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return told.stdout.strip() == "yes"

    def launcher(self, spool: Path) -> KubernetesLauncher:
        made = launch.make("kubernetes", cluster.system(self.namespace, grace=0.5), spool=spool)
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


RUN = [right for right in needed("auto") if right.when == "run"]


@pytest.mark.kubernetes
@pytest.mark.slow
def test_a_whole_suite_runs_under_the_printed_service_account_in_a_restricted_namespace(
    as_account: Account, tmp_path: Path
) -> None:
    as_account.grant(list(needed("auto")))
    with assay(write(tmp_path, as_account.namespace)) as running:
        said, error = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 0, error
    assert [run.state for run in runs(tmp_path)] == [RunState.FINISHED] * 2
    assert "FLOP/s" in said + error


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.parametrize("right", RUN, ids=str)
def test_a_run_without_one_of_the_rights_fails_and_names_it(
    as_account: Account, tmp_path: Path, right: Right
) -> None:
    as_account.grant([other for other in needed("auto") if other != right])
    with assay(write(tmp_path, as_account.namespace)) as running:
        said, error = running.communicate(timeout=PATIENCE_S)
    assert running.returncode != 0, said + error
    assert f'cannot {right.verb} resource "{right.resource}"' in said + error


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
