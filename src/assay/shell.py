"""Run a command on this machine and record the command, its output and its duration.

This is the only place where Assay calls other tools (`nvidia-smi`, `git`, `sbatch`); tests fake it here.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from assay.errors import HostError


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
) -> CompletedCommand:
    """Run `argv` without a shell and wait for it; a non-zero exit code is a result, not an error.

    env    added to Assay's own environment
    stdin  what the command reads; a path is opened, so that it can read all of it even if Assay is killed

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
            words = stdin.encode() if isinstance(stdin, str) else stdin
            stdout, stderr = process.communicate(None if isinstance(words, Path) else words, timeout_s)
        except BaseException as error:
            _kill_group(process.pid)
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


def _kill_group(leader: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def follow(
    argv: Sequence[str],
    on_line: Callable[[str], None],
    *,
    timeout_s: float,
    env: Mapping[str, str] | None = None,
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
        _kill_group(process.pid)

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
