"""`assay plan --show` and `--validate` on Kubernetes: the very manifest, and what a server says of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

import kubernetes_cluster as cluster
from assay import cli
from assay.errors import InputError, LaunchError

TRIAL = "membw-2x1-r01"


def assay(*arguments: object) -> Result:
    return CliRunner().invoke(cli.assay, [str(a) for a in arguments])


def suite(directory: Path, system: str) -> Path:
    path = directory / "suite.yaml"
    path.write_text("suite: demo\nworkload: membw\nrepeats: 1\nshapes: [2x1]\nsystems: [lab]\n")
    path.with_name("systems.yaml").write_text(f"lab: {{{system}}}\n")
    return path


def test_the_dry_run_is_the_manifest_alone_as_kubectl_takes_it(tmp_path: Path) -> None:
    asked = suite(tmp_path, "launcher: kubernetes, image: torch:1, namespace: bench, env: {LEVEL: high}")
    result = assay("plan", asked, "--show", TRIAL)
    assert result.exit_code == 0, result.output or result.exception
    assert result.stdout == assay("plan", asked, "--show", TRIAL).stdout
    objects = list(YAML(typ="safe", pure=True).load_all(result.stdout))
    assert [obj["kind"] for obj in objects] == ["ConfigMap", "ConfigMap", "Service", "Job"]
    assert {obj["metadata"]["namespace"] for obj in objects} == {"bench"}
    assert json.loads(objects[0]["data"]["spec.json"])["env"]["LEVEL"] == "high"


def test_wrong_options_are_told_with_file_and_line(tmp_path: Path) -> None:
    asked = suite(tmp_path, "launcher: kubernetes,\n  resources: {pod: {cpu: two}},\n  imagePulPolicy: Never")
    error = assay("plan", asked).exception
    assert isinstance(error, InputError)
    assert [problem.what for problem in error.problems] == [
        "lab.resources.pod.cpu: found 'two'; expected a Kubernetes quantity, like 8, 500m, or 64Gi",
        "lab.imagePulPolicy: unknown key; did you mean imagePullPolicy?",
    ]
    assert [problem.where.rpartition(":")[2] for problem in error.problems] == ["2", "3"]


def test_a_system_without_a_server_can_not_validate(tmp_path: Path) -> None:
    asked = suite(tmp_path, "launcher: local")
    error = assay("plan", asked, "--show", TRIAL, "--validate").exception
    assert isinstance(error, InputError)
    assert "launcher local has no server" in str(error)
    assert assay("plan", asked, "--validate").exit_code == 2


@pytest.mark.kubernetes
@pytest.mark.parametrize("kind", ["job", "jobset", "trainjob"])
def test_what_asks_for_no_right_is_accepted_where_only_that_is_allowed(kind: str, tmp_path: Path) -> None:
    with cluster.namespace(**{"pod-security.kubernetes.io/enforce": "restricted"}) as name:
        asked = suite(
            tmp_path, f"launcher: kubernetes, image: {cluster.IMAGE}, namespace: {name}, kind: {kind}"
        )
        result = assay("plan", asked, "--show", TRIAL, "--validate")
        assert result.exit_code == 0, result.exception
        said = [line for line in result.stdout.splitlines() if line.startswith("# ")][1:]
        assert len(said) >= 3
        assert all(line.endswith(": accepted") for line in said)
        assert cluster.objects(name, "pods") == [], "a dry run leaves nothing"


@pytest.mark.kubernetes
def test_pods_that_the_namespace_forbids_are_refused_before_any_runs(tmp_path: Path) -> None:
    with cluster.namespace(**{"pod-security.kubernetes.io/enforce": "restricted"}) as name:
        asked = suite(
            tmp_path,
            f"launcher: kubernetes, image: {cluster.IMAGE}, namespace: {name}, kind: mpijob, runAsUser: 0",
        )
        result = assay("plan", asked, "--show", TRIAL, "--validate")
        assert isinstance(result.exception, LaunchError)
        assert "# MPIJob assay-token: accepted" in result.stdout
        assert "# Pod assay-token-pod-0: rejected:" in result.stdout
        assert 'violates PodSecurity "restricted' in result.stdout


@pytest.mark.kubernetes
def test_a_kind_whose_operator_is_missing_is_named(tmp_path: Path) -> None:
    with cluster.namespace() as name:
        asked = suite(tmp_path, f"launcher: kubernetes, image: x, namespace: {name}, kind: pytorchjob")
        result = assay("plan", asked, "--show", TRIAL, "--validate")
        assert "this cluster has no PyTorchJob of kubeflow.org/v1" in result.stdout
