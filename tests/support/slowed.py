"""One node, its port or one link of it made slow for a while; and hosts that neighbours don't slow."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from conftest import require
from ssh_hosts import run

CPU = Path("/sys/fs/cgroup/cpu")  # of cgroup v1
PERIOD_US = 100_000
_FIRST = 2**18  # shares of the CPU, the most that there are; others have 1024
_BURST = "256k"  # of a token bucket: less than one exchange, more than one of the kernel's large packets


@contextmanager
def favoured(pids: list[int]) -> Iterator[Path]:
    """These processes, and what they start, go before all others here; their cgroup."""
    with _group(CPU / f"assay-test-{os.getpid()}", pids, {"cpu.shares": _FIRST}) as own:
        yield own


@contextmanager
def processor(pids: list[int], share: float, *, inside: Path = CPU) -> Iterator[None]:
    """These processes, and what they start, get this share of one CPU; 0.3: 30 ms of each 100.

    inside  their cgroup until now, and again afterwards
    """
    limit = {"cpu.cfs_period_us": PERIOD_US, "cpu.cfs_quota_us": round(share * PERIOD_US)}
    with _group(inside / "slow", pids, {**limit, "cpu.shares": _FIRST}):
        yield


@contextmanager
def quota(group: Path, share: float) -> Iterator[None]:
    """All of a cgroup that is there gets this share of one CPU."""
    period_us = int((group / "cpu.cfs_period_us").read_text())
    with _setting(group / "cpu.cfs_quota_us", round(share * period_us)):
        yield


@contextmanager
def favour(group: Path) -> Iterator[None]:
    """A cgroup that is there goes before all beside it."""
    with _setting(group / "cpu.shares", _FIRST):
        yield


@contextmanager
def _setting(file: Path, value: int) -> Iterator[None]:
    before = file.read_text()
    file.write_text(str(value))
    try:
        yield
    finally:
        file.write_text(before)


@contextmanager
def _group(own: Path, pids: list[int], settings: Mapping[str, int]) -> Iterator[Path]:
    able = os.geteuid() == 0 and (CPU / "tasks").exists()
    require("cpu-quota", able, "needs root and the cpu controller of cgroup v1")
    own.mkdir()
    try:
        for name, value in settings.items():
            (own / name).write_text(str(value))
        _move(pids, own)
        yield own
    finally:
        _move(map(int, (own / "cgroup.procs").read_text().split()), own.parent)
        own.rmdir()


def _move(pids: Iterable[int], to: Path) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # it ended meanwhile
            (to / "cgroup.procs").write_text(str(pid))


@contextmanager
def port(device: str, rate: str, *, within: tuple[str, ...] = ()) -> Iterator[None]:
    """All that leaves by this device, at most so fast: `100mbit`.

    within  words before `tc`, which enter a network namespace
    """
    tried = run(
        *within,
        *(
            "tc",
            "qdisc",
            "add",
            "dev",
            device,
            "root",
            "tbf",
            "rate",
            rate,
            "burst",
            _BURST,
            "latency",
            "50ms",
        ),
        check=False,
    )
    require("tc", tried.returncode == 0, f"no token bucket here: {tried.stderr!r}")
    try:
        yield
    finally:
        run(*within, "tc", "qdisc", "delete", "dev", device, "root")


@contextmanager
def link(device: str, to: str, rate: str, *, within: tuple[str, ...] = ()) -> Iterator[None]:
    """What leaves by this device for one address, at most so fast; the rest as before."""
    tc = (*within, "tc")
    tried = run(*tc, "qdisc", "add", "dev", device, "root", "handle", "1:", "htb", check=False)
    require("tc", tried.returncode == 0, f"no hierarchical token bucket here: {tried.stderr!r}")
    try:
        run(*tc, "class", "add", "dev", device, "parent", "1:", "classid", "1:1", "htb", "rate", rate)
        match = ("match", "ip", "dst", f"{to}/32", "flowid", "1:1")  # what matches nothing isn't shaped
        run(*tc, "filter", "add", "dev", device, "parent", "1:", "protocol", "ip", "u32", *match)
        yield
    finally:
        run(*tc, "qdisc", "delete", "dev", device, "root")
