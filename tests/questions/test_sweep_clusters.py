"""Sweeps of a real cluster: bound to their nodes, killed, out of time, among others' jobs, gone on with."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kubernetes_cluster as cluster
from assay import cli
from assay.errors import EXIT_UNDECIDED
from assay.node_sweep import GROUPS_FILE
from assay.rundir.session import Session, sessions
from slurm_cluster import slurm_cluster  # noqa: F401  (a fixture)

pytestmark = [pytest.mark.slow, pytest.mark.torch]
PATIENCE_S = 300.0
SMALL = ("--repeats", "1", "--seconds", "0.1", "--json", "--quiet")


class Lab:
    """A system that is swept."""

    def __init__(self, folder: Path, **system: Any) -> None:
        self.runs = folder / "runs"
        (folder / "systems.yaml").write_text(json.dumps({"lab": system}))
        self.words = ["sweep", "lab", "--systems", str(folder / "systems.yaml"), "--runs", str(self.runs)]

    def sweep(self, *words: str) -> dict[str, Any]:
        said = CliRunner().invoke(cli.assay, [*self.words, *SMALL, *words], catch_exceptions=False)
        assert said.exit_code == EXIT_UNDECIDED, said.output  # two nodes are too few to judge
        found: dict[str, Any] = json.loads(said.stdout)
        assert found["failures"] == []
        return found

    @property
    def sessions(self) -> list[Session]:
        return [*sessions(self.runs)]

    def runs_by_state(self, state: str) -> list[str]:
        found = []
        for path in self.runs.glob("sweep-*/*/*/attempt-*/run.json"):
            run = json.loads(path.read_text())
            found += [run["trial"]["system"]] if run["state"] == state else []
        return found


@pytest.fixture
def pods(tmp_path: Path) -> Iterator[Lab]:
    with cluster.namespace() as name:
        options = {
            "image": cluster.IMAGE,
            "imagePullPolicy": "IfNotPresent",
            "python": "host",
            "runAsUser": 0,
        }
        yield Lab(tmp_path, launcher="kubernetes", namespace=name, env={"OMP_NUM_THREADS": "1"}, **options)


@pytest.mark.kubernetes
@pytest.mark.long
def test_a_sweep_of_pods_that_is_killed_goes_on_and_each_job_was_on_its_nodes(pods: Lab) -> None:
    program = [sys.executable, "-c", "from assay.cli import main; main()"]
    asked = ["--share", "100%", "--by", "kubernetes.io/hostname"]
    words = [*program, *pods.words, *SMALL, *asked]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL) as assay:
        give_up = time.monotonic() + PATIENCE_S
        while len(pods.runs_by_state("running")) < 2:
            assert assay.poll() is None
            assert time.monotonic() < give_up
            time.sleep(0.1)
        assay.send_signal(signal.SIGKILL)
    assert sorted(pods.runs_by_state("running")) == ["node1", "node2"], "each node with one job"
    found = pods.sweep(*asked)
    assert (found["complete"], found["left_out"]) == (True, [])
    assert [session.path.parent.name for session in pods.sessions] == ["sweep-nodes", "sweep-pairs"]
    assert all(session.header.finished_at for session in pods.sessions)
    for session in pods.sessions:  # what the nodes share lies there for a report
        kept = json.loads((session.path / GROUPS_FILE).read_text())
        assert kept == {"node1": "node1", "node2": "node2"}
        for attempt in session.attempts():
            known = attempt.provenance()
            assert known is not None
            where = sorted(str(facts["kubernetes.node"]) for facts in known.nodes)
            assert "--".join(where) == attempt.run().trial.system
    assert {entry["ratio"] for entry in found["pairs"]["ratios"]} == {1.0}


@pytest.fixture
def batch(slurm_cluster: None, tmp_path: Path) -> Lab:  # noqa: F811
    return Lab(tmp_path, launcher="slurm", env={"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"})


@pytest.mark.slurm
def test_a_sweep_of_slurm_leaves_nodes_in_use_and_goes_on_when_they_are_idle(batch: Lab) -> None:
    where = ["--nodelist=snode2", "--exclusive", "--output=/dev/null"]
    number = _told("sbatch", "--parsable", *where, "--wrap=sleep 600")
    try:
        give_up = time.monotonic() + PATIENCE_S
        while "RUNNING" not in _told("squeue", "-h", "-j", number, "-o", "%T"):  # until then the node is idle
            assert time.monotonic() < give_up
            time.sleep(0.1)
        found = batch.sweep("--idle")
    finally:
        subprocess.run(["scancel", number], check=True)
    assert not found["complete"]
    assert found["left_out"] == [{"node": "snode2", "why": "allocated according to Slurm"}]
    assert {*batch.runs_by_state("finished")} == {"snode1"}
    found = batch.sweep("--for", "1s")
    assert not found["complete"]
    assert len(batch.sessions) == 2
    found = batch.sweep("--rounds", "1")
    assert found["complete"]
    assert sorted({*batch.runs_by_state("finished")}) == ["snode1", "snode1--snode2", "snode2"]
    assert len(batch.sessions) == 2, "one of nodes, one of pairs, each gone on with"


def _told(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
