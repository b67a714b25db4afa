"""A program of the site as part of a rank: its output is passed on as it arrives, between two log lines.

    :::MLLOG {… "INTERVAL_START", "key": "report", "value": "client", "metadata": {"labels": {…}, …}}
    what the program prints
    :::MLLOG {… "INTERVAL_END", "key": "report", "metadata": {"exit_code": 0, …}}

So the log's reader has the program's own complete output, and what it was measured on. The kernel ends
the program when this process ends, however that happens.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from assay_payloads.measuring.rank import END, START, Rank

PR_SET_PDEATHSIG = 1
KEPT_BYTES = 1 << 16  # of the output, to find out why the program failed
LIBC = ctypes.CDLL(None, use_errno=True)
NOT_THERE = "it must be installed on the nodes or in the image; set its path if it is not on the PATH"


class FailureWords(NamedTuple):
    """How a program reports failures.

    remedies  a regular expression that a line matches, and what to do about it
    error     such an expression for a failure after which the program exits with 0; None: there is none
    """

    remedies: Sequence[tuple[str, str]] = ()
    error: str | None = None


class SiteProgram:
    """A program that was started. Raises OSError if it can't be started.

    part    which of several outputs this is: `client`, `server`
    labels  distinguish this report from others of the run
    output  its standard output and error, to wait for
    """

    def __init__(
        self, rank: Rank, argv: list[str], part: str, labels: Mapping[str, object], cwd: str | None = None
    ) -> None:
        self.rank, self.name = rank, Path(argv[0]).name
        rank.log("report", part, event=START, labels=dict(labels), command=argv)
        self.process = subprocess.Popen(
            argv,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            preexec_fn=functools.partial(end_with, os.getpid()),  # this process has one thread
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        self.printed = b""
        self.exit_code: int | None = None

    def pass_on(self) -> bool:
        """Wait for output and print it; False once there is no more and the program has ended."""
        came = os.read(self.output.fileno(), 1 << 16)
        if came:
            self.printed = (self.printed + came)[-KEPT_BYTES:]
            sys.stdout.buffer.write(came)
            sys.stdout.buffer.flush()
            return True
        self.output.close()
        self.exit_code = self.process.wait()
        if self.printed and not self.printed.endswith(b"\n"):
            print(flush=True)
        self.rank.log("report", event=END, exit_code=self.exit_code)
        return False

    def why_not(self, failure_words: FailureWords) -> str:
        """How it failed, the line that says why, and what to do if known; "" if it did not fail."""
        code = self.exit_code or 0
        lines = [line.strip() for line in self.printed.decode(errors="replace").splitlines() if line.strip()]
        error = next(
            (line for line in lines if failure_words.error and re.search(failure_words.error, line)), None
        )
        if code == 0 and error is None:
            return ""
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited {code}"
        for pattern, remedy in failure_words.remedies:
            telling = next((line for line in lines if re.search(pattern, line)), None)
            if telling is not None:
                return f"{self.name} {how}: {telling}: {remedy}"
        return f"{self.name} {how}: {error or (lines[-1] if lines else 'it printed nothing')}"


def end_with(parent: int) -> None:
    """In the forked child: let the kernel end it when its parent ends."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(126)


def show(rank: Rank, part: str, labels: Mapping[str, object], text: str) -> None:
    """A report that the program wrote somewhere other than its output."""
    rank.log("report", part, event=START, labels=dict(labels))
    sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
    rank.log("report", event=END)


def printed_by(program: str, option: str) -> str:
    """What the program prints for `--version` or `--help`.

    Raises OSError if it does not exist.
    """
    process = subprocess.run(
        [program, option],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,  # many exit with 1
    )
    return process.stdout.decode(errors="replace")
