"""The relay that says what a job prints, and the reader that puts it together again."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import tarfile
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path

import pytest

from assay.launch.frames import Frame, FrameReader, Gap, Joiner, PlainLine
from assay_payloads.keeping import relay
from assay_payloads.keeping.relay import MARK, UNKEPT, WAITS

RELAY = Path(relay.__file__)
NOISE = b"\x00\xff\r\n:::ASSAY-FRAME rank-0 0 3 00000000\nno\n" * 3


def spec(argv: list[str], cwd: Path, **more: object) -> dict[str, object]:
    usual = {"token": "t0", "argv": argv, "cwd": str(cwd), "env": {}, "ranks": 1, "nodes": 1, "seed": 1}
    limits = {
        "timeout_s": 60,
        "grace_s": 1,
        "start_timeout_s": 60,
        "probe_timeout_s": 5,
        "max_output_bytes": 1 << 30,
    }
    return {**usual, **limits, "pin_cpus": False, "probe": None, "outputs": [], **more}


def relayed(directory: Path, *options: str, **env: str) -> tuple[int, bytes]:
    argv = [sys.executable, "-I", "-S", str(RELAY), str(directory), *options]
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=False, env={**os.environ, **env})
    return done.returncode, done.stdout


def let_start(first_node: socket.socket) -> None:
    """As the keeper of node 0 does when all others have come."""
    connection, _ = first_node.accept()
    with connection:
        assert connection.recv(100) == b"t0 1\n"
        connection.sendall(b"{}\n")


def put_together(text: bytes, taken: dict[str, int] | None = None) -> tuple[dict[str, bytes], Joiner]:
    joiner, streams = Joiner(dict(taken or {})), {}
    for item in FrameReader().feed(text):
        if isinstance(item, Frame):
            streams[item.stream] = streams.get(item.stream, b"") + joiner.join(item)
    return streams, joiner


@pytest.fixture
def printed(tmp_path: Path) -> bytes:
    """A real job's log, of some frames, as a pod's would be."""
    code = f"import sys; [sys.stdout.buffer.write({NOISE!r} + b'%d\\n' % i) for i in range(10_000)]"
    asked = spec([sys.executable, "-c", code], tmp_path)
    (tmp_path / "spec.json").write_text(json.dumps(asked))
    code_, text = relayed(tmp_path, "--keep")
    assert code_ == 0
    return text


def expected() -> bytes:
    return b"".join(NOISE + b"%d\n" % i for i in range(10_000))


def test_every_byte_of_a_job_comes_through_whatever_it_prints(printed: bytes) -> None:
    streams, joiner = put_together(printed)
    assert streams["rank-0"] == expected()
    assert joiner.gaps == {}
    ended = json.loads(streams["ended-0"])
    assert ended["state"] == "succeeded"
    assert ended["streams"]["rank-0"]["bytes"] == len(expected())
    assert ended["streams"]["rank-0"]["lines"] == expected().count(b"\n")


@pytest.mark.parametrize("data", [NOISE, b"at its end\r", b"\r", b"bare \r inside", b"a\r\n" * 60_000])
def test_a_channel_that_drops_carriage_returns_before_line_ends_drops_none_of_the_job(
    tmp_path: Path, data: bytes
) -> None:
    (tmp_path / "printed").write_bytes(data)
    asked = spec(["cat", "printed"], tmp_path)
    (tmp_path / "spec.json").write_text(json.dumps(asked))
    _, text = relayed(tmp_path, "--keep")
    streams, joiner = put_together(text.replace(b"\r\n", b"\n"))
    assert streams["rank-0"] == data
    assert joiner.gaps == {}


def test_it_does_not_matter_how_the_channel_cuts(printed: bytes) -> None:
    dice, reader, joiner, got, at = random.Random(1), FrameReader(), Joiner({}), b"", 0
    while at < len(printed):
        size = dice.choice([1, 7, 4096, 100_000])
        for item in reader.feed(printed[at : at + size]):
            if isinstance(item, Frame):
                new = joiner.join(item)
                got += new if item.stream == "rank-0" else b""
        at += size
    assert got == expected()


def test_reading_from_the_beginning_again_repeats_nothing(printed: bytes) -> None:
    streams, joiner = put_together(printed)
    again, _ = put_together(printed, joiner.taken)
    assert set(again.values()) == {b""}
    tail, _ = put_together(printed, {"rank-0": 1_000_001})
    assert tail["rank-0"] == expected()[1_000_001:]
    assert streams["rank-0"] == expected()


def test_what_a_rotated_log_lost_is_a_gap_and_never_wrong_data(printed: bytes) -> None:
    size = len(printed)
    for lost in (slice(size // 20, size // 2), slice(0, size // 3)):
        text = printed[: lost.start] + printed[lost.stop :]
        streams, joiner = put_together(text)
        assert expected().startswith(streams.get("rank-0", b""))
        gap = joiner.gaps["rank-0"]
        assert gap.begin == len(streams.get("rank-0", b""))
        assert gap.end > gap.begin
    assert str(Gap("rank-0", 5, 9)) == "bytes 5 to 9 of rank-0"


def test_a_gap_is_closed_when_the_log_is_read_again_in_whole(printed: bytes) -> None:
    cut = printed[: len(printed) // 20] + printed[len(printed) // 2 :]
    streams, joiner = put_together(cut)
    rest = b""
    for item in FrameReader().feed(printed):
        if isinstance(item, Frame) and item.stream == "rank-0":
            rest += joiner.join(item)
    assert streams["rank-0"] + rest == expected()
    assert joiner.gaps == {}


def test_bytes_that_were_changed_on_the_way_are_not_taken(printed: bytes) -> None:
    at = len(printed) // 2
    streams, joiner = put_together(printed[:at] + bytes([printed[at] ^ 1]) + printed[at + 1 :])
    assert expected().startswith(streams["rank-0"])
    assert len(streams["rank-0"]) < len(expected())
    assert joiner.taken["rank-0"] < len(expected())


def test_what_the_platform_says_between_frames_comes_as_lines() -> None:
    said = list(FrameReader().feed(b"exec: python3: not found\n" + MARK.encode() + b" broken\n"))
    assert said == [PlainLine(b"exec: python3: not found"), PlainLine(MARK.encode() + b" broken")]


def test_what_the_relay_says_between_frames_is_told_from_what_the_platform_says() -> None:
    lines = f"{WAITS}node 2\n{UNKEPT}5 bytes in 1 file\nexec: python3: not found\n"
    said = [item for item in FrameReader().feed(lines.encode()) if isinstance(item, PlainLine)]
    assert [(one.waits_for, one.unkept) for one in said] == [
        ("node 2", ""),
        ("", "5 bytes in 1 file"),
        ("", ""),
    ]


def test_a_line_without_end_is_given_in_parts() -> None:
    reader = FrameReader()
    assert (
        sum(len(item.line) for item in reader.feed(b"x" * 1_000_000) if isinstance(item, PlainLine)) > 900_000
    )
    assert len(reader._rest) < 100_000


def test_a_pod_lays_out_its_files_runs_its_share_and_ends_as_its_rank_did(tmp_path: Path) -> None:
    source, kept = tmp_path / "source", tmp_path / "kept"
    source.mkdir()
    code = (
        "import os; print(os.environ['RANK'], open('in/given.txt').read()); open('out.csv', 'w').write('1,2')"
    )
    code += "; open('empty.csv', 'w').close(); raise SystemExit(7)"
    asked = spec([sys.executable, "-c", code], kept / "work", nodes=2, ranks=2, outputs=["*.csv", "in/*"])
    (source / "spec.json").write_text(json.dumps(asked))
    packed = BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        member = tarfile.TarInfo("in/given.txt")
        member.size = 4
        archive.addfile(member, BytesIO(b"here"))
    (source / "files.tar.gz.0").write_bytes(packed.getvalue()[:50])
    (source / "files.tar.gz.1").write_bytes(packed.getvalue()[50:])
    with socket.create_server(("127.0.0.1", 0)) as first_node, ThreadPoolExecutor(1) as meanwhile:
        started = meanwhile.submit(let_start, first_node)
        meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(first_node.getsockname()[1])}
        asked_for = ("--keep", "--unpack", str(source), "--node-from", "NODE")
        code_, text = relayed(kept, *asked_for, NODE="1", **meeting)
        started.result()
    streams, _ = put_together(text)
    assert code_ == 7
    ended = json.loads(streams["ended-1"])
    first = next(end["rank"] for end in ended["exits"] if end["first"])
    assert ended["state"] == "failed"
    assert first in (2, 3)
    assert streams[f"rank-{first}"] == b"%d here\n" % first
    assert streams["file:out.csv"] == b"1,2"
    assert streams["file:empty.csv"] == b""
    assert "file:in/given.txt" not in streams


def test_a_keeper_that_is_killed_is_told(tmp_path: Path) -> None:
    code = "import os, signal; os.kill(os.getppid(), signal.SIGKILL); import time; time.sleep(60)"
    (tmp_path / "spec.json").write_text(json.dumps(spec([sys.executable, "-c", code], tmp_path)))
    code_, text = relayed(tmp_path, "--keep")
    assert code_ == 137
    assert b"killed by SIGKILL" in text
    assert "ended-0" not in put_together(text)[0]
