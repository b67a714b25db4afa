"""uv, which finds versions, resolves, and installs: Assay has no resolver of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.version import Version

from assay import shell
from assay.errors import HostError
from assay.shell import CommandTimeoutError, CompletedCommand

_RESOLVE_TIMEOUT_S: Final = 120.0
_ENV: Final = {
    "UV_PYTHON_DOWNLOADS": "never",
    "UV_NO_PROGRESS": "1",
    "NO_COLOR": "1",
}
_NO_SPACE: Final = re.compile(r"No space left on device|Disk quota exceeded|os error (28|122)\b")
_UNREACHABLE: Final = re.compile(
    r"error sending request|Failed to fetch|dns error|Could not connect|Request failed after"
    r"|status code 5\d\d"
)


class UvError(Exception):
    """uv refused; `words` is everything that it said."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.words = message


@dataclass(frozen=True)
class Interpreter:
    """A Python on this machine."""

    version: str
    path: str


def program() -> str:
    """The path of uv. Raises HostError if it is not installed."""
    beside = Path(sys.executable).with_name("uv")
    path = str(beside) if beside.exists() else shutil.which("uv")
    if path is None:
        raise HostError("uv is not installed; install it: pip install 'assay[explore]'")
    return path


def interpreters() -> tuple[Interpreter, ...]:
    """Every Python that uv finds here, one for each minor version, the newest first."""
    answer = _run(["python", "list", "--only-installed", "--output-format", "json"], 60.0)
    newest: dict[str, Interpreter] = {}
    for python in json.loads(answer.stdout):
        if python.get("implementation", "cpython") == "cpython" and python.get("path"):
            minor = ".".join(str(python["version"]).split(".")[:2])
            newest.setdefault(minor, Interpreter(str(python["version"]), str(python["path"])))
    return tuple(sorted(newest.values(), key=lambda interpreter: Version(interpreter.version), reverse=True))


def find_python(version_or_path: str) -> Interpreter:
    """The interpreter of a version or path. Raises UvError if uv finds none; none is downloaded."""
    answer = _run(["python", "find", "--no-project", "--system", version_or_path], 60.0)
    path = answer.stdout.strip()
    about = shell.run([path, "-I", "-c", "import platform; print(platform.python_version())"])
    if not about.ok:
        raise UvError(about.words)
    return Interpreter(about.stdout.strip(), path)


def newest_below(
    requirement: str, name: str, python: str, find_links: Sequence[Path] = (), offline: bool = False
) -> str | None:
    """The newest version that meets a requirement and has a wheel for this platform, else None."""
    try:
        text = resolve(
            [requirement],
            python,
            dependencies=False,
            hashes=False,
            find_links=find_links,
            offline=offline,
        )
    except UvError:
        return None
    match = re.search(rf"^{re.escape(name)}==(\S+)", text, re.MULTILINE | re.IGNORECASE)
    return match[1] if match else None


def resolve(
    requirements: Sequence[str],
    python: str,
    *,
    dependencies: bool = True,
    hashes: bool = True,
    overrides: Sequence[str] = (),
    exclude_newer: str | None = None,
    find_links: Sequence[Path] = (),
    offline: bool = False,
    preferred: Path | None = None,
) -> str:
    """A requirements.txt with exact versions. Raises UvError with uv's reason.

    overrides  requirements that replace those of other packages: `triton; sys_platform == 'never'`
    preferred  a requirements.txt whose versions are taken where nothing else is required; it is overwritten
    """
    argv = [
        "pip",
        "compile",
        "-",
        "--python",
        python,
        "--no-header",
        "--no-annotate",
        "--no-build",
        "--quiet",
    ]
    argv += [] if dependencies else ["--no-deps"]
    argv += ["--generate-hashes"] if hashes else []
    argv += [] if preferred is None else ["--output-file", str(preferred)]
    argv += [] if exclude_newer is None else ["--exclude-newer", exclude_newer]
    argv += _places(find_links, offline)
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        if overrides:
            file = Path(folder) / "overrides.txt"
            file.write_text("".join(f"{line}\n" for line in overrides))
            argv += ["--overrides", str(file)]
        return _run(argv, _RESOLVE_TIMEOUT_S, stdin="\n".join(requirements) + "\n").stdout


def create(environment: Path, python: str, timeout_s: float) -> None:
    """An empty environment, in place of one that is there. Raises UvError."""
    _run(["venv", "--quiet", "--clear", "--no-project", "--python", python, str(environment)], timeout_s)


def install(
    environment: Path,
    lock: Path,
    timeout_s: float,
    *,
    find_links: Sequence[Path] = (),
    offline: bool = False,
    copy: bool = False,
) -> str:
    """Install exactly what the lock has, its hashes verified; returns what uv said. Raises UvError.

    copy  every file is written again, where uv would share those of its cache
    """
    argv = ["pip", "install", "--python", str(environment / "bin" / "python"), "--no-deps", "--no-build"]
    argv += ["--require-hashes", "-r", str(lock), *_places(find_links, offline)]
    argv += ["--link-mode", "copy"] if copy else []
    return _run(argv, timeout_s).stderr


def _places(find_links: Sequence[Path], offline: bool) -> list[str]:
    places = [word for path in find_links for word in ("--find-links", str(path))]
    return [*places, *(["--no-index"] if offline else [])]


def _run(argv: Sequence[str], timeout_s: float, stdin: str = "") -> CompletedCommand:
    # PYTHONPATH and an active environment are Assay's own, not the stack's
    env = {**_ENV, "VIRTUAL_ENV": "", "PYTHONPATH": "", "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR", "")}
    if not env["UV_CACHE_DIR"]:
        del env["UV_CACHE_DIR"]
    try:
        answer = shell.run([program(), *argv], timeout_s=timeout_s, env=env, stdin=stdin)
    except CommandTimeoutError as error:
        raise UvError(f"uv {' '.join(argv[:2])} took longer than {timeout_s:g} s and was ended") from error
    if not answer.ok:
        message = answer.stderr.strip() or answer.stdout.strip()
        if _NO_SPACE.search(message):
            raise HostError(
                f"the disk is full: {message.splitlines()[-1].strip()}. Free some space "
                "(`uv cache clean` removes downloaded packages) and run the same command again to resume"
            )
        if _UNREACHABLE.search(message):  # says nothing about the stack
            raise HostError(
                f"{message}\nthe package index can't be reached: check the network, or UV_DEFAULT_INDEX, and "
                "run the same command again to resume"
            )
        raise UvError(message)
    return answer
