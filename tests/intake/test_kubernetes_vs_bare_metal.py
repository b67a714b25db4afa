"""The example that asks what Kubernetes costs: its files, a small run for real, its GPU cluster's jobs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import kubernetes_cluster as cluster
from assay import plan
from assay.launch import SYSTEM_MODELS
from assay.launch.kubernetes.launcher import KubernetesLauncher
from assay.launch.kubernetes.options import KubernetesSystem
from assay.records import Job, Shape
from assay.suite import load
from assay.workloads import WORKLOADS
from conftest import ROOT, long_but
from containers import IMAGE, ULIMITS, need_podman
from playbooks import command, yaml

EXAMPLE = ROOT / "examples" / "kubernetes-vs-bare-metal"
GPUS = EXAMPLE / "gpu-cluster"
# as small as each workload becomes
TINY: dict[str, dict[str, Any]] = {
    "matmul": {"sizes": [64], "dtypes": ["fp32"], "min_time_s": 0.05},
    "membw": {"min_time_s": 0.05},
    "allreduce": {"payload_bytes": [4, 1 << 20], "min_time_s": 0.05},
    "resnet50": {"batch_size": 2, "image_size": 32, "steps": 2, "warmup": 1, "window": 1},
    "digits": {"target": 0.5},
}


def planned(path: Path) -> tuple[Any, Any]:
    params = {name: workload.params for name, workload in WORKLOADS.items()}
    suite, systems = load(path, params_models=params, launcher_models=SYSTEM_MODELS)
    return plan.make(suite, systems), systems


def test_the_sides_have_the_same_software_threads_and_no_quota() -> None:
    metal, podman, pods = (
        yaml(EXAMPLE / "systems.yaml")[name] for name in yaml(EXAMPLE / "suite.yaml")["systems"]
    )
    assert metal["env"] == podman["env"] == pods["env"] == {"OMP_NUM_THREADS": "1"}
    assert podman["python"] == pods["python"] == "host"
    assert "python" not in metal  # the one that runs Assay, too
    assert "cpus" not in podman
    assert pods["resources"]["limit_cpu"] is False


def test_no_path_of_a_machine_stands_in_them() -> None:
    for entry in yaml(EXAMPLE / "systems.yaml").values():
        assert not any(str(value).startswith("/") for value in entry.values())


@pytest.fixture
def small(tmp_path: Path, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example with one repeat of the least work, in images that are there, and a namespace of its own."""
    need_podman()
    cluster.need_nodes_here()
    suite, systems = yaml(EXAMPLE / "suite.yaml"), yaml(EXAMPLE / "systems.yaml")
    suite["repeats"] = 1
    for benchmark in suite["benchmarks"].values():
        benchmark["params"] = TINY[benchmark["workload"]]
    systems["podman"] |= {"image": IMAGE, "volumes": ["/usr"], "ulimits": ULIMITS}
    systems["kubernetes"] |= {"image": cluster.IMAGE, "namespace": namespace}
    for name, content in (("suite.yaml", suite), ("systems.yaml", systems)):
        YAML().dump(content, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.podman
@pytest.mark.kubernetes
@pytest.mark.long
def test_it_runs_on_all_three_systems_with_the_very_same_software(small: Path) -> None:
    ran = command("run", "suite.yaml", "--quiet", "--report", "page.html")
    assert ran.exit_code == 0, ran.output
    page = (small / "page.html").read_text()
    for words in (
        "Where the time of a trial went",
        "podman compared with bare-metal",
        "kubernetes compared with bare-metal",
    ):
        assert words in page
    for system in ("podman", "kubernetes"):
        sides = [f"kubernetes-vs-bare-metal:{side}" for side in ("bare-metal", system)]
        told = command("diff", *sides, "--all", "--json")
        facts = json.loads(told.stdout)["facts"]
        own = [fact for fact in facts if fact["name"].startswith(("python.", "package."))]
        assert len(own) > 5
        assert [fact["name"] for fact in own if fact["matters"]] == []


@pytest.mark.kubernetes
@pytest.mark.parametrize("name", long_but(1, ["eight-h100.yaml", "pod-sizes.yaml"]))
def test_the_api_server_takes_every_job_of_the_gpu_cluster(name: str, namespace: str, tmp_path: Path) -> None:
    shutil.copytree(GPUS, tmp_path / "gpus")
    systems = yaml(GPUS / "systems.yaml")
    for entry in systems.values():
        if entry["launcher"] == "kubernetes":
            entry["namespace"] = namespace
    YAML().dump(systems, tmp_path / "gpus" / "systems.yaml")
    cluster.kubectl("-n", namespace, "create", "serviceaccount", "mlperf")
    made, _ = planned(tmp_path / "gpus" / name)
    trials = [t.id for t in made.trials if t.block == 1 and systems[t.system]["launcher"] == "kubernetes"]
    assert trials
    for trial in trials:
        said = command("plan", tmp_path / "gpus" / name, "--show", trial, "--validate")
        assert said.exit_code == 0, said.output
        assert ": accepted" in said.output


@pytest.mark.long
def test_pods_of_one_gpu_and_of_eight_are_the_same_job_cut_otherwise() -> None:
    """16x1x2 and 2x8: sixteen GPUs on two nodes, in sixteen pods of one or in two of eight."""
    made, systems = planned(GPUS / "pod-sizes.yaml")
    cuts = {}
    for trial in made.trials:
        if trial.block == 1 and trial.benchmark == "training":
            cuts[str(trial.shape)] = _pods_and_gpus(trial, systems.by_name[trial.system].options)
    assert cuts == {
        "1x1": (1, 1),
        "1x2": (1, 2),
        "1x4": (1, 4),
        "1x8": (1, 8),
        "2x8": (2, 8),
        "2x1x1": (2, 1),
        "4x1x1": (4, 1),
        "8x1x1": (8, 1),
        "16x1x2": (16, 1),
    }
    assert {Shape.parse(text).ranks for text in cuts} == {1, 2, 4, 8, 16}


def _pods_and_gpus(trial: Any, options: KubernetesSystem) -> tuple[int, int]:
    job = Job("token", trial.id, trial.shape, plan.task_of(trial), trial.seed, trial.timeout_s)
    sent = KubernetesLauncher(options, Path("jobs")).render(job).command
    (found,) = (one for one in YAML(typ="safe").load_all(sent) if one["kind"] == "MPIJob")
    worker = found["spec"]["mpiReplicaSpecs"]["Worker"]
    (container,) = worker["template"]["spec"]["containers"]
    return worker["replicas"], int(container["resources"]["limits"]["nvidia.com/gpu"])


def test_an_mlperf_submissions_own_script_gets_the_whole_server_as_one_rank() -> None:
    made, systems = planned(GPUS / "eight-h100.yaml")
    trial = next(t for t in made.trials if t.system == "openshift" and t.benchmark == "unet3d")
    task = plan.task_of(trial)
    assert task.argv[-1] == str(trial.seed)  # $0 of its shell, which becomes SEED
    assert systems.by_name["openshift"].options.resources.pod["nvidia.com/gpu"] == "8"
    repeats = {
        t.benchmark: max(o.block for o in made.trials if o.benchmark == t.benchmark) for t in made.trials
    }
    assert repeats == {"resnet50": 5, "unet3d": 40}
