"""A RayJob for KubeRay: the form of its CustomResourceDefinition, and pods that Kubernetes accepts."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
from ruamel.yaml import YAML

from command_line import assay as typed
from rayjob_schema import RAYJOB

SYSTEMS = """
cluster:
  launcher: kubernetes
  namespace: perception
  image: registry.example/assay-ray:1
  env: {OMP_NUM_THREADS: "1"}
  resources: {accelerator: {nvidia.com/gpu: 1, cpu: 8, memory: 32Gi}}
  volumes: [{mountPath: /data, persistentVolumeClaim: adas-data}]
laptop: {launcher: local}
"""
PATHS = ("/data/a b/checkpoint.pt", "/data/$(all).jsonl", "--into", "/data/validated")


def rendered(directory: Path, *more: str) -> tuple[int, str, str]:
    (directory / "systems.yaml").write_text(SYSTEMS)
    ran = typed(directory, "data", "validate", *PATHS, "--render", "rayjob", *more)
    return ran.returncode, ran.stdout, ran.stderr


@pytest.fixture
def job(tmp_path: Path) -> dict[str, Any]:
    code, out, errors = rendered(tmp_path, "--system", "cluster", "--workers", "4", "--device", "cuda")
    assert code == 0, errors
    found: dict[str, Any] = YAML(typ="safe").load(out)
    return found


def test_it_has_the_form_of_its_definition(job: dict[str, Any]) -> None:
    jsonschema.validate(job, RAYJOB)
    cluster = job["spec"]["rayClusterSpec"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "a"},
            "spec": group["template"]["spec"],
        }
        kubernetes_validate.validate(pod, "1.31", strict=True)


def test_the_head_runs_the_command_and_workers_have_the_accelerators(job: dict[str, Any]) -> None:
    words = shlex.split(job["spec"]["entrypoint"])
    assert words[:7] == ["assay", "data", "validate", PATHS[0], PATHS[1], "--into", PATHS[3]]
    assert words[7:11] == ["--ray", "auto", "--workers", "4"]
    cluster = job["spec"]["rayClusterSpec"]
    (workers,) = cluster["workerGroupSpecs"]
    assert workers["replicas"] == 4
    (worker,), (head,) = (
        group["template"]["spec"]["containers"] for group in (workers, cluster["headGroupSpec"])
    )
    assert worker["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert "nvidia.com/gpu" not in head["resources"]["limits"]
    assert {"name": "volume-0", "mountPath": "/data"} in worker["volumeMounts"]
    assert job["metadata"]["namespace"] == "perception"


def test_what_a_rayjob_cant_be_made_of_is_an_error(tmp_path: Path) -> None:
    code, _, errors = rendered(tmp_path, "--system", "laptop")
    assert code == 4
    assert "this command is for Kubernetes" in errors
    ran = typed(
        tmp_path,
        "data",
        "validate",
        "a.pt",
        "/m",
        "--into",
        "/v",
        "--render",
        "rayjob",
        "--system",
        "cluster",
    )
    assert ran.returncode == 4
    assert "a.pt: a pod needs absolute paths" in ran.stderr
    assert rendered(tmp_path)[0] == 2
