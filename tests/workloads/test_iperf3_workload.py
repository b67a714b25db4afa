"""Workload iperf3: the real program between two ranks, on this machine and from node to node."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from assay.payload_files import lay_out
from assay.records import Reading, Shape
from assay.workloads.point_to_point import IPERF3, Iperf3Params
from conftest import require
from payload_processes import end, free_port, start, torchrun
from slurm_cluster import slurm_cluster  # noqa: F401  (a fixture)

QUICK = {"seconds": 1, "omit_seconds": 0}


@pytest.fixture(autouse=True)
def _program() -> None:
    require("iperf3", shutil.which("iperf3") is not None, "install iperf3")


def unpack(directory: Path, patience_s: float | None = None, **given: Any) -> list[str]:
    """The task's files there, and its command; less patient than they are where that is said."""
    task = IPERF3.task(Iperf3Params(**{**QUICK, **given}), Shape(2, 1), 1)
    lay_out(directory, {file.name: file.data for file in task.files})
    if patience_s is not None:
        for name in ("exchange/pair.py", "measuring/rendezvous.py"):
            file = directory / "assay_payloads" / name
            file.write_text(
                re.sub(r"(?m)^((?:MEET|LISTEN|END)_S) = .*$", rf"\1 = {patience_s}", file.read_text())
            )
    return list(task.argv)


def begin(directory: Path, **given: Any) -> list[subprocess.Popen[str]]:
    """Both ends, started as their task says."""
    argv = unpack(directory, **given)
    port = free_port()
    return [
        start(argv, directory, torchrun(rank, 2, port), directory / f"rank-{rank}.log") for rank in range(2)
    ]


def read(directory: Path) -> Reading:
    logs = {path.name: path for path in sorted(directory.glob("rank-?.log"))}
    return IPERF3.reader.read(logs, Iperf3Params())


def test_each_direction_is_measured_with_retransmits_and_cpu_time(tmp_path: Path) -> None:
    ends = begin(tmp_path, directions=["0-to-1", "1-to-0", "both"], streams=2)
    assert [end(process) for process in ends] == [(0, ""), (0, "")]
    reading = read(tmp_path)
    assert reading.problems == ()
    assert {tuple(m.labels.items()) for m in reading.measurements if m.metric == "bandwidth"} == {
        (("direction", "0-to-1"),),
        (("direction", "1-to-0"),),
        (("direction", "both"), ("way", "0-to-1")),
        (("direction", "both"), ("way", "1-to-0")),
    }
    assert all(m.value > 0 for m in reading.measurements if m.metric in ("bandwidth", "cores"))
    assert {m.metric for m in reading.measurements} == {metric.name for metric in IPERF3.reader.metrics(None)}
    assert reading.facts["num_streams"] == 2
    assert {m.file for m in reading.measurements} == {"rank-1.log"}


def test_a_log_that_lost_its_end_is_no_result(tmp_path: Path) -> None:
    for process in begin(tmp_path, directions=["0-to-1"]):
        end(process)
    log = tmp_path / "rank-1.log"
    log.write_bytes(log.read_bytes()[:-900])
    reading = read(tmp_path)
    assert reading.measurements == ()
    assert "the log of rank 1 ends before the program's end" in reading.problems


def test_a_program_that_is_not_there_is_named_by_both(tmp_path: Path) -> None:
    ended = [end(process) for process in begin(tmp_path, program="/no/such/iperf3")]
    assert [code for code, _ in ended] == [1, 1]
    assert all("/no/such/iperf3 can't be started: No such file" in errors for _, errors in ended)


def test_a_port_that_somebody_listens_on_is_told_and_nobody_else_is_measured(tmp_path: Path) -> None:
    with socket.create_server(("", 0)) as other:
        port = other.getsockname()[1]
        ended = [end(process) for process in begin(tmp_path, port=port)]
    assert [code for code, _ in ended] == [1, 1]
    assert all(f"port {port} is already in use" in errors for _, errors in ended)


def test_an_error_after_which_it_exits_well_fails_both_ends_with_its_own_words(tmp_path: Path) -> None:
    ended = [end(process) for process in begin(tmp_path, congestion="nonesuch")]
    assert [code for code, _ in ended] == [1, 1]
    # which of them depends on which end noticed first
    causes = (
        "algorithm not supported|unable to send control message: Broken pipe|"
        "unable to write to stream socket: Connection reset by peer"
    )
    told = f'iperf3 exited 0: "error":.*({causes})'
    assert all(re.search(told, errors) for _, errors in ended), ended


def test_an_end_that_is_killed_takes_its_program_and_the_other_end_along(tmp_path: Path) -> None:
    server, client = begin(tmp_path, seconds=60)
    patience = time.monotonic() + 30
    while len(programs_in(tmp_path)) < 2 and time.monotonic() < patience:
        time.sleep(0.1)
    assert programs_in(tmp_path) == ["iperf3", "iperf3"]
    server.kill()
    code, errors = end(client)
    assert (code, "rank 0 ended without a report" in errors) == (1, True)
    end(server)
    assert programs_in(tmp_path) == []


def programs_in(directory: Path) -> list[str]:
    """Names of the measuring programs that run there, dead ones aside."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it ended
            if (entry / "cwd").readlink() == directory and (entry / "comm").read_text() == "iperf3\n":
                found.append("iperf3")
    return found


def test_whoever_does_not_know_the_jobs_token_is_not_taken_for_the_other_end(tmp_path: Path) -> None:
    argv = unpack(tmp_path, directions=["1-to-0"])
    port = free_port()
    ranks = [torchrun(rank, 2, port) | {"ASSAY_TOKEN": "ours"} for rank in range(2)]
    logs = [tmp_path / f"rank-{rank}.log" for rank in range(2)]
    server = start(argv, tmp_path, ranks[0], logs[0])
    with stranger(port) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n\r\n")
        client = start(argv, tmp_path, ranks[1], logs[1])
        assert [end(process) for process in (server, client)] == [(0, ""), (0, "")]
    assert read(tmp_path).problems == ()


def stranger(port: int) -> socket.socket:
    """A connection to whoever will listen there."""
    patience = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            assert time.monotonic() < patience
            time.sleep(0.05)


SILENT = "#!/bin/sh\nexec sleep 60\n"
HANGING = f"""#!{sys.executable}
import re
import socket, sys, time
port = int(sys.argv[sys.argv.index("--port") + 1])
if "--server" in sys.argv:
    with socket.create_server(("", port)) as server:
        server.accept()
else:
    socket.create_connection((sys.argv[2], port))
    time.sleep(60)
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SILENT, "does not listen on port"),
        (HANGING, "is still running 2 s after the program on the other end ended"),
    ],
    ids=["a server that never listens", "a client that never ends"],
)
def test_a_program_that_does_not_go_on_ends_both(tmp_path: Path, text: str, words: str) -> None:
    program = tmp_path / "program"
    program.write_text(text)
    program.chmod(0o755)
    ended = [end(process) for process in begin(tmp_path, patience_s=2.0, program=str(program))]
    assert [code for code, _ in ended] == [1, 1]
    assert all(words in errors for _, errors in ended), ended


@pytest.mark.parametrize(
    ("rank", "words"), [(0, "the other end did not connect to"), (1, "can't reach rank 0 at 127.0.0.1:")]
)
def test_an_end_that_stays_alone_says_where_it_waited(tmp_path: Path, rank: int, words: str) -> None:
    argv = unpack(tmp_path, patience_s=0.5)
    code, errors = end(start(argv, tmp_path, torchrun(rank, 2, free_port()), tmp_path / "log"))
    assert code == 1
    assert words in errors


def test_ranks_that_are_neither_end_have_nothing_to_do(tmp_path: Path) -> None:
    argv = unpack(tmp_path)
    log = tmp_path / "rank-1.log"
    assert end(start(argv, tmp_path, torchrun(1, 4, free_port()), log)) == (0, "")
    assert '"INTERVAL_END", "key": "payload"' in log.read_text()
