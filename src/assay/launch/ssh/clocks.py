"""How far the clock of a host is from ours, over a connection that takes its time."""

from __future__ import annotations

import subprocess
import time

from assay.launch.ssh.connection import Connection, HostUnreachableError
from assay.records import Scalar

ROUNDS = 7  # the quickest answer tells most


def offset(connection: Connection) -> dict[str, Scalar]:
    """`clock.offset_s`, positive where the host is ahead, and the most that this can be wrong by.

    Nothing where the host does not answer.
    """
    try:
        connection.open()
    except HostUnreachableError:
        return {}
    with subprocess.Popen(
        connection.program("clock", "~"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        rounds = [asked for asked in (_ask(process) for _ in range(ROUNDS)) if asked is not None]
    if not rounds:
        return {}
    error_s, offset_s = min(rounds)
    return {"clock.offset_s": round(offset_s, 6), "clock.offset_error_s": round(error_s, 6)}


def _ask(process: subprocess.Popen[str]) -> tuple[float, float] | None:
    """Half the time that the answer took, and how far its middle is from the time it told."""
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
