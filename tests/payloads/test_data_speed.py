"""How fast a directory is read: what is measured on a real disk, and what is made of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from assay import payload_files
from assay.checks import machine
from assay.cli import assay
from assay.launch import programs
from assay.records import Scalar
from conftest import require

TOLD: dict[str, Scalar] = {
    "data.directory": "/data",
    "data.files": 12,
    "data.file_system": "ext4",
    "data.page_cache": "passed by O_DIRECT",
    "data.read_bytes": 10**10,
    "data.rates": 5,
    "data.rate": 2.0e9,
    "data.rate_low": 1.8e9,
    "data.rate_high": 2.2e9,
}


def measured(directory: Path, code: Path, group: Path | None = None) -> dict[str, Scalar]:
    """What the program tells of the directory, run in a control group if one is named."""
    payload_files.lay_out(code, payload_files.files(programs.DATA))
    argv = [sys.executable, str(code / payload_files.path_of(programs.DATA)), str(directory)]
    if group is not None:
        argv = ["sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$@"', "sh", *argv]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
    return programs.output_facts(programs.DATA, f"{done.stdout}\n{done.stderr}")


@pytest.mark.parametrize(
    ("at_least", "state", "words"),
    [
        (None, "ok", "2 GB/s (1.8 GB/s to 2.2 GB/s in 5 rounds), 10 GB of 12 files in /data (ext4)"),
        (1.5e9, "ok", "enough in every round"),
        (2.1e9, "warn", "undecided"),
        (3e9, "fail", "required 3 GB/s: too slow in every round"),
    ],
)
def test_a_speed_is_judged_by_all_of_its_rounds(at_least: float | None, state: str, words: str) -> None:
    check = machine.data_speed(TOLD, at_least)
    assert check.state == state
    assert words in check.evidence


def test_two_rounds_decide_nothing() -> None:
    check = machine.data_speed({**TOLD, "data.rates": 2}, 1e9)
    assert check.state == "unknown"
    assert "too few rounds" in check.evidence


def test_what_was_not_measured_has_no_speed() -> None:
    assert machine.data_speed({}, 1e9).state == "unknown"
    assert machine.data_speed({"data.error": "/data: No such file or directory"}, 1e9).state == "fail"
    assert machine.data_speed({"data.unmeasured": "the page cache keeps it"}, 1e9).state == "unknown"


@pytest.mark.slow
def test_files_of_a_real_disk_are_read_once_and_past_the_page_cache(tmp_path: Path) -> None:
    where = tmp_path / "data"
    (where / "deep").mkdir(parents=True)
    for name, size in (("large", 70 * 2**20 + 5), ("deep/small", 100_001), ("empty", 0)):
        (where / name).write_bytes(os.urandom(size))
    os.sync()
    facts = measured(where, tmp_path / "code")
    assert facts["data.files"] == 2
    assert facts["data.read_bytes"] == 70 * 2**20 + 5 + 100_001, "each byte once"
    assert facts["data.page_cache"] in ("passed by O_DIRECT", "dropped before reading")
    assert machine.data_speed(facts, None).state == "ok"


@pytest.mark.long
def test_a_disk_slower_than_a_round_has_a_speed_in_each(tmp_path: Path) -> None:
    group = Path(f"/sys/fs/cgroup/blkio/assay-test-{os.getpid()}")
    require("cgroup-v1", os.access(group.parent, os.W_OK), "no I/O controller of version 1 to write to")
    device, bytes_per_s = tmp_path.stat().st_dev, 2**20  # a read takes two rounds
    (tmp_path / "file").write_bytes(os.urandom(6 * 2**20))
    os.sync()
    group.mkdir()
    try:
        limit = f"{os.major(device)}:{os.minor(device)} {bytes_per_s}"
        (group / "blkio.throttle.read_bps_device").write_text(limit)
        facts = measured(tmp_path, tmp_path.parent / "code", group)
    finally:
        group.rmdir()
    low, rate = float(facts["data.rate_low"] or 0), float(facts["data.rate"] or 0)
    assert low > 0, facts
    assert 0.3 < rate / bytes_per_s < 3, facts
    assert machine.data_speed(facts, 1e8).state == "fail"


def test_a_directory_in_memory_is_refused_and_not_called_fast(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        pytest.skip("no /dev/shm to write to")
    where = memory / f"assay-test-{os.getpid()}"
    where.mkdir()
    try:
        (where / "file").write_bytes(os.urandom(2**23))
        facts = measured(where, tmp_path / "code")
    finally:
        (where / "file").unlink()
        where.rmdir()
    assert machine.data_speed(facts, 1.0).state == "unknown", facts


@pytest.mark.parametrize("what", ["nothing", "too little", "no directory"])
def test_a_directory_that_tells_no_speed_says_why(tmp_path: Path, what: str) -> None:
    where = tmp_path / "data"
    if what != "no directory":
        where.mkdir()
    if what == "too little":
        (where / "file").write_bytes(b"x")
    facts = measured(where, tmp_path / "code")
    assert "data.rate" not in facts
    assert machine.data_speed(facts, None).state == ("unknown" if what == "too little" else "fail")


def test_a_speed_without_data_or_without_a_unit_is_refused() -> None:
    said = CliRunner().invoke(assay, ["doctor", "--at-least", "2GB/s"])
    assert said.exit_code == 2
    assert "--data DIR" in said.output
    said = CliRunner().invoke(assay, ["doctor", "--data", "/tmp", "--at-least", "2GB"])
    assert said.exit_code == 2
    assert "write a speed, such as 2GB/s" in said.output
    said = CliRunner().invoke(assay, ["doctor", "--data", "here"])
    assert said.exit_code == 2
    assert "expected an absolute path" in said.output


@pytest.mark.long
@pytest.mark.torch
@pytest.mark.slow
def test_the_doctor_reads_where_the_trials_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(os.urandom(2**24))
    os.sync()  # what isn't written yet stays in the page cache
    asked = ["doctor", "--data", str(tmp_path), "--json"]
    said = CliRunner().invoke(assay, asked)
    found = {check["name"]: check for check in json.loads(said.stdout)["checks"]}
    assert found["data"]["state"] == "ok"
