"""uv, which finds versions, resolves, and installs: Assay has no resolver of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from assay import shell
from assay.errors import HostError, InputError, Problem
from assay.inputs import read_whole
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
    r"|status code 5\d\d|timed out"
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
        raise HostError("uv is not installed; install it: pip install 'cluster-assay[stacks]'")
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
        text = resolve_versions(
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


def resolve_versions(
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
        message = answer.stderr.strip() or answer.stdout.strip() or f"uv exited {answer.exit_code}"
        again = "and run the same command again to resume"
        if _NO_SPACE.search(message):
            space = "Free some space (`uv cache clean` removes downloaded packages)"
            raise HostError(f"the disk is full: {message.splitlines()[-1].strip()}. {space} {again}")
        if _UNREACHABLE.search(message):  # says nothing about the stack
            check = "check the network, or UV_DEFAULT_INDEX,"
            raise HostError(f"{message}\nthe package index can't be reached: {check} {again}")
        raise UvError(message)
    return answer


_LARGEST_BYTES: Final = 16 << 20
_OTHER_LOCKS: Final = {  # file → the command that writes what it pins in a form that every tool reads
    "uv.lock": "uv export --format pylock.toml -o pylock.toml",
    "poetry.lock": "poetry export -o requirements.txt",
    "pdm.lock": "pdm export -o requirements.txt",
    "Pipfile.lock": "pipenv requirements > requirements.txt",
}
_HASHES: Final = re.compile(r"\s+--hash[= ]\S+")


def is_requirement_file(path: Path) -> bool:
    """Whether a name on the command line is such a file, judging by its ending."""
    return path.suffix in (".txt", ".toml", ".in", ".lock") and path.is_file()


def pinned_packages(path: Path) -> dict[str, str]:
    """Name → version of each package that the file pins, markers that don't hold here left out.

    Raises InputError, with every finding, if it can't be read or a package is not pinned.
    """
    if path.name in _OTHER_LOCKS:
        raise InputError(
            f"{path}: only its own tool reads this lock; give what this writes: {_OTHER_LOCKS[path.name]}"
        )
    text = read_whole(path, _LARGEST_BYTES).decode("utf-8", "replace")
    if path.suffix == ".toml":
        return dict(sorted(_locked(path, text)))
    return dict(sorted(_listed(path, text)))


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Each requirement with its line, continued lines joined, without comments and hashes."""
    number, held = 0, ""
    for line_number, line in enumerate(text.splitlines(), 1):
        number = number or line_number
        held += line
        if held.endswith("\\"):
            held = held[:-1] + " "
            continue
        requirement = _HASHES.sub("", re.sub(r"(^|\s)#.*$", "", held)).strip()
        if requirement:
            yield number, requirement
        number, held = 0, ""


def _listed(path: Path, text: str) -> list[tuple[str, str]]:
    pinned: list[tuple[str, str]] = []
    problems: list[Problem] = []
    for number, line in logical_lines(text):
        where = f"{path}:{number}"
        if line.startswith("-"):
            if not line.startswith(("-e", "--editable")):
                continue  # where packages are found, not which
            problems.append(Problem(where, "an editable package has no version; leave it out"))
            continue
        try:
            requirement = Requirement(line)
        except InvalidRequirement as error:
            problems.append(Problem(where, f"not a requirement ({str(error).splitlines()[0]})"))
            continue
        if requirement.marker is not None and not requirement.marker.evaluate():
            continue
        pins = [
            specifier.version for specifier in requirement.specifier if specifier.operator in ("==", "===")
        ]
        if len(pins) == 1 and not pins[0].endswith(".*"):
            pinned.append((canonicalize_name(requirement.name), pins[0]))
        else:
            what = f"{line!r} has no exact version; lock it first: uv pip compile {path}"
            problems.append(Problem(where, what))
    if problems:
        raise InputError(problems)
    return pinned


def _locked(path: Path, text: str) -> list[tuple[str, str]]:
    table = toml_table(text, str(path))
    packages: Any = table.get("packages", table.get("package"))  # uv.lock has the second
    if not isinstance(packages, list):
        what = "it has no `packages`; expected a pylock.toml, as `uv pip compile --format pylock.toml` writes"
        raise InputError([Problem(str(path), what)])
    return [
        (canonicalize_name(str(package["name"])), str(package["version"]))
        for package in packages
        if isinstance(package, dict) and "name" in package and "version" in package
    ]


TIMEOUT_S: Final = 600.0  # of one resolution; metadata of large wheels may have to be fetched
_YANKED: Final = re.compile(
    r'^warning: `?([\w.-]+)==([^`\s]+)`? is yanked(?: \(reason: "?(.*?)"?\))?$', re.MULTILINE
)


@dataclass(frozen=True)
class LockedPackage:
    """One package of a lock.

    wheel_bytes  size of its largest file that would be installed; None if the index does not say
    uploaded_at  when this version was uploaded, seconds since the epoch; None if the index does not say
    yanked       why its author withdrew it, as text; None if nobody did
    """

    name: str
    version: str
    wheel_bytes: int | None
    uploaded_at: float | None
    yanked: str | None


@dataclass(frozen=True)
class Lock:
    """Resolved requirements, as a pylock.toml and as a requirements.txt with hashes."""

    packages: tuple[LockedPackage, ...]
    pylock: str

    @property
    def versions(self) -> dict[str, str]:
        """Name → version."""
        return {package.name: package.version for package in self.packages}

    @property
    def size_bytes(self) -> int | None:
        """The size of all files to download; None if one is unknown."""
        sizes = [package.wheel_bytes for package in self.packages]
        return None if None in sizes else sum(size for size in sizes if size is not None)


@dataclass(frozen=True)
class Target:
    """What the packages are for.

    python    version, like 3.12; None: the interpreter of Assay
    platform  as uv names it, `x86_64-manylinux_2_28`; None: this machine's
    prereleases  also take pre-releases
    """

    python: str | None = None
    platform: str | None = None
    prereleases: bool = False

    def options(self) -> list[str]:
        """The options of uv for this target."""
        options = ["--python-version", self.python] if self.python else ["--python", sys.executable]
        options += ["--python-platform", self.platform] if self.platform else []
        return [*options, *(["--prerelease", "allow"] if self.prereleases else [])]


def requirements_of(spec: Sequence[str]) -> tuple[Requirement, ...]:
    """What a specification requires directly, without markers that don't hold here.

    spec  files (requirements.txt, pyproject.toml) or requirements such as `torch>=2.8`

    Raises InputError with every finding.
    """
    requirements: list[Requirement] = []
    problems: list[Problem] = []
    for where, line in _read_requirements(spec):
        try:
            requirement = Requirement(line)
        except InvalidRequirement as error:
            what = f"{line!r} is neither a file nor a requirement ({str(error).splitlines()[0]})"
            problems.append(Problem(where, what))
            continue
        if requirement.marker is None or requirement.marker.evaluate():
            requirements.append(requirement)
    if not requirements and not problems:
        problems.append(Problem(" ".join(spec), "it requires nothing"))
    if problems:
        raise InputError(problems)
    return tuple(requirements)


def _read_requirements(spec: Sequence[str]) -> Iterator[tuple[str, str]]:
    for word in spec:
        if Path(word).suffix in (".toml", ".txt", ".in"):
            yield from (pair for pair in requirement_lines(Path(word)) if not pair[1].startswith("-"))
        else:
            yield word, word


def requirement_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Place and text of each requirement of a requirements.txt or pyproject.toml."""
    text = read_whole(path, _LARGEST_BYTES).decode("utf-8", "replace")
    if path.suffix != ".toml":
        yield from ((f"{path}:{number}", line) for number, line in logical_lines(text))
        return
    listed = toml_table(text, str(path)).get("project", {}).get("dependencies")
    if not isinstance(listed, list):
        raise InputError([Problem(str(path), "it has no project.dependencies")])
    yield from ((str(path), str(line)) for line in listed)


def toml_table(text: str, source: str) -> dict[str, Any]:
    """The content of a TOML file. Raises InputError, with where it is from, for another text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError([Problem(source, f"not TOML ({error})")]) from error


def resolve(spec: Sequence[str], target: Target, constraints: Iterable[str] = ()) -> Lock:
    """The newest versions that fit, locked by uv.

    constraints  further requirements, for packages only if they are needed anyway

    Raises InputError, with uv's whole reason first, if nothing fits; HostError if uv is missing or an index
    can't be reached.
    """
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        sources, stdin = _sources(spec)
        limits = Path(folder) / "constraints.txt"
        if lines := list(constraints):
            limits.write_text("".join(f"{line}\n" for line in lines))
            sources += ["--constraints", str(limits)]
        command = ["pip", "compile", *sources, "--format", "pylock.toml", "--no-header"]
        done = _uv(command, target, stdin)
    yanked = _YANKED.findall(done.stderr)
    withdrawn = {str(canonicalize_name(name)): why or "no reason given" for name, _, why in yanked}
    table: Any = tomllib.loads(done.stdout)
    return Lock(
        tuple(_locked_package(package, withdrawn) for package in table.get("packages", [])), done.stdout
    )


def with_hashes(lock: Lock, target: Target) -> str:
    """The same lock as a requirements.txt with the hashes of every file that may be installed."""
    pins = "".join(f"{package.name}=={package.version}\n" for package in lock.packages)
    command = ["pip", "compile", "-", "--no-deps", "--generate-hashes", "--no-header", "--no-annotate"]
    return _uv(command, target, pins).stdout


def _sources(spec: Sequence[str]) -> tuple[list[str], str]:
    """Files as uv takes them, and requirements for its standard input."""
    files = [word for word in spec if Path(word).suffix in (".toml", ".txt", ".in")]
    lines = [word for word in spec if word not in files]
    return [*files, *(["-"] if lines else [])], "".join(f"{line}\n" for line in lines)


def _uv(arguments: Sequence[str], target: Target, stdin: str) -> CompletedCommand:
    try:
        return _run([*arguments, *target.options()], TIMEOUT_S, stdin)
    except UvError as error:
        if isinstance(error.__cause__, CommandTimeoutError):
            raise error.__cause__ from None
        what = "The requirements can't be resolved: relax those that uv names"
        raise InputError(f"{error.words}\n{what}") from error


def _locked_package(table: Mapping[str, Any], withdrawn: Mapping[str, str]) -> LockedPackage:
    files = [
        *table.get("wheels", ()),
        *([table["sdist"]] if not table.get("wheels") and "sdist" in table else ()),
    ]
    sizes = [file["size"] for file in files if "size" in file]
    times = [file["upload-time"] for file in files if isinstance(file.get("upload-time"), datetime)]
    name = canonicalize_name(str(table["name"]))
    return LockedPackage(
        name=name,
        version=str(table.get("version", "")),
        wheel_bytes=max(sizes) if len(sizes) == len(files) and files else None,
        uploaded_at=min(times).timestamp() if times else None,
        yanked=withdrawn.get(name),
    )
