"""Six hosts, of which one is slow, one has a slow port and two a slow link: each is named for what it is."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import slowed
import swept_programs
from assay import cli
from assay.node_sweep import pair_rounds
from ssh_hosts import Hosts, below, hosts

pytestmark = [pytest.mark.slow, pytest.mark.ssh, pytest.mark.disruptive]

ROUNDS = 4  # so that both ends of any pair have one that none of two others is in
MARGIN = "30%"  # the hosts share two cores
SLOW, PORT = "host0", "host1"


@dataclass(frozen=True)
class Lab:
    """Hosts that can be swept, where their runs go, and their cgroup."""

    made: Hosts
    folder: Path
    group: Path

    def sweep(self, *words: str) -> dict[str, Any]:
        """What a new sweep finds, one job at a time."""
        where = ["--systems", str(self.folder / "systems.yaml"), "--runs", str(self.folder / "runs")]
        size = ["--rounds", str(ROUNDS), "--seconds", "0.1", "--share", "17%", "--margin", MARGIN]
        asked = ["sweep", "lab", *where, *size, "--new", "--quiet", "--json", *words]
        result = CliRunner().invoke(cli.assay, asked)
        assert result.exit_code in {0, 1, 3}, (result.output, result.exception)
        found: dict[str, Any] = json.loads(result.stdout)
        assert found["failures"] == []
        return found


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("sweep")
    with ExitStack() as held:
        made = held.enter_context(hosts(6))
        patch = held.enter_context(pytest.MonkeyPatch.context())
        patch.setenv(
            "XDG_RUNTIME_DIR", held.enter_context(tempfile.TemporaryDirectory(prefix="assay-ssh-run-"))
        )
        swept_programs.put_in(patch)
        servers = [pid for server in made.servers.values() for pid in below(server.pid)]
        group = held.enter_context(slowed.favoured([os.getpid(), *servers]))
        system = {"launcher": "ssh", "hosts": made.names, "config": made.config, "python": "/usr/bin/python3"}
        system["directory"] = str(folder / "remote")
        (folder / "systems.yaml").write_text(json.dumps({"lab": system}))
        yield Lab(made, folder, group)


@pytest.fixture(scope="module")
def baseline(lab: Lab) -> list[str]:
    """A sweep of the hosts as they are, as the words that hold another against it."""
    return [word for session in lab.sweep()["sessions"][:2] for word in ("--baseline", session)]


@pytest.mark.long  # the next test names no healthy one either
def test_healthy_hosts_are_not_named(lab: Lab, baseline: list[str]) -> None:
    found = lab.sweep(*baseline)
    assert [one["slow"] for one in found["nodes"]] == [[]]
    assert found["pairs"]["changes"]
    assert {kind: found["pairs"]["blame"][kind] for kind in ("nodes", "links", "pairs")} == {
        "nodes": [],
        "links": [],
        "pairs": [],
    }


@pytest.mark.long
def test_a_slow_host_a_slow_port_and_a_slow_link_are_named_and_told_apart(
    lab: Lab, baseline: list[str]
) -> None:
    met = [pair for one in pair_rounds(lab.made.names, ROUNDS) for pair in one]
    a, b = next(pair for pair in met if not {SLOW, PORT} & {*pair})
    within = {name: ("ip", "netns", "exec", lab.made.namespace(name)) for name in lab.made.names}
    with (
        slowed.processor(below(lab.made.servers[SLOW].pid), 0.3, inside=lab.group),
        slowed.port("eth0", "100mbit", within=within[PORT]),
        slowed.link("eth0", lab.made.address(lab.made.names.index(b)), "100mbit", within=within[a]),
    ):
        found = lab.sweep(*baseline)
    assert [one["slow"] for one in found["nodes"]] == [[SLOW]]  # by its arithmetic
    blame = found["pairs"]["blame"]
    by_pairs = {one["who"][0] for one in blame["nodes"]}
    assert {PORT} <= by_pairs <= {SLOW, PORT}  # the slow host may have enough of its CPU left to send
    assert [{*one["who"]} for one in blame["links"]] == [{a, b}]
    assert blame["pairs"] == []
    (names,) = found["keep_off"]
    assert {*names["apply"]} == {SLOW, PORT}
