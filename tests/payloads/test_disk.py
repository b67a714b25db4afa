"""A disk is read past the page cache, or not at all: a figure is never memory's."""

from __future__ import annotations

import argparse
import mmap
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from assay.errors import InputError
from assay.records import Reading, Shape
from assay.workloads import WORKLOADS
from assay_payloads.micro import disk
from conftest import require
from payload_processes import end, run_workload, start

PROGRAM = "assay_payloads.micro.disk"
MIB = 2**20
SMALL: Mapping[str, Any] = {"size_bytes": 16 * MIB, "min_time_s": 0.05}


@pytest.fixture
def on_disk(tmp_path: Path) -> Path:
    kinds = subprocess.run(["stat", "-f", "-c", "%T", tmp_path], capture_output=True, check=True, text=True)
    require("disk", kinds.stdout.strip() not in {"tmpfs", "ramfs"}, "temporary files lie in memory here")
    return tmp_path


def measured(reading: Reading) -> dict[tuple[str, object], float]:
    return {(m.metric, m.labels.get("percentile")): m.value for m in reading.measurements}


def test_a_directory_is_measured_and_nothing_is_left_in_it(on_disk: Path) -> None:
    place = on_disk / "scratch"
    place.mkdir()
    reading = run_workload(on_disk, "disk", 1, 1, {"directory": str(place), **SMALL, "min_time_s": 0.3})
    assert reading.problems == ()
    found = measured(reading)
    assert found["read_bandwidth", None] > 0
    assert 0 < found["random_read_latency", 50.0] <= found["random_read_latency", 90.0] < 0.3
    assert reading.facts["file_bytes"] == 16 * MIB
    assert reading.facts["page_cache"] in {"passed by O_DIRECT", "dropped before reading"}
    assert list(place.iterdir()) == []


def test_a_file_that_is_there_is_read_and_stays(on_disk: Path) -> None:
    file = on_disk / "train.bin"
    content = os.urandom(4 * MIB + 17)
    file.write_bytes(content)
    os.sync()
    reading = run_workload(on_disk, "disk", 1, 1, {"file": str(file), "min_time_s": 0.05})
    assert reading.problems == ()
    assert reading.facts["file_bytes"] == len(content)
    assert file.read_bytes() == content


def failing(tmp_path: Path, *options: str) -> str:
    """What a program that has to fail says; it must print no figure."""
    log = tmp_path / "out.log"
    code, errors = end(start(["{python}", "-m", PROGRAM, *options], tmp_path, {}, log))
    assert code == 1
    assert '"unit"' not in log.read_text()
    assert "Traceback" not in errors
    return errors


def test_a_directory_in_memory_is_refused(tmp_path: Path) -> None:
    require("shm", Path("/dev/shm").is_dir(), "no file system in memory here")
    said = failing(tmp_path, "--directory", "/dev/shm", "--size-bytes", str(16 * MIB))
    assert "/dev/shm is on tmpfs" in said
    assert "this would measure memory; use another directory" in said


def test_a_test_file_takes_at_most_half_of_the_free_space(tmp_path: Path) -> None:
    assert "a test file may take at most half" in failing(
        tmp_path, "--directory", str(tmp_path), "--size-bytes", str(2**50)
    )
    assert list(tmp_path.glob(".assay*")) == []


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--directory", "/nowhere"), "/nowhere: No such file or directory"),
        (("--file", "/nowhere/x"), "/nowhere/x: No such file or directory"),
        (("--file", "/"), "/: not a regular file"),
    ],
)
def test_a_place_that_is_none_is_told(tmp_path: Path, options: tuple[str, str], complaint: str) -> None:
    assert complaint in failing(tmp_path, *options)


def test_a_file_too_small_to_measure_is_told(on_disk: Path) -> None:
    small = on_disk / "small"
    small.write_bytes(b"x" * 5000)
    assert f"{small}: 5000 bytes; it must have at least 1048576" in failing(on_disk, "--file", str(small))


def test_a_killed_program_leaves_no_file(on_disk: Path) -> None:
    place = on_disk / "scratch"
    place.mkdir()
    argv = [sys.executable, "-m", PROGRAM, "--directory", str(place), "--min-time-s", "30"]
    with subprocess.Popen([*argv, "--size-bytes", str(16 * MIB)], stdout=subprocess.DEVNULL) as running:
        time.sleep(0.5)
        running.send_signal(signal.SIGKILL)
    assert list(place.iterdir()) == []


def test_of_another_users_file_o_direct_is_believed_and_the_result_says_so(on_disk: Path) -> None:
    require("root", os.geteuid() == 0, "only root can be somebody else")
    file = on_disk / "train.bin"
    file.write_bytes(os.urandom(2 * MIB))
    os.sync()
    source = disk.given(str(file))
    require("o-direct", source.direct is not None, "no O_DIRECT here")
    os.seteuid(65534)
    try:
        told = disk.shows_cached(source.fd), disk.really_direct(source, MIB), disk.way(source)
        with pytest.raises(PermissionError, match="only the file's owner"):
            disk.count_cached(source.fd, [0], MIB)
    finally:
        os.seteuid(0)
    assert told == (False, True, "passed by O_DIRECT, not checked: another user's file")
    assert disk.way(source) == "passed by O_DIRECT"


class ToldError(Exception):
    """What a rank failed with."""


class Listening:
    """A rank that keeps what it is told."""

    size = 1

    def __init__(self) -> None:
        self.facts: dict[str, Any] = {}

    def log(self, key: str, value: object = None, **_metadata: object) -> None:
        self.facts[key] = value

    def fail(self, message: str) -> None:
        raise ToldError(message)


@pytest.fixture
def through_the_cache(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Measures a file as where the file system has no O_DIRECT; what the rank was told."""
    monkeypatch.setattr(disk, "opened_directly", lambda _path: None)

    def measure(file: Path) -> Listening:
        rank = Listening()
        options = argparse.Namespace(directory=None, file=str(file), seed=1, readers=2, min_time_s=0.05)
        options.block_bytes, options.random_block_bytes = MIB, 4096
        disk.measure(rank, options)
        return rank

    return measure


def test_without_o_direct_the_cache_drops_the_file_first_and_the_result_says_so(
    on_disk: Path, through_the_cache: Any
) -> None:
    file = on_disk / "train.bin"
    file.write_bytes(os.urandom(8 * MIB))
    os.sync()
    facts = through_the_cache(file).facts
    assert facts["page_cache"] == "dropped before reading"
    assert facts["read_bandwidth"] > 0


def test_a_file_that_the_cache_keeps_is_refused(on_disk: Path, through_the_cache: Any) -> None:
    file = on_disk / "train.bin"
    file.write_bytes(os.urandom(8 * MIB))
    os.sync()
    with file.open("rb") as other, mmap.mmap(other.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[::4096]) > 0  # so that each page is there, and can't be dropped while it is mapped
        with pytest.raises(ToldError, match="keeps 8 of 8 sampled blocks: this would measure memory"):
            through_the_cache(file)


def test_a_page_that_is_not_the_one_written_is_an_error(on_disk: Path) -> None:
    file = on_disk / "swapped"
    file.write_bytes(b"\1" * 8192)
    fd = os.open(file, os.O_RDONLY)
    source = disk.Source(fd, None, 8192, own=True, where=str(file))
    with pytest.raises(OSError, match="differs from the data written there"):
        disk.read_at(source, mmap.mmap(-1, 4096), 4096)
    os.close(fd)


@pytest.mark.parametrize("params", [{}, {"directory": "/a", "file": "/b"}, {"directory": "scratch"}])
def test_one_place_on_the_node_has_to_be_named(params: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match=r"give either directory|String should match pattern"):
        WORKLOADS["disk"].params(**params)


def test_a_disk_is_read_by_one_rank() -> None:
    params = WORKLOADS["disk"].params(file="/data/x")
    task = WORKLOADS["disk"].task(params, Shape(1, 1), 3)
    assert "--size-bytes" not in task.argv
    assert {Path(file.name).name for file in task.files} == {
        "__init__.py",
        "disk.py",
        "rank.py",
        "service_level.py",
    }
    with pytest.raises(InputError, match="a disk is read by one rank; use shape 1x1"):
        WORKLOADS["disk"].task(params, Shape(2, 1), 3)
