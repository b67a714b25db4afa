"""Run a command on this machine and record the command, its output and its duration.

This is the only place where Assay calls other tools (`nvidia-smi`, `git`, `sbatch`); tests fake it here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from assay.errors import HostError

_LOOK_S: Final = 0.02  # between looks at a command that is to end


class ProgramMissingError(HostError):
    """The command's program is not installed here, or may not be executed."""


class CommandTimeoutError(HostError):
    """The command did not end in time and was killed, with everything it had started."""


@dataclass(frozen=True)
class CompletedCommand:
    """A command that ran to its end, whatever its exit code.

    exit_code   0 to 255, or minus the number of the signal that killed it
    stdout      decoded as UTF-8; bytes that are not become U+FFFD
    duration_s  on a monotonic clock
    """

    argv: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str
    duration_s: float

    @property
    def ok(self) -> bool:
        """Whether the command succeeded."""
        return self.exit_code == 0

    @property
    def words(self) -> str:
        """Its output, on one line: standard error, or else standard output."""
        return " ".join((self.stderr.strip() or self.stdout.strip()).split())


def run(
    argv: Sequence[str],
    *,
    timeout_s: float = 30.0,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    stdin: str | bytes | Path = "",
    grace_s: float = 0.0,
) -> CompletedCommand:
    """Run `argv` without a shell and wait for it; a non-zero exit code is a result, not an error.

    env      added to Assay's own environment
    stdin    what the command reads; a path is opened, so that it can read all of it even if Assay is killed
    grace_s  for a command that has to clean up, or that starts sessions of its own; 0: when it has to end,
             its process group is killed

    Raises ProgramMissingError if there is no such program, CommandTimeoutError after `timeout_s`.

    >>> run(["printf", "%s", "a b"]).stdout
    'a b'
    """
    began = time.monotonic()
    with (
        _missing_programs_named(),
        stdin.open("rb") if isinstance(stdin, Path) else nullcontext(subprocess.PIPE) as source,
    ):
        process = subprocess.Popen(
            list(argv),
            stdin=source,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **env} if env else None,
            cwd=cwd,
            start_new_session=True,
        )
    with process:
        try:
            stdin_data = stdin.encode() if isinstance(stdin, str) else stdin
            stdout, stderr = process.communicate(
                None if isinstance(stdin_data, Path) else stdin_data, timeout_s
            )
        except BaseException as error:
            _end(process, grace_s)
            if isinstance(error, subprocess.TimeoutExpired):
                raise CommandTimeoutError(f"{argv[0]}: no answer within {timeout_s:g} s") from None
            raise
    return CompletedCommand(
        argv=tuple(argv),
        exit_code=process.returncode,
        stdout=stdout.decode(errors="replace"),
        stderr=stderr.decode(errors="replace"),
        duration_s=time.monotonic() - began,
    )


@contextmanager
def _missing_programs_named() -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, PermissionError, NotADirectoryError) as error:
        raise ProgramMissingError(
            f"{error.filename}: {error.strerror}; install it or put it on PATH"
        ) from error


def _end(process: subprocess.Popen[Any], grace_s: float) -> None:
    """End a command with everything that it started, also in sessions of their own.

    Those sessions go first: an engine whose container dies fails that step and removes what it made for it.
    A command that is still there after grace_s gets SIGTERM, and is killed after grace_s once more.
    """
    started: dict[int, _Process] = {}
    try:
        if grace_s:
            started = _descendants(process.pid)
            apart = [descendant for descendant in started.values() if descendant.session != process.pid]
            _kill(apart)
            if not apart or not _ends(process, grace_s):
                started |= _descendants(process.pid)
                _signal_group(process.pid, signal.SIGTERM)
                _ends(process, grace_s)
    finally:
        started |= _descendants(process.pid) if grace_s else {}
        _signal_group(process.pid, signal.SIGKILL)
        _kill(started.values())


def _ends(process: subprocess.Popen[Any], limit_s: float) -> bool:
    """Wait for a process; whether it ended in this time. Another thread may wait for it, too."""
    give_up = time.monotonic() + limit_s
    while process.poll() is None and time.monotonic() < give_up:
        time.sleep(_LOOK_S)
    return process.poll() is not None


@dataclass(frozen=True)
class _Process:
    """A process, which its ID and start time identify."""

    pid: int
    parent: int
    session: int
    start_ticks: int


def _process(pid: int) -> _Process | None:
    """The process of this ID; None if there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return _Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def _descendants(ancestor: int) -> dict[int, _Process]:
    """What a process has started, directly or not, and whose parents are still there, by their IDs."""
    here = [_process(int(entry.name)) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    children: dict[int, list[_Process]] = {}
    for process in here:
        if process is not None:
            children.setdefault(process.parent, []).append(process)
    descendants: dict[int, _Process] = {}
    left = [ancestor]
    while left:
        for process in children.get(left.pop(), ()):
            descendants[process.pid] = process
            left.append(process.pid)
    return descendants


def _kill(processes: Iterable[_Process]) -> None:
    for process in processes:
        now = _process(process.pid)
        if now is not None and now.start_ticks == process.start_ticks:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)


def _signal_group(leader: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, number)


def follow(
    argv: Sequence[str],
    on_line: Callable[[str], None],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
    grace_s: float = 0.0,
) -> CompletedCommand:
    """Run `argv` as `run` does and pass on each line of its output when it comes.

    Both streams are one: `stdout` of the answer has all of it, `stderr` is empty.

    Raises ProgramMissingError if there is no such program, CommandTimeoutError after `timeout_s`.
    """
    began = time.monotonic()
    with _missing_programs_named():
        process = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **env} if env else None,
            start_new_session=True,
            text=True,
            errors="replace",
        )
    late = threading.Event()

    def end() -> None:
        late.set()
        _end(process, grace_s)

    limit = threading.Timer(timeout_s, end)
    limit.start()
    lines = []
    with process:
        try:
            for line in process.stdout or ():
                lines.append(line)
                on_line(line.rstrip("\n"))
            process.wait()
        except BaseException:
            end()
            raise
        finally:
            limit.cancel()
    if late.is_set():
        raise CommandTimeoutError(f"{argv[0]}: not finished within {timeout_s:g} s")
    return CompletedCommand(tuple(argv), process.returncode, "".join(lines), "", time.monotonic() - began)
