"""Workload storage: the real fio from one rank and from several at once."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from assay.payload_files import lay_out
from assay.records import Reading, Shape
from assay.workloads.storage import STORAGE, StorageParams
from conftest import require
from payload_processes import end, free_port, start, torchrun

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = {"size_bytes": 2**22, "jobs": 2, "seconds": 1, "ramp_seconds": 0, "checkpoint_bytes": 2**22}
FILES = {"files": 1000, "file_bytes": 4096}


@pytest.fixture(autouse=True)
def _program() -> None:
    require("fio", shutil.which("fio") is not None, "install fio")


def begin(directory: Path, storage: Path, ranks: int = 1, **given: Any) -> list[subprocess.Popen[str]]:
    params = StorageParams(**{"directory": str(storage), **SMALL, **FILES, **given})
    task = STORAGE.task(params, Shape(ranks, 1), 1)
    lay_out(directory, {file.name: file.data for file in task.files})
    port = free_port()
    return [
        start(list(task.argv), directory, torchrun(rank, ranks, port), directory / f"rank-{rank}.log")
        for rank in range(ranks)
    ]


def read(directory: Path) -> Reading:
    logs = {path.name: path for path in sorted(directory.glob("rank-?.log"))}
    return STORAGE.reader.read(logs, None)


def found(reading: Reading, metric: str) -> dict[tuple[Any, ...], float]:
    return {tuple(m.labels.values()): m.value for m in reading.measurements if m.metric == metric}


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    (tmp_path / "storage").mkdir()
    return tmp_path / "storage"


@pytest.mark.long
def test_every_phase_of_two_clients_is_one_figure_and_leaves_no_file(tmp_path: Path, storage: Path) -> None:
    ended = [end(process) for process in begin(tmp_path, storage, ranks=2)]
    assert ended == [(0, ""), (0, "")]
    reading = read(tmp_path)
    assert reading.problems == ()
    assert found(reading, "read_bandwidth").keys() == {("sequential-read",), ("random-read",)}
    assert found(reading, "write_bandwidth").keys() == {("sequential-write",), ("random-write",)}
    assert found(reading, "checkpoint_time").keys() == {("save",), ("load",)}
    assert found(reading, "file_rate").keys() == {(x,) for x in ("create", "stat", "list", "read", "delete")}
    assert {m.metric for m in reading.measurements} == {m.name for m in STORAGE.reader.metrics(None)}
    assert all(m.value > 0 for m in reading.measurements)
    assert reading.facts["world_size"] == 2
    assert list(storage.iterdir()) == []


def test_a_client_whose_report_is_not_there_makes_no_result(tmp_path: Path, storage: Path) -> None:
    phases = ["sequential-write", "random-read"]
    for process in begin(tmp_path, storage, ranks=2, phases=phases):
        assert end(process) == (0, "")
    log = tmp_path / "rank-1.log"
    lines = log.read_text().splitlines(keepends=True)
    starts = [at for at, line in enumerate(lines) if '"report"' in line and "INTERVAL_START" in line]
    log.write_text("".join(lines[: starts[1]]) + lines[-1])
    reading = read(tmp_path)
    assert reading.measurements == ()
    assert any("random-read: 1 of 2 clients have a report" in problem for problem in reading.problems)


def test_a_client_that_is_killed_takes_the_other_along_and_the_next_run_removes_its_files(
    tmp_path: Path, storage: Path
) -> None:
    phases = ["sequential-write", "random-read"]
    first, second = begin(tmp_path, storage, ranks=2, phases=phases, seconds=20)
    until = time.monotonic() + 60
    while '"random-read"' not in (tmp_path / "rank-1.log").read_text() and time.monotonic() < until:
        time.sleep(0.05)
    second.kill()
    end(second)
    first.send_signal(signal.SIGTERM)
    assert end(first)[0] != 0
    assert len(list(storage.iterdir())) == 1  # of the killed one
    [again] = begin(tmp_path, storage, phases=["sequential-write"])
    assert end(again) == (0, "")
    assert list(storage.iterdir()) == []


def test_one_that_ends_early_is_told_by_the_others(tmp_path: Path, storage: Path) -> None:
    first, second = begin(tmp_path, storage, ranks=2, seconds=3)
    until = time.monotonic() + 60
    while '"sequential-read"' not in (tmp_path / "rank-0.log").read_text() and time.monotonic() < until:
        time.sleep(0.05)
    first.kill()
    code, errors = end(second)
    assert code == 1
    assert "another rank ended early" in errors
    end(first)


@pytest.mark.long
def test_ranks_that_start_together_leave_each_others_files_alone(tmp_path: Path, storage: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        for process in begin(tmp_path / str(number), storage, ranks=4, phases=["sequential-write"]):
            assert end(process) == (0, "")
    assert list(storage.iterdir()) == []


def test_a_program_that_is_not_there_is_named(tmp_path: Path, storage: Path) -> None:
    [process] = begin(tmp_path, storage, program="/no/such/fio")
    code, errors = end(process)
    assert code == 1
    assert "/no/such/fio can't be started: it must be installed on the nodes" in errors


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    [process] = begin(tmp_path, tmp_path / "none")
    assert "none: No such file or directory" in end(process)[1]


def test_files_may_take_half_of_what_is_free_and_no_more(tmp_path: Path, storage: Path) -> None:
    [process] = begin(tmp_path, storage, size_bytes=2**50, phases=["sequential-write"])
    code, errors = end(process)
    assert code == 1
    assert "may take at most half" in errors
    assert list(storage.iterdir()) == []


@pytest.mark.long
def test_a_disk_that_fills_up_is_a_failure_with_its_words(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "16m") as disk:
        [process] = begin(
            tmp_path,
            disk,
            size_bytes=2**22,
            direct=False,
            phases=["sequential-write", "random-read"],
            seconds=3,
        )
        until = time.monotonic() + 60
        while not list(disk.glob(".assay-storage-*/data.*")) and time.monotonic() < until:
            time.sleep(0.01)
        other = disk / "other"
        with other.open("wb") as file:
            try:
                while True:
                    file.write(b"\0" * 2**16)
                    file.flush()
            except OSError:
                pass
        code, _ = end(process)
        reading = read(tmp_path)
        assert (code == 0) == (reading.problems == ())  # written before the other, or no result
        assert bool(reading.measurements) == (code == 0)
        assert list(disk.glob(".assay-storage-*")) == []


@contextmanager
def small_disk(place: Path, size: str) -> Iterator[Path]:
    require("mount-namespaces", os.geteuid() == 0, "only root mounts a small disk")
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"phases": ["random-read"]}, "add sequential-write to phases"),
        ({"phases": ["file-read"]}, "add file-create to phases"),
        ({"jobs": 64}, "less than a block of 1048576 for each of the 64 jobs"),
        ({"directory": "scratch"}, "pattern"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_the_suite(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        StorageParams(**{"directory": "/x", **SMALL, **given})
