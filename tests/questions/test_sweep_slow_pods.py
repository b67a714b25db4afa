"""Two nodes of Kubernetes, of which one computes slowly, then sends slowly: told apart by a baseline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kubernetes_cluster as cluster
import slowed
import swept_programs
from assay import cli
from conftest import require
from ssh_hosts import run

pytestmark = [pytest.mark.slow, pytest.mark.kubernetes, pytest.mark.disruptive]

MARGIN = "30%"  # both nodes share two cores
NODE = "node2"
GROUPS = {node: slowed.CPU / f"two-node-kubernetes-{node}" for node in ("node1", NODE)}


@dataclass(frozen=True)
class Lab:
    """A cluster that is swept."""

    folder: Path

    def sweep(self, *words: str) -> dict[str, Any]:
        """What a new sweep finds, one job at a time."""
        where = ["--systems", str(self.folder / "systems.yaml"), "--runs", str(self.folder / "runs")]
        asked = ["sweep", "lab", *where, "--share", "50%", "--margin", MARGIN, "--new", "--quiet", "--json"]
        result = CliRunner().invoke(cli.assay, [*asked, *words])
        assert result.exit_code in {0, 1, 3}, (result.output, result.exception)
        found: dict[str, Any] = json.loads(result.stdout)
        assert found["failures"] == []
        return found

    def report(self, *sessions: str) -> set[str]:
        """What its page answers."""
        where = ["--runs", str(self.folder / "runs"), "-o", str(self.folder / "page.html")]
        result = CliRunner().invoke(cli.assay, ["report", *sessions, *where, "--margin", MARGIN, "--json"])
        assert result.exit_code == 0, (result.output, result.exception)
        return {answer["verdict"] for answer in json.loads(result.stdout)["answers"]}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("pods")
    with ExitStack() as held:
        space = held.enter_context(cluster.namespace())
        there = all(group.is_dir() for group in GROUPS.values())
        require("kubernetes-processes", there, "the cluster's nodes are not of this machine")
        for group in GROUPS.values():
            held.enter_context(slowed.favour(group))
        swept_programs.put_in(held.enter_context(pytest.MonkeyPatch.context()))
        system = {"launcher": "kubernetes", "namespace": space, "image": cluster.IMAGE}
        (folder / "systems.yaml").write_text(
            json.dumps({"lab": system | {"imagePullPolicy": "IfNotPresent", "python": "python3"}})
        )
        yield Lab(folder)


@pytest.fixture(scope="module")
def baseline(lab: Lab) -> list[str]:
    """A sweep of the nodes as they are, as the words that hold another against it."""
    found = lab.sweep()
    assert found["nodes"][0]["slow"] == []
    return [word for session in found["sessions"] for word in ("--baseline", session)]


@pytest.mark.long
def test_a_node_whose_pods_get_a_third_of_a_cpu_is_named_and_its_taint_printed(
    lab: Lab, baseline: list[str]
) -> None:
    with slowed.quota(GROUPS[NODE] / "kubepods", 0.3):
        found = lab.sweep(*baseline)
    assert [one["slow"] for one in found["nodes"]] == [[NODE]]
    taints = next(way for way in found["keep_off"] if way["form"] == "taints")
    assert taints["apply"] == [
        f"kubectl taint node --overwrite {NODE} assay.dev/slow=matmul:PreferNoSchedule"
    ]
    assert lab.report(*baseline[1::2], *found["sessions"]) >= {"slow node"}
    assert "assay.dev/slow" not in run("kubectl", "get", "node", NODE, "-o", "yaml").stdout.decode()


def test_a_node_that_sends_slowly_is_a_slow_pair_of_nodes_that_compute_as_before(
    lab: Lab, baseline: list[str]
) -> None:
    with slowed.port("eth0", "100mbit", within=("ip", "netns", "exec", NODE)):
        found = lab.sweep(*baseline)
    assert [one["slow"] for one in found["nodes"]] == [[]]
    blame = found["pairs"]["blame"]
    assert [{*one["who"]} for one in blame["pairs"]] == [{"node1", "node2"}]
    assert (blame["nodes"], blame["links"]) == ([], [])
    assert [{*one["one_of"]} for one in blame["pairs"]] == [{"node1", "node2"}]
