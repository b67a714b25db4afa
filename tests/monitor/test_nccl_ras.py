"""What NCCL reports names the ranks that others wait for; the server speaks NCCL's protocol."""

from __future__ import annotations

import json
import socketserver
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import http_servers
from assay.errors import InputError
from assay.monitor.nccl_ras import RasCommunicator, RasRank, RasWatch, ras_communicators, watch
from command_line import assay as typed
from conftest import long_but


def answer(counts: Sequence[int], missing: Sequence[dict[str, Any]] = (), **changes: Any) -> bytes:
    """The layout of NCCL 2.28.7's client_support.cc: one communicator, counts of AllReduce by rank."""
    ranks = [
        {
            "rank": rank,
            "host": f"10.0.0.{rank}",
            "pid": 100 + rank,
            "cuda_dev": 0,
            "nvml_dev": 0,
            "status": {
                "init_state": 0,
                "async_error": 0,
                "finalize_called": False,
                "destroy_flag": False,
                "abort_flag": False,
            },
            "collective_counts": {"Broadcast": 1, "AllReduce": count},
            **changes,
        }
        for rank, count in enumerate(counts)
    ]
    one = {"hash": "0xab12", "secondary_hash": "0x1:0x2", "size": len(counts) + len(missing)}
    one |= {"ranks_count": len(counts), "missing_ranks_count": len(missing)}
    return json.dumps(
        {
            "nccl_version": "2.28.7",
            "communicators_count": 1,
            "communicators": [{**one, "ranks": ranks, "missing_ranks": list(missing)}],
            "ras": {"collection_time_sec": 0.001, "timeouts_count": 0},
        },
        indent=2,
    ).encode()


LOST = {
    "rank": 2,
    "host": "10.0.0.2",
    "pid": 102,
    "cuda_dev": 0,
    "nvml_dev": 0,
    "status": {"unresponsive": True, "considered_dead": False},
}


@contextmanager
def served(answers: Sequence[bytes], *, format_answer: bytes = b"OK\n") -> Iterator[str]:
    """A server like NCCL's; after the last answer it is gone."""
    left = list(answers)

    class Connection(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            assert self.rfile.readline() == b"CLIENT PROTOCOL 2\n"
            self.wfile.write(b"SERVER PROTOCOL 2\n")
            assert self.rfile.readline() == b"TIMEOUT 10\n"
            self.wfile.write(b"OK\n")
            assert self.rfile.readline() == b"SET FORMAT json\n"
            self.wfile.write(format_answer)
            if self.rfile.readline() == b"VERBOSE STATUS\n" and left:
                self.wfile.write(left.pop(0))

    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)
    with http_servers.served(server):
        yield f"127.0.0.1:{server.server_address[1]}"


def of(*counts: int) -> list[RasCommunicator]:
    return ras_communicators(answer(counts))


def test_ranks_that_have_called_less_are_named_once_nothing_changes() -> None:
    watched = RasWatch()
    for step in range(20):
        watched.take(of(step, step + 1, step + 1), 10.0 * step)
        assert not watched.names_a_rank  # counts that differ are normal while they change
    watched.take(of(19, 20, 20), 270.0)
    assert watched.stalls == ()  # 80 s are 8 times the longest pause
    watched.take(of(19, 20, 20), 271.0)
    (stall,) = watched.stalls
    assert [one.rank for one in stall.behind] == [0]
    assert (stall.operation, stall.low, stall.high) == ("AllReduce", 19, 20)
    assert (stall.silent_s, stall.longest_gap_s) == (81.0, 10.0)
    watched.take(of(20, 20, 20), 272.0)
    assert watched.stalls == ()


def test_an_idle_communicator_is_no_stall() -> None:
    watched = RasWatch()
    for at_s in (0.0, 1e3, 1e6):
        watched.take(of(5, 5, 5), at_s)
    assert not watched.names_a_rank


def test_a_job_that_hung_before_is_named_after_ten_minutes() -> None:
    watched = RasWatch()
    for at_s, stalls in ((0.0, 0), (599.0, 0), (601.0, 1)):
        watched.take(of(5, 4, 5), at_s)
        assert len(watched.stalls) == stalls
    assert watched.stalls[0].behind[0].rank == 1


@pytest.mark.long
@pytest.mark.parametrize("step_s", long_but(1, [60.0, 1.0]))
def test_of_healthy_jobs_at_most_5_in_100_have_a_rank_named(step_s: float) -> None:
    random, named, jobs = np.random.default_rng(7), 0, 100
    for _ in range(jobs):
        pauses = step_s * (1 + random.pareto(2.5, 500))
        watched, at_s = RasWatch(), 0.0
        for step, pause in enumerate(pauses):
            # rank 0 is late by the whole pause, the least favorable case; looks right after and right before
            ranks = tuple(RasRank(rank, "n", rank, {"AllReduce": step + (rank > 0)}) for rank in range(2))
            watched.take([RasCommunicator("c", 2, ranks)], at_s)
            at_s += float(pause)
            watched.take([RasCommunicator("c", 2, ranks)], at_s)
            if watched.stalls:
                named += 1
                break
    assert named <= 0.05 * jobs


def test_a_lost_rank_is_named_at_the_second_answer_without_it() -> None:
    watched = RasWatch()
    for turn in range(2):
        watched.take(ras_communicators(answer([1, 1], [LOST])), float(turn))
        assert bool(watched.lost) is (turn == 1)
    assert [one.rank for one in watched.lost["0xab12/0x1:0x2"]] == [2]


@pytest.mark.parametrize(("error", "count"), [(0, 0), (7, 0), (6, 1)])
def test_an_error_of_nccl_is_named_but_not_an_operation_in_progress(error: int, count: int) -> None:
    watched = RasWatch()
    watched.take(ras_communicators(answer([1], status={"async_error": error})), 0.0)
    assert len(watched.failed) == count


def test_the_command_asks_until_the_job_ends(tmp_path: Path) -> None:
    with served([answer([1, 1], [LOST])] * 2) as address:
        said = typed(tmp_path, "watch", "--nccl-ras", address, "--every", "0.2s")
    assert said.returncode == 1
    assert "1 communicator, the largest of 3 ranks" in said.stdout
    assert said.stdout.count("no answer from rank 2 (10.0.0.2, process 102)") == 1
    with served([answer([1, 2])] * 9) as address:
        said = typed(tmp_path, "watch", "--nccl-ras", address, "--every", "0.2s", "--for", "0.5s", "--json")
    assert said.returncode == 0
    lines = said.stdout.strip().splitlines()
    first, _ = json.JSONDecoder().raw_decode(said.stdout)
    assert lines
    assert first["communicators"][0]["ranks"][1]["counts"] == {"Broadcast": 1, "AllReduce": 2}
    assert (first["stalls"], first["lost"], first["failed"]) == ([], {}, {})


def test_where_nobody_answers_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    said = typed(tmp_path, "watch", "--nccl-ras", "127.0.0.1:1")
    assert said.returncode == 4
    assert "no job's NCCL answers there" in said.stderr
    for address in ("localhost", ":1", "localhost:0", "localhost:99999999", "localhost:x"):
        with pytest.raises(InputError, match="expected HOST:PORT"):
            next(watch(address, 1.0))


def test_an_nccl_without_json_is_an_error() -> None:
    with (
        served([], format_answer=b"ERROR: unknown command\n") as address,
        pytest.raises(InputError, match=r"from 2\.28\.7 on"),
    ):
        next(watch(address, 1.0))


@pytest.mark.parametrize(
    "text",
    [
        b"x",
        b"[" * 100_000,
        b"[]",
        b"{}",
        b'{"communicators": [3]}',
        answer([1], host="\x1b[2J"),
        answer([1], pid="4"),
        answer([1], rank=None),
        answer([1, 1], rank=0),
        answer([1], collective_counts={"AllReduce": 1.5}),
        answer([1], collective_counts={"All\nReduce": 1}),
        answer([1], status=[]),
        answer([1])[:-40],
        b"\xff\xfe\x00",
    ],
)
def test_what_is_not_the_answer_of_nccl_is_an_error(text: bytes) -> None:
    with served([text]) as address, pytest.raises(InputError, match="the answer is not NCCL's"):
        next(watch(address, 1.0))


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.monitor.nccl_ras.LARGEST_BYTES", 1000)
    with served([b"x" * 10_000]) as address, pytest.raises(InputError, match="more than 1000 bytes"):
        next(watch(address, 1.0))
