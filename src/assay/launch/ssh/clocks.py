"""How far a host's clock is off this machine's, measured over a connection with latency."""

from __future__ import annotations

import subprocess
import time

from assay.launch.ssh.connection import Connection, HostUnreachableError
from assay.records import Scalar

ROUNDS = 7  # the fastest response is the most accurate


def offset(connection: Connection) -> dict[str, Scalar]:
    """`clock.offset_s`, positive if the host is ahead, and its maximum error.

    Empty if the host does not respond.
    """
    try:
        connection.open()
    except HostUnreachableError:
        return {}
    with subprocess.Popen(
        connection.program("clock", "~"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        rounds = [answer for answer in (_ask(process) for _ in range(ROUNDS)) if answer is not None]
    if not rounds:
        return {}
    error_s, offset_s = min(rounds)
    return {"clock.offset_s": round(offset_s, 6), "clock.offset_error_s": round(error_s, 6)}


def _ask(process: subprocess.Popen[str]) -> tuple[float, float] | None:
    """Half the round-trip time, and the offset of the reported time from its midpoint."""
    assert process.stdin is not None
    assert process.stdout is not None
    began, asked_at = time.monotonic(), time.time()
    try:
        process.stdin.write("\n")
        process.stdin.flush()
    except BrokenPipeError:
        return None
    for line in process.stdout:
        if line.startswith("time "):
            half_s = (time.monotonic() - began) / 2
            return half_s, float(line.split()[1]) - (asked_at + half_s)
    return None
