"""examples/rdma: its jobs as the API server takes them, its published figures, its steps over TCP."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import kubernetes_cluster as cluster
from conftest import ROOT, long_but, require
from playbooks import command, yaml

EXAMPLE = ROOT / "examples" / "rdma"
SUITES = ("point-to-point", "nccl", "resnet50")


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the playbook, and a directory of its own for runs."""
    shutil.copytree(EXAMPLE, tmp_path / "rdma")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "rdma"


# What each benchmark over TCP does at least: busy ranks of two pods are many on one machine
LEAST: dict[str, dict[str, dict[str, object]]] = {
    "communication": {
        "tcp": {"seconds": 1},
        "all-reduce": {"payload_bytes": [8, 1024, 65536, 1048576], "min_time_s": 0.02},
    },
    "resnet50": {"training": {"image_size": 32, "steps": 4}},
}


def change(path: Path, **entries: object) -> None:
    """Set entries of every system, or of every suite's top."""
    content = yaml(path)
    for part in content.values() if path.name == "systems.yaml" else [content]:
        part |= entries
    YAML().dump(content, path)


def test_every_command_of_the_page_is_one() -> None:
    page = (EXAMPLE / "README.md").read_text()
    lines = [
        line for block in re.findall(r"```console\n(.*?)```", page, re.DOTALL) for line in block.splitlines()
    ]
    assert len(lines) > 15
    for line in lines:
        words = line.split()
        assert words[0] == "assay"
        named = command(*words[1 : 3 if words[1] == "cluster" else 2], "--help").output
        for word in words[2:]:
            if word.startswith("-"):
                assert word in named, line
            if word.startswith("examples/"):
                assert (ROOT / word).is_file(), line


def test_the_preparation_announces_what_the_pods_ask_for(ground: Path) -> None:
    shown = command(
        "cluster",
        "prepare",
        "openshift",
        "--systems",
        ground / "systems.yaml",
        "--for",
        "openshift",
        "--print",
    )
    assert shown.exit_code == 0, shown.output
    made = {(one["kind"], one["metadata"]["name"]): one for one in YAML(typ="safe").load_all(shown.stdout)}
    fabric = made["NicClusterPolicy", "nic-cluster-policy"]["spec"]["rdmaSharedDevicePlugin"]
    announced = {one["resourceName"] for one in json.loads(fabric["config"])["configList"]}
    [system] = yaml(ground / "systems.yaml").values()
    assert {f"rdma/{name}" for name in announced} == system["resources"]["pod"].keys()
    mounted = {volume["persistentVolumeClaim"] for volume in system["volumes"]}
    assert mounted == {name for kind, name in made if kind == "PersistentVolumeClaim"}
    accounts = {name for kind, name in made if kind == "ServiceAccount"}
    assert system["serviceAccountName"] in accounts


@pytest.mark.kubernetes
@pytest.mark.parametrize("suite", long_but(1, SUITES))
def test_the_api_server_takes_every_job(suite: str, ground: Path, namespace: str) -> None:
    change(ground / "systems.yaml", namespace=namespace)
    change(ground / f"{suite}.yaml", repeats=1)
    cluster.kubectl("-n", namespace, "create", "serviceaccount", "mpi")
    planned = json.loads(command("plan", ground / f"{suite}.yaml", "--json").stdout)
    assert planned["trials"]
    for trial in planned["trials"]:
        said = command("plan", ground / f"{suite}.yaml", "--show", trial["id"], "--validate")
        assert said.exit_code == 0, said.output


def test_the_published_figures_are_those_that_were_printed(ground: Path, published: dict[str, Any]) -> None:
    assert command("import", ground / "published.csv", "--name", "redbook").exit_code == 0
    points = json.loads(command("show", "redbook", "--json").stdout)["points"]
    found = {
        (one["shape"], one["metric"], one["labels"].get("payload_bytes")): one["values"] for one in points
    }
    paper = published["nccl_all_reduce_float_sum_out_of_place"]
    pods = {"1x8": "1 pod x 8 GPUs, 1 node", "2x8x2": "2 pods x 8 GPUs, 2 nodes"}
    for shape, named in {**pods, "16x1x2": "16 pods x 1 GPU, 2 nodes"}.items():
        for size, time_us, _, busbw in paper[named]:
            assert found.pop((shape, "latency", size)) == [time_us]
            if busbw:  # a latency's size prints none
                assert found.pop((shape, "busbw", size)) == [busbw]
    resnet50 = published["resnet50_synthetic_images_per_s"]
    pods_of_8, pods_of_1 = resnet50["multi_gpu_pods"], resnet50["single_gpu_pods"]
    assert {shape: values for (shape, *_), values in found.items()} == {
        "1x8": [pods_of_8["1x8"]],
        "2x8x2": [pods_of_8["2x8"]],
        "8x1x1": [pods_of_1["8x1 on 1 node"]],
        "16x1x2": [pods_of_1["16x1 on 2 nodes"]],
    }


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.kubernetes
@pytest.mark.long
def test_its_steps_over_tcp_run_on_two_nodes_and_leave_nothing(ground: Path, namespace: str) -> None:
    cluster.need_nodes_here()
    require("iperf3", shutil.which("iperf3") is not None, "iperf3 is not installed")
    space = f"{namespace}-tcp"  # made by the preparation
    systems = ground / "tcp" / "systems.yaml"
    change(systems, namespace=space, image=cluster.IMAGE)
    prepare = ("cluster", "prepare", "two-nodes", "--systems", systems)
    try:
        assert command(*prepare, "--apply", "--yes").exit_code == 0
        assert command(*prepare, "--check").exit_code == 0
        for suite in (ground / "tcp" / f"{name}.yaml" for name in LEAST):
            benchmarks = yaml(suite)["benchmarks"]
            for name, params in LEAST[suite.stem].items():
                benchmarks[name]["params"] |= params
            change(suite, repeats=1, timeout="10min", benchmarks=benchmarks)
            ran = command("run", suite, "--quiet")
            assert ran.exit_code == 0, ran.output
        compared = json.loads(command("compare", "rdma-tcp-resnet50", "--layouts", "--json").stdout)
        sides = {(one["a"], one["b"]) for one in compared["comparisons"]}
        assert sides == {("two-nodes as 1x2", "two-nodes as 2x1x2")}
    finally:
        cluster.kubectl("-n", space, "delete", "pods,jobs,mpijobs", "--all", "--wait=true")
        assert command(*prepare, "--revert", "--yes").exit_code == 0
    assert command(*prepare, "--check").exit_code == 1
