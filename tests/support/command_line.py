"""The command line in this process: what a command prints and how it ends, without the time to import it."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from assay.cli import main


def assay(
    directory: Path, *words: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What `assay` with these words does in a directory, as `subprocess.run` has it."""
    out, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="", write_through=True) for _ in range(2))
    at_interrupt = signal.getsignal(signal.SIGINT)
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
    ):
        patch.chdir(directory)
        patch.setattr(sys, "argv", ["assay", *words])
        for name, value in (env or {}).items():
            patch.setenv(name, value)
        try:
            main()
        except SystemExit as ended:
            code = ended.code
        finally:
            signal.signal(signal.SIGINT, at_interrupt)
    assert isinstance(code, int)
    said = (stream.buffer.getvalue().decode() for stream in (out, errors))
    return subprocess.CompletedProcess(words, code, *said)


def typed(
    directory: Path, line: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """What a line does that a person types: one of `assay` alone is run here, any other by a shell."""
    words = shlex.split(line)
    if words[0] == "assay" and not set(line) & set("|&;<>$`*?~(){}#"):
        return assay(directory, *words[1:], env=env)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", line],
        cwd=directory,
        env={**os.environ, **(env or {}), "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
