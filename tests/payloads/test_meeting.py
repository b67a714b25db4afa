"""Ranks of several nodes: none starts before all are there. Real keepers, as nodes of one machine."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from assay import payload_files
from assay.launch import job_spec
from conftest import long_but
from payload_processes import free_port

TELL = "import time; print(time.time())"


class Nodes:
    """One job's keepers, started one by one."""

    def __init__(self, directory: Path, nodes: int, *, limit_s: float, code: str, address: str) -> None:
        self.directory, self.nodes, self.port = directory, nodes, free_port()
        self.address, self.token = address, uuid.uuid4().hex
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        payload_files.lay_out(directory, payload_files.files(job_spec.KEEPER))
        spec = {
            "token": self.token, "argv": [sys.executable, "-S", "-c", code], "cwd": str(directory),
            "env": {}, "ranks": 2, "nodes": nodes, "seed": 1, "timeout_s": 30.0, "grace_s": 0.5,
            "max_output_bytes": None, "start_timeout_s": limit_s, "pin_cpus": False, "probe": None,
            "probe_timeout_s": 1.0,
        }  # fmt: skip
        (directory / "spec.json").write_text(json.dumps(spec))

    def start(self, node: int) -> subprocess.Popen[bytes]:
        keeper = self.directory / payload_files.path_of(job_spec.KEEPER)
        argv = [sys.executable, "-I", "-S", str(keeper), str(self.directory)]
        env = {"NODE": str(node), "MASTER_ADDR": self.address, "MASTER_PORT": str(self.port)}
        self.running[node] = subprocess.Popen([*argv, "--node-from", "NODE"], env=env)
        return self.running[node]

    def said(self, node: int, name: str) -> dict[str, Any] | None:
        path = self.directory / f"node-{node}" / name
        found: dict[str, Any] | None = json.loads(path.read_bytes()) if path.exists() else None
        return found

    def await_said(self, node: int, name: str) -> dict[str, Any]:
        give_up = time.monotonic() + 60
        while (found := self.said(node, name)) is None:
            assert time.monotonic() < give_up, f"node {node} has not written {name}"
            time.sleep(0.01)
        return found

    def ends(self) -> list[dict[str, Any]]:
        for one in self.running.values():
            one.wait(60)
        return [self.await_said(node, "ended.json") for node in sorted(self.running)]


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Any]:
    with ExitStack() as held:

        def make(nodes: int, *, limit_s: float = 60.0, code: str = TELL, address: str = "127.0.0.1") -> Nodes:
            job = Nodes(tmp_path, nodes, limit_s=limit_s, code=code, address=address)
            held.callback(lambda: [one.kill() or one.wait() for one in job.running.values()])
            return job

        yield make


@pytest.mark.long
@pytest.mark.parametrize("order", long_but(1, [(0, 1, 2), (2, 1, 0)]))
def test_no_rank_starts_before_the_last_node_is_there(made: Any, order: tuple[int, ...]) -> None:
    job = made(3)
    *early, last = order
    for node in early:
        job.start(node)
    for node in early:
        job.await_said(node, "waiting.json")
    assert all(job.said(node, "started.json") is None for node in early)
    here = time.time()
    job.start(last)
    assert [end["state"] for end in job.ends()] == ["succeeded"] * 3
    starts = [float((job.directory / f"node-{r // 2}/streams/rank-{r}.log").read_text()) for r in range(6)]
    assert min(starts) > here


def test_ranks_that_never_come_are_named_and_the_others_run_nothing(made: Any) -> None:
    job = made(3, limit_s=2.5)
    job.start(0)
    job.start(1)
    ends = job.ends()
    assert [(end["state"], end["cause"]) for end in ends] == [
        ("failed", "ranks 4 to 5 of 6 did not start within 2.5 s, or can't reach rank 0")
    ] * 2
    assert not list(job.directory.glob("node-*/streams/rank-*"))


def test_a_first_node_that_never_comes_is_named_too(made: Any) -> None:
    job = made(2, limit_s=0.5)
    job.start(1)
    (cause,) = (end["cause"] for end in job.ends())
    assert cause.startswith("ranks 0 to 1 of 4 could not be reached within 0.5 s (at 127.0.0.1:")


def test_an_unknown_name_is_the_first_node_that_is_missing_not_a_fault_of_dns(made: Any) -> None:
    job = made(2, limit_s=0.5, address="no-such-pod.invalid")
    job.start(1)
    (cause,) = (end["cause"] for end in job.ends())
    assert cause.startswith(
        "ranks 0 to 1 of 4 could not be reached within 0.5 s (its name no-such-pod.invalid: "
    )


def test_a_node_that_dies_before_all_have_met_is_waited_for_again(made: Any) -> None:
    job = made(3)
    job.start(0)
    dead = job.start(1)
    assert job.await_said(0, "waiting.json")["for"].startswith("rank")
    dead.kill()
    dead.wait()
    job.start(2)
    time.sleep(0.5)
    assert job.said(2, "started.json") is None
    assert job.said(0, "started.json") is None
    job.running[0].send_signal(signal.SIGTERM)
    assert job.running[0].wait(60) == 143
    assert job.await_said(0, "ended.json")["cause"] == "cancelled before the ranks started"


def test_strangers_at_the_port_are_no_ranks(made: Any) -> None:
    job = made(2)
    job.start(0)
    job.await_said(0, "waiting.json")
    for word in (b"GET / HTTP/1.1\r\n", b"\xff\xfe 1\n", b"other-token 1\n", f"{job.token} 7\n".encode()):
        with socket.create_connection(("127.0.0.1", job.port)) as stranger:
            stranger.sendall(word)
            assert stranger.recv(10) == b""
    assert job.said(0, "started.json") is None
    job.start(1)
    assert [end["state"] for end in job.ends()] == ["succeeded"] * 2


def test_rank_0_can_listen_at_once_where_the_nodes_have_met(made: Any) -> None:
    code = """
import os, socket
if os.environ["RANK"] == "0":
    with socket.socket() as server:  # without SO_REUSEADDR
        server.bind(("", int(os.environ["MASTER_PORT"])))
"""
    job = made(2, code=code)
    job.start(0)
    job.start(1)
    assert [end["state"] for end in job.ends()] == ["succeeded"] * 2


def test_a_port_that_is_taken_is_the_cause(made: Any) -> None:
    job = made(2)
    with socket.create_server(("", job.port)):
        job.start(0).wait(60)
    cause = job.await_said(0, "ended.json")["cause"]
    assert f"port {job.port}" in cause
    assert "in use" in cause


def test_time_in_suspension_is_not_time_that_a_node_waits_for_the_others(made: Any) -> None:
    job = made(2, limit_s=4.0)
    first = job.start(0)
    job.await_said(0, "waiting.json")
    first.send_signal(signal.SIGSTOP)
    time.sleep(3.0)
    first.send_signal(signal.SIGCONT)
    time.sleep(0.5)
    job.start(1)
    assert [end["state"] for end in job.ends()] == ["succeeded"] * 2
