"""The environment of a stack: built once, by uv, from a lock that is kept; removed when it is not needed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from assay import shell
from assay.durable import make_directory, write_atomic
from assay.records import FailureKind, digest_of
from assay.shell import CommandTimeoutError
from assay.stacks import uv
from assay.stacks.requirement_files import logical_lines
from assay.stacks.uv import Interpreter, UvError

_IMPORT_TIMEOUT_S: Final = 300.0
_ELSEWHERE: Final = "-anew"  # 5 letters: 16 paths in a row place the stack of a program differently
_MARK: Final = ".assay-built"  # in an environment: it is whole
_PIN: Final = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")

_IMPORT: Final = """
import importlib, importlib.metadata, sys
def modules(name):
    files = importlib.metadata.distribution(name).files or ()
    top = {f.parts[0] for f in files if len(f.parts) == 2 and f.name == "__init__.py"}
    top |= {f.stem for f in files if len(f.parts) == 1 and f.suffix == ".py"}
    alike = {m for m in top if m.lower().replace("_", "-") == name}
    return sorted(alike or {m for m in top if not m.startswith("_")})[:1]
given, names = sys.argv[1].split(","), sys.argv[2].split(",")
for module in [m for m in given if m] or [m for name in names if name for m in modules(name)]:
    importlib.import_module(module)
"""


@dataclass(frozen=True)
class EnvironmentRecipe:
    """What an environment is made of.

    pins       requirements that this stack adds to those of all: `numpy==2.1.3`
    overrides  requirements that replace those of other packages
    """

    interpreter: Interpreter
    requirements: tuple[str, ...]
    pins: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    find_links: tuple[Path, ...] = ()
    offline: bool = False
    exclude_newer: str | None = None
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class Environment:
    """A built environment, or the place where it can be built from its lock again.

    copied  its files are its own, not shared with uv's cache
    """

    path: Path
    lock: Path
    copied: bool = False

    @property
    def python(self) -> str:
        """Its interpreter."""
        return str(self.path / "bin" / "python")

    @property
    def options(self) -> Mapping[str, str]:
        """Of a system that runs in it."""
        return {"python": self.python}

    @property
    def key(self) -> str:
        """Equal for equal interpreters and locks."""
        return self.path.name

    @property
    def packages(self) -> dict[str, str]:
        """Name → version of each package of the lock."""
        return packages_of(self.lock)

    def again(self, number: int) -> Environment:
        """The same lock elsewhere: files of its own, at a path whose length differs for each number.

        Where memory and files happen to be makes an environment faster or slower. 0 is this one.
        """
        if number == 0:
            return self
        return replace(self, path=self.path.with_name(self.path.name + number * _ELSEWHERE), copied=True)


@dataclass(frozen=True)
class BuildFailure:
    """A stack that can't be built: how, why in one line, and where all of it is."""

    kind: FailureKind
    why: str
    log: Path

    @property
    def is_the_indexs(self) -> bool:
        """Whether a package index sent other bytes than it had stated: nothing is known of the stack then."""
        return "hash mismatch" in self.why.lower()


@dataclass(frozen=True)
class Workshop:
    """Where an exploration builds: `environments/` is removable, `locks/` and `logs/` are kept."""

    root: Path
    timeout_s: float

    def locked(self, recipe: EnvironmentRecipe) -> Environment | BuildFailure:
        """The environment's place, with the lock that uv resolved; resolving again gives the first lock."""
        inputs = [recipe.requirements, recipe.pins, recipe.exclude_newer, recipe.overrides]
        name = digest_of([recipe.interpreter.path, *inputs])[:12]
        resolved = self.root / "locks" / f"{name}.txt"
        try:
            if not resolved.exists():
                text = uv.resolve(
                    [*recipe.requirements, *recipe.pins],
                    recipe.interpreter.path,
                    overrides=recipe.overrides,
                    exclude_newer=recipe.exclude_newer,
                    find_links=recipe.find_links,
                    offline=recipe.offline,
                )
                make_directory(resolved.parent)
                write_atomic(resolved, text.encode())
        except UvError as error:
            return self._failure("does not install", error.words, name)
        key = digest_of([recipe.interpreter.path, resolved.read_text()])[:12]
        return Environment(self.root / "environments" / key, resolved)

    def build(self, recipe: EnvironmentRecipe, environment: Environment) -> BuildFailure | None:
        """Make the environment if it is not there, and import its packages.

        Raises HostError on a full disk.
        """
        if (environment.path / _MARK).exists():
            return None
        make_directory(environment.path.parent)
        try:
            uv.create(environment.path, recipe.interpreter.path, self.timeout_s)
            uv.install(
                environment.path,
                environment.lock,
                self.timeout_s,
                find_links=recipe.find_links,
                offline=recipe.offline,
                copy=environment.copied,
            )
        except UvError as error:
            self.remove(environment)
            return self._failure("does not install", error.words, environment.key)
        failure = self._imports(recipe, environment)
        if failure is None:
            write_atomic(environment.path / _MARK, b"")
        else:
            self.remove(environment)
        return failure

    def _imports(self, recipe: EnvironmentRecipe, environment: Environment) -> BuildFailure | None:
        names = ",".join(canonicalize_name(Requirement(line).name) for line in recipe.requirements)
        argv = [environment.python, "-I", "-c", _IMPORT, ",".join(recipe.imports), names]
        try:
            answer = shell.run(argv, timeout_s=min(self.timeout_s, _IMPORT_TIMEOUT_S))
        except CommandTimeoutError as error:
            return self._failure("does not import", str(error), environment.key)
        if answer.ok:
            return None
        message = answer.stderr.strip() or f"importing its packages ended with exit code {answer.exit_code}"
        return self._failure(
            "crashes" if answer.exit_code < 0 else "does not import", message, environment.key
        )

    def remove(self, environment: Environment) -> None:
        """Free its space; its lock is kept, from which it can be built again."""
        with suppress(FileNotFoundError):
            (environment.path / _MARK).unlink()  # first, so that a kill leaves no half of it that looks whole
        shutil.rmtree(environment.path, ignore_errors=True)

    def _failure(self, kind: FailureKind, message: str, name: str) -> BuildFailure:
        log = self.root / "logs" / f"{name}.log"
        make_directory(log.parent)
        write_atomic(log, message.encode() + b"\n")
        lines = [line.strip() for line in message.splitlines() if line.strip()]
        last = lines[-1] if kind == "does not import" else " ".join(lines)
        return BuildFailure(kind, last, log)


def packages_of(lock: Path) -> dict[str, str]:
    """Name → version of each package of a lock."""
    pins = (_PIN.match(line) for _, line in logical_lines(lock.read_text()))
    return {canonicalize_name(pin[1]): pin[2] for pin in pins if pin is not None}


def versions_of(
    requirement: str,
    name: str,
    step: str,
    newest: int,
    python: str,
    *,
    find_links: Sequence[Path] = (),
    offline: bool = False,
) -> tuple[str, ...]:
    """Versions that the index has and that install here, the newest first, as uv finds them.

    step  `patch`: each; `minor`, `major`: the newest of each such series
    """
    versions: list[str] = []
    below = ""
    while len(versions) < newest:
        version = uv.newest_below(f"{requirement}{below}", name, python, find_links, offline)
        if version is None:
            break
        versions.append(version)
        parts = version.split(".")
        bound = {"patch": version, "minor": ".".join(parts[:2]), "major": parts[0]}[step]
        below = f",<{bound}"
    return tuple(versions)
