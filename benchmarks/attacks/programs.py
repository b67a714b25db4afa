"""Programs that hang, flood, print garbage or one very long line, or feed a pattern that backtracks."""

from __future__ import annotations

import json
import os
import random
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from attacks.command import Check, Ended, assay, processes_with, write_suite
from attacks.fuzz import training_log

SUITE = ("run", "suite.yaml", "--quiet")
HANG = """
import signal, subprocess, time
print("value 5", flush=True)
subprocess.Popen(["sleep", "{sleep}"])
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(1000)
"""
GARBAGE = r"""
import os, sys
out = sys.stdout.buffer
out.write(os.urandom(100_000) + b"\n")
out.write(b"\x1b[2J\x1b[31mRED\x1b]0;owned\x07\x1b[0m\n\r\x00\x00\xff\xfe\n")
out.write(b':::MLLOG {"key": "throughput", "value": 99999999}\n:::MLLOG {broken\n')
out.write(b"value nan\nvalue -5\nvalue 1e999\nvalue <script>alert(1)</script>\n")
out.write(b"value 5\n")
"""
LONG_LINE = """
import sys
for _ in range({megabytes}): sys.stdout.write("y" * 10**6)
print("\\nvalue 5")
"""
FLOOD = """
import sys
while True: sys.stdout.write("line of a flood\\n" * 10_000)
"""
BACKTRACKS = "(\\w+\\s?)*images/sec: (?P<value>[0-9.]+)"
FEEDS_IT = 'print("a " * 60 + "images/s" + "e" * 5)\nprint("images/sec: 5")'


def odd_programs(folder: Path, megabytes: int, draw: random.Random) -> list[Check]:
    """One run of each; `megabytes`: length of the long line, and the limit of a flood."""
    return [check for attack in _ATTACKS for check in attack(folder / attack.__name__, megabytes)]


def _hang(folder: Path, megabytes: int) -> Iterator[Check]:
    sleep = f"1000.{uuid.uuid4().int % 10**9}"
    write_suite(folder, HANG.format(sleep=sleep), timeout="2s")
    ended = assay(folder, *SUITE)
    check = Check("a program that hangs is ended at its time limit, with what it started")
    check.expect(ended.is_clean and ended.code == 1, str(ended))
    check.expect("time" in _cause(folder), f"its cause: {_cause(folder)!r}")
    check.expect(not processes_with(f"sleep\0{sleep}"), f"sleep {sleep} still runs")
    yield check


def _garbage(folder: Path, megabytes: int) -> Iterator[Check]:
    write_suite(folder, GARBAGE)
    check = Check("garbage next to the figures reaches no terminal, and no page as a script")
    for argv in (SUITE, ("show", "attack"), ("report", "attack", "-o", "page.html")):
        ended = assay(folder, *argv)
        check.expect(ended.is_clean and "\x1b]0;" not in ended.text, f"{argv[0]}: {ended}")
    page = folder / "page.html"
    check.expect(page.exists() and "<script>alert(1)" not in page.read_text(), "the page holds its script")
    yield check


def _long_line(folder: Path, megabytes: int) -> Iterator[Check]:
    write_suite(folder, LONG_LINE.format(megabytes=megabytes))
    ended = assay(folder, *SUITE)
    check = Check("one very long line does not take memory of its size, and the next line counts")
    check.expect(ended.is_clean and _values(folder) == [5.0], f"{_values(folder)}; {ended}")
    least = assay(folder, "show", "attack").peak_bytes
    most = least + max(100, megabytes // 2) * 10**6
    check.expect(ended.peak_bytes < most, f"{ended.peak_bytes / 1e6:.0f} MB for a line of {megabytes} MB")
    yield check


def _flood(folder: Path, megabytes: int) -> Iterator[Check]:
    write_suite(folder, FLOOD, max_output=f"{megabytes}MB", timeout="60s")
    ended = assay(folder, *SUITE)
    check = Check("a program that floods the disk is ended at max_output, which is the cause")
    check.expect(ended.is_clean and ended.code == 1, str(ended))
    check.expect("output" in _cause(folder), f"its cause: {_cause(folder)!r}")
    kept = sum(path.stat().st_size for path in (folder / "runs").rglob("*") if path.is_file())
    check.expect(kept < 2 * megabytes * 10**6 + 10**7, f"{kept / 1e6:.0f} MB were kept")
    yield check


def _backtracking(folder: Path, megabytes: int) -> Iterator[Check]:
    write_suite(folder, FEEDS_IT, pattern=BACKTRACKS)
    check = Check("a pattern that would backtrack for years finishes in time")
    for argv in (SUITE, ("show", "attack"), SUITE):
        ended = assay(folder, *argv)
        check.expect(ended.is_clean, f"{argv[0]}: {ended}")
    yield check


def _no_file(folder: Path, megabytes: int) -> Iterator[Check]:
    """A FIFO, a device and a directory where a training log is expected."""
    check = Check("a FIFO, a device, or a directory instead of a log is an error, not a wait")
    for name in ("fifo", "device", "directory"):
        own = folder / name
        own.mkdir(parents=True)
        (own / "result_1.txt").write_text("".join(training_log()))
        log = own / "result_0.txt"
        if name == "fifo":
            os.mkfifo(log)
        elif name == "device":
            log.symlink_to("/dev/zero")
        else:
            log.mkdir()
        ended = assay(folder, "score", str(own))
        check.expect(ended.is_clean, f"{name}: {ended}")
    yield check


_ATTACKS = (_hang, _garbage, _long_line, _flood, _backtracking, _no_file)


def _runs(folder: Path) -> list[dict[str, Any]]:
    shown: Ended = assay(folder, "show", "attack", "--json")
    with suppress(json.JSONDecodeError, KeyError, TypeError):
        return list(json.loads(shown.text)["runs"])
    return []


def _cause(folder: Path) -> str:
    return "; ".join(run["cause"] for run in _runs(folder))


def _values(folder: Path) -> list[float]:
    return [one["value"] for run in _runs(folder) for one in run["measurements"]]
