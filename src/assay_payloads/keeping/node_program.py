"""What a node runs before any rank starts, such as bringing data near, and the files that it holds meanwhile.

Runs with only the standard library (3.9 or newer), next to keeper.py.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Any

from assay_payloads.keeping.processes import Processes, ProcessSpec

LAST_BYTES = 4096


def run_before(
    spec: dict[str, Any], env: dict[str, str], node: int, work: Path, streams: Path
) -> tuple[str, str] | None:
    """Run the program; the state and cause of the job's end, or None if it succeeded.

    spec     of the keeper, with `before`
    work     the directory of the job's files, in which it runs
    streams  where its output goes
    """
    program = spec["before"]
    called, log = f"{program['name']} on node {node}", streams / f"{program['name']}-{node}.log"
    try:
        for path in program["holds"]:
            hold(Path(path))
    except OSError as error:
        return "failed", f"{called}: {error.filename}: {error.strerror}"
    job = Processes([ProcessSpec(program["argv"], env, str(work), log)], "it")
    job.start()
    state, cause = job.run_to_end(program["timeout_s"], spec["grace_s"])
    if state == "succeeded":
        return None
    if state == "cancelled":
        return state, "cancelled before the ranks started"
    last = last_line(log) if state == "failed" else ""
    return "failed", f"{called}: {last or cause}"


def hold(path: Path) -> None:
    """Lock a file, shared with others that hold it, for as long as this process lives. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fcntl.flock(os.open(path, os.O_RDONLY | os.O_CREAT, 0o666), fcntl.LOCK_SH)


def last_line(log: Path) -> str:
    """The last line of a stream, of its last 4 KiB; "" if it has none."""
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - LAST_BYTES))
        lines = file.read().decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
