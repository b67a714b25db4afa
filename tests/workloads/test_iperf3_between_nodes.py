"""Workload iperf3 by launchers with two nodes: real links, one of them bounded."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kubernetes_cluster as cluster
from assay.cli import assay
from conftest import require
from slurm_cluster import slurm_cluster  # noqa: F401  (a fixture)
from ssh_hosts import Hosts, hosts
from ssh_hosts import run as here

BOUND_BYTES_PER_S = 100e6 / 8
QUICK = {"seconds": 2, "omit_seconds": 1}


@pytest.fixture(autouse=True)
def _program() -> None:
    require("iperf3", shutil.which("iperf3") is not None, "install iperf3")


@pytest.fixture
def lab() -> Iterator[Hosts]:
    with hosts(2) as made, tempfile.TemporaryDirectory(prefix="assay-ssh-run-") as runtime:
        before = os.environ.get("XDG_RUNTIME_DIR")
        os.environ["XDG_RUNTIME_DIR"] = runtime
        try:
            yield made
        finally:
            del os.environ["XDG_RUNTIME_DIR"]
            if before is not None:
                os.environ["XDG_RUNTIME_DIR"] = before


def over_ssh(lab: Hosts, directory: Path) -> dict[str, Any]:
    where = {"launcher": "ssh", "hosts": lab.names, "config": lab.config, "python": sys.executable}
    return {**where, "directory": str(directory / "remote")}


def trial(directory: Path, system: Mapping[str, Any], timeout: str = "2min", **params: Any) -> dict[str, Any]:
    """One trial of two nodes by `assay run`, as `assay show --json` has it."""
    suite = {"suite": "tcp", "workload": "iperf3", "params": {**QUICK, **params}, "shapes": ["2x1x2"]}
    (directory / "suite.yaml").write_text(
        json.dumps({**suite, "systems": ["two"], "repeats": 1, "timeout": timeout})
    )
    (directory / "systems.yaml").write_text(json.dumps({"two": system}))
    runs = ["--runs", str(directory / "runs")]
    done = CliRunner().invoke(assay, ["run", str(directory / "suite.yaml"), "--quiet", *runs])
    shown = CliRunner().invoke(assay, ["show", "tcp", "--json", *runs])
    assert shown.exit_code == 0, done.output + shown.output
    (found,) = json.loads(shown.stdout)["runs"]
    told: dict[str, Any] = found
    return told


def bandwidths(run: Mapping[str, Any]) -> dict[str, float]:
    """Bytes a second by direction."""
    assert run["cause"] == ""
    return {m["labels"]["direction"]: m["value"] for m in run["measurements"] if m["metric"] == "bandwidth"}


def programs_below(directory: Path) -> list[str]:
    """Names of programs that run in a directory or below it."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended, or is the kernel's own
            if (entry / "cwd").readlink().is_relative_to(directory):
                found.append((entry / "comm").read_text().strip())
    return found


def bound(lab: Hosts, name: str) -> None:
    """What leaves this host goes at 100 Mbit/s, until it is taken down."""
    device = ("ip", "netns", "exec", lab.namespace(name), "tc", "qdisc", "replace", "dev", "eth0", "root")
    here(*device, "tbf", "rate", "100mbit", "burst", "128kb", "latency", "50ms")


@pytest.mark.ssh
@pytest.mark.slow
def test_a_bounded_link_is_measured_at_its_bound_and_only_in_its_direction(
    lab: Hosts, tmp_path: Path
) -> None:
    bound(lab, "host1")
    run = trial(tmp_path, over_ssh(lab, tmp_path), seconds=4)
    found = bandwidths(run)
    assert found["1-to-0"] == pytest.approx(BOUND_BYTES_PER_S, rel=0.1)
    assert found["0-to-1"] > 2 * BOUND_BYTES_PER_S


@pytest.mark.ssh
@pytest.mark.slow
def test_the_time_limit_leaves_neither_end_running(lab: Hosts, tmp_path: Path) -> None:
    run = trial(tmp_path, over_ssh(lab, tmp_path), seconds=60, timeout="5s")
    assert run["state"] == "failed"
    assert "time limit of 5 s" in run["cause"]
    assert programs_below(tmp_path / "remote") == []


@pytest.mark.slurm
@pytest.mark.slow
@pytest.mark.usefixtures("slurm_cluster")
def test_two_nodes_of_slurm_are_measured(tmp_path: Path) -> None:
    run = trial(tmp_path, {"launcher": "slurm"})
    assert len({node["host"] for node in run["provenance"]}) == 2
    assert set(bandwidths(run)) == {"0-to-1", "1-to-0"}


def shown_in_pods(directory: Path) -> Path:
    """A directory with iperf3 and its libraries, for an image that has neither."""
    place = directory / "tools"
    place.mkdir()
    program = str(shutil.which("iperf3"))
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for library in re.findall(r"=> (/\S+/lib(?:iperf|sctp|crypto|ssl)\S+)", linked):
        shutil.copy(library, place)
    shutil.copy(program, place / "program")
    start = place / "iperf3"
    start.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={place} exec {place}/program "$@"\n')
    start.chmod(0o755)
    return place


@pytest.mark.kubernetes
@pytest.mark.slow
@pytest.mark.long
def test_pods_on_two_nodes_are_measured(tmp_path: Path) -> None:
    place = str(shown_in_pods(tmp_path))
    volume = {"mountPath": place, "hostPath": place, "readOnly": True}
    with cluster.namespace() as namespace:
        cluster.need_nodes_here()
        where = {"launcher": "kubernetes", "namespace": namespace, "image": cluster.IMAGE}
        run = trial(tmp_path, {**where, "volumes": [volume]}, program=f"{place}/iperf3")
        assert set(bandwidths(run)) == {"0-to-1", "1-to-0"}
        assert len({node["kubernetes.node"] for node in run["provenance"]}) == 2
