"""Processes of this machine, identified reliably: a process ID alone is reused after a while."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

PROC = Path("/proc")
GONE = (FileNotFoundError, ProcessLookupError)


@cache
def boot_id() -> str:
    """What distinguishes this boot of the machine from every other."""
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def host() -> str:
    """The name of this machine."""
    return socket.gethostname()


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks after boot; None if it has ended."""
    try:
        fields = (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except GONE:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def runs(pid: int, started: int) -> bool:
    """Whether the process with this ID and start time is still running."""
    return start_ticks(pid) == started


@contextmanager
def watched(pid: int | None) -> Iterator[Callable[[float], None]]:
    """A sleep in seconds that the end of this process cuts short, if the kernel supports it (from 5.3)."""
    try:
        pidfd = os.pidfd_open(pid or 0)
    except OSError:  # no such process, or not supported by this kernel
        yield time.sleep
        return
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)

        def pause(seconds: float) -> None:
            poll.poll(seconds * 1000)

        yield pause
    finally:
        os.close(pidfd)


def with_variable(name: str, value: str) -> list[int]:
    """Processes whose environment had this variable when their program started, as far as visible."""
    variable = f"{name}={value}".encode()
    pids = []
    for entry in PROC.iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with suppress(PermissionError, *GONE):
                if variable in (entry / "environ").read_bytes().split(b"\0"):
                    pids.append(int(entry.name))
    return pids


def values_of(name: str) -> dict[int, str]:
    """Processes whose environment had this variable → its value, excluding those inside containers."""
    prefix, own = f"{name}=".encode(), _process_namespace(os.getpid())
    value_by_pid = {}
    for entry in PROC.iterdir():
        if entry.name.isdigit():
            with suppress(PermissionError, *GONE):
                for variable in (entry / "environ").read_bytes().split(b"\0"):
                    if variable.startswith(prefix) and _process_namespace(int(entry.name)) == own:
                        value_by_pid[int(entry.name)] = variable.removeprefix(prefix).decode(errors="replace")
    return value_by_pid


def _process_namespace(pid: int) -> str:
    return str((PROC / str(pid) / "ns/pid").readlink())


def kill_with_variable(name: str, value: str, patience_s: float) -> list[int]:
    """Kill every process with this variable until none is left; returns those that remain, if any."""
    give_up = time.monotonic() + patience_s
    while pids := with_variable(name, value):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > give_up:
            return pids
        time.sleep(0.01)
    return []
