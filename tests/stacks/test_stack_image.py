"""What `assay stack` prints, built for real: it runs as any user, in podman and in pods, and serves MPI."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kubernetes_cluster as cluster
import stack_image
from assay.cli import assay
from assay.stacks.image import pins
from conftest import require
from containers import ULIMITS
from stack_image import ANYBODY, podman

NUMPY = pins()["numpy"].version
# Two ranks multiply matrices; each says as whom, with which interpreter, and whether it may write at home.
PROGRAM = """
import os, sys, time
from pathlib import Path
import numpy as np
a = np.random.default_rng(1).random((400, 400))
start = time.perf_counter()
b = a @ a
print("rate", 2 * 400**3 / (time.perf_counter() - start))
(Path(os.environ["HOME"]) / f"rank-{os.environ['RANK']}").write_text("1")
print("as", os.getuid(), os.getgid(), sys.executable, np.__version__)
"""
# Start sshd as the MPI Operator does, with a key of its own, then let mpirun reach it.
OVER_SSH = """
mkdir -p ~/.ssh && ssh-keygen -q -t rsa -N '' -f ~/.ssh/id_rsa && cp ~/.ssh/id_rsa.pub ~/.ssh/authorized_keys
/usr/sbin/sshd -De & until ssh localhost true 2>/dev/null; do sleep 0.1; done
mpirun --host localhost:2 --mca plm_rsh_no_tree_spawn 1 sh -c 'echo rank $OMPI_COMM_WORLD_RANK is $(id -u)'
ssh localhost 'echo $(id -u) over ssh finds $(command -v python3)'
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Built from the first line to the last, and gone afterwards."""
    tag = "localhost/assay-test/stack:built"
    stack_image.build(tmp_path_factory.mktemp("built"), tag, "--layers=false", "--no-cache")
    yield tag
    podman("rmi", "--force", tag)


def results(folder: Path, system: dict[str, Any], shape: str = "1x2") -> tuple[float, list[str]]:
    """The rate that `assay run` reports of one trial, and the last line of each rank."""
    suite = {
        "suite": "in-the-image",
        "workload": "command",
        "params": {
            "argv": ["{python}", "-c", PROGRAM],
            "metrics": {"rate": {"pattern": "rate (?P<value>[0-9.e+]+)", "unit": "FLOP/s"}},
        },
        "shapes": [shape],
        "repeats": 1,
        "systems": ["image"],
    }
    folder.mkdir()
    (folder / "suite.yaml").write_text(json.dumps(suite))
    (folder / "systems.yaml").write_text(json.dumps({"image": system}))
    words = ["run", str(folder / "suite.yaml"), "--runs", str(folder / "runs")]
    done = CliRunner().invoke(assay, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    logs = sorted((folder / "runs").glob("*/*/*/attempt-1/logs/rank-*.log"))
    (reading,) = (folder / "runs").glob("*/*/*/attempt-1/reading.json")
    figures = json.loads(reading.read_text())["reading"]["measurements"]
    (rate,) = (one["value"] for one in figures if one["metric"] == "rate")
    return rate, [log.read_text().splitlines()[-1] for log in logs]


@pytest.mark.podman
@pytest.mark.slow
def test_a_trial_runs_in_the_image_as_any_user(image: str, tmp_path: Path) -> None:
    system = {"launcher": "podman", "image": image, "user": ANYBODY, "ulimits": ULIMITS}
    rate, last = results(tmp_path / "podman", system)
    assert rate > 1e6
    assert last == [f"as 1000660000 0 /opt/assay/bin/python3 {NUMPY}"] * 2


@pytest.mark.podman
@pytest.mark.slow
def test_the_image_says_what_it_is_runs_as_nobody_special_and_leaves_nothing_behind(image: str) -> None:
    (known,) = json.loads(podman("image", "inspect", image))
    config = known["Config"]
    assert config["User"] == "1001:0"
    assert config["Labels"]["org.opencontainers.image.base.name"] == stack_image.BASE
    assert list(config["ExposedPorts"]) == ["2222/tcp"]
    find = "find / -xdev ( -path /proc -o -path /sys ) -prune -o"
    left = (
        "-path /root/.cache -print -o -path /var/lib/apt/lists/*Packages* -print -o -name ssh_host_* -print"
    )
    inside = ["run", "--rm", "--network=none", *stack_image.LIMITS, "--user=0:0", image]
    assert podman(*inside, *find.split(), *left.split()) == ""
    writable = "find / -xdev ( -path /proc -o -path /sys -o -path /tmp -o -path /var/tmp ) -prune -o"
    by_group = "-type f -group 0 -perm -020 -print"
    assert podman(*inside, *writable.split(), *by_group.split()) == ""


@pytest.mark.podman
@pytest.mark.slow
def test_any_user_serves_ssh_so_that_mpirun_starts_ranks(image: str) -> None:
    inside = ["run", "--rm", "--network=none", *stack_image.LIMITS, f"--user={ANYBODY}", image]
    said = podman(*inside, "sh", "-euc", OVER_SSH).splitlines()
    assert sorted(said) == [
        "1000660000 over ssh finds /opt/assay/bin/python3",
        "rank 0 is 1000660000",
        "rank 1 is 1000660000",
    ]


@pytest.fixture(scope="module")
def namespace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A namespace that admits only restricted pods, and the image, which every node has."""
    with cluster.namespace(**{"pod-security.kubernetes.io/enforce": "restricted"}) as name:
        sockets = sorted(Path(os.environ["KUBECONFIG"]).parent.glob("*/containerd.sock"))
        require("kubernetes-processes", bool(sockets), "the nodes' containerd is not on this machine")
        require("ctr", shutil.which("ctr") is not None, "ctr is not installed")
        folder, tag = tmp_path_factory.mktemp("kept"), "localhost/assay-test/stack:kept"
        stack_image.build(folder, tag)  # with podman's own cache
        podman("save", "--quiet", "--format=docker-archive", "--output", folder / "image.tar", tag)
        nodes = [["ctr", "--address", str(socket), "--namespace", "k8s.io", "images"] for socket in sockets]
        for node in nodes:
            subprocess.run([*node, "import", folder / "image.tar"], check=True, capture_output=True)
        yield name, tag
        for node in nodes:
            subprocess.run([*node, "rm", tag], check=True, capture_output=True)


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "shape", "user"),
    [("pod", "1x2", 1000660000), ("mpijob", "2x1", 1001)],  # sshd wants a user whom /etc/passwd names
)
@pytest.mark.long
def test_a_trial_runs_in_a_restricted_namespace(
    kind: str, shape: str, user: int, namespace: tuple[str, str], tmp_path: Path
) -> None:
    name, tag = namespace
    chosen = {"kind": kind, "namespace": name, "runAsUser": user}
    system = {"launcher": "kubernetes", "image": tag, "imagePullPolicy": "Never", **chosen}
    rate, last = results(tmp_path / kind, system, shape)
    assert rate > 1e6
    assert last == [f"as {user} 0 /opt/assay/bin/python3 {NUMPY}"] * 2
