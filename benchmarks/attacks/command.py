"""Assay as a process: its output, exit code, time, and memory."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ASSAY = (sys.executable, "-c", "from assay.cli import main; main()")
LIMIT_S = 120.0  # for a command that ends within seconds on an idle machine
EXIT_CODES = frozenset({0, 1, 2, 3, 4, 5, 6})
DAMAGE = ("Traceback (most recent call last)", "MemoryError", "RecursionError", "Fatal Python error")


@dataclass
class Check:
    """One promise, how often it was tried, and every case in which it did not hold."""

    promise: str
    tried: int = 0
    broken: list[str] = field(default_factory=list)

    def expect(self, holds: object, case: str) -> None:
        """Count one case, which is broken unless `holds`."""
        self.tried += 1
        if not holds:
            self.broken.append(case)


@dataclass(frozen=True)
class Ended:
    """A command that has ended; `code` is None if it exceeded its limit and was killed."""

    code: int | None
    text: str
    peak_bytes: int

    @property
    def is_clean(self) -> bool:
        """Whether it ended in time, with a documented exit code and without a traceback."""
        return self.code in EXIT_CODES and not any(word in self.text for word in DAMAGE)

    def __str__(self) -> str:
        lines = self.text.strip().splitlines()
        ended = f"no end within {LIMIT_S:.0f} s" if self.code is None else f"exit code {self.code}"
        return f"{ended}: {lines[-1][:160] if lines else '(nothing printed)'}"


@dataclass
class Running:
    """A command in its own process group, so that what it starts can be killed with it."""

    process: subprocess.Popen[bytes]
    output: Path

    def ends_within(self, limit_s: float) -> bool:
        """Whether it ends within this time; its exit status remains for `end`."""
        give_up = time.monotonic() + limit_s
        while os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if time.monotonic() > give_up:
                return False
            time.sleep(0.01)
        return True

    def end(self, limit_s: float = LIMIT_S) -> Ended:
        """Wait for its end; kill it if that takes longer than `limit_s`."""
        give_up = time.monotonic() + limit_s
        while True:
            pid, status, used = os.wait4(self.process.pid, os.WNOHANG)
            if pid:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                code: int | None = self.process.returncode
                break
            if time.monotonic() > give_up:
                self.kill()
                _, _, used = os.wait4(self.process.pid, 0)
                self.process.returncode, code = -signal.SIGKILL, None
                break
            time.sleep(0.01)
        text = self.output.read_bytes().decode(errors="replace")
        self.output.unlink()
        return Ended(code, text, used.ru_maxrss * 1024)

    def kill(self) -> None:
        """Kill only Assay, as the kernel would; its jobs continue."""
        self.process.send_signal(signal.SIGKILL)


def start(folder: Path, *argv: str, env: Mapping[str, str] | None = None) -> Running:
    """Start `assay ARGV` in a folder."""
    handle, name = tempfile.mkstemp(prefix="assay-output-")
    with os.fdopen(handle, "wb") as output:
        process = subprocess.Popen(
            [*ASSAY, *argv],
            cwd=folder,
            env={**os.environ, "ASSAY_RUNS": str(folder / "runs"), **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    return Running(process, Path(name))


def assay(folder: Path, *argv: str, env: Mapping[str, str] | None = None) -> Ended:
    """Run `assay ARGV` in a folder to its end."""
    return start(folder, *argv, env=env).end()


def write_suite(
    folder: Path, program: str, *, pattern: str = "value (?P<value>[0-9.]+)", **keys: Any
) -> None:
    """A suite, and its system, of one Python program; `keys` are those of the suite."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "program.py").write_text(program)
    params = {
        "argv": ["{python}", str(folder / "program.py")],
        "metrics": {"value": {"pattern": pattern, "better": "higher"}},
    }
    suite = {"suite": "attack", "workload": "command", "params": params, "systems": ["here"], "repeats": 1}
    (folder / "suite.yaml").write_text(json.dumps(suite | keys))
    (folder / "systems.yaml").write_text(json.dumps({"here": {"launcher": "local"}}))


def processes_with(words: Sequence[str] | str) -> list[int]:
    """Processes whose command line or environment contains one of these words."""
    sought = [word.encode() for word in ([words] if isinstance(words, str) else words)]
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            text = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
        except OSError:
            continue
        if any(word in text for word in sought):
            found.append(int(folder.name))
    return found
