"""A program that is killed once a file shows how far it is."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path


def killed_at(argv: Sequence[str], runs: Path, sign: str) -> bool:
    """Start the program and kill it once a path below `runs` matches; whether it was still running."""
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None and not list(runs.glob(sign)):
        time.sleep(0.02)
    was_running = process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    return was_running
