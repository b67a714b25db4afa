"""The environment or image of a stack: built once from what uv locked, and removed when it is not needed.

Uv builds environments; podman or buildah build images from a base, and test them.
"""

from __future__ import annotations

import re
import shlex
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from assay import shell
from assay.durable import make_directory, write_atomic
from assay.errors import HostError, InputError
from assay.records import digest_of
from assay.shell import CommandTimeoutError
from assay.stacks import engines, uv
from assay.stacks.containerfile import container_file_text, image_of_lock
from assay.stacks.engines import run_smoke_test
from assay.stacks.image import base_image
from assay.stacks.stack import FailureKind
from assay.stacks.uv import Interpreter, Target, UvError, logical_lines, resolve

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
    """Where an exploration builds: `environments/` is removable, `locks/` and `formats/` are kept."""

    root: Path
    timeout_s: float

    def locked(self, recipe: EnvironmentRecipe) -> Environment | BuildFailure:
        """The environment's place, with the lock that uv resolved; resolving again gives the first lock."""
        inputs = [recipe.requirements, recipe.pins, recipe.exclude_newer, recipe.overrides]
        name = digest_of([recipe.interpreter.path, *inputs])[:12]
        resolved = self.root / "locks" / f"{name}.txt"
        try:
            if not resolved.exists():
                text = uv.resolve_versions(
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
        kind: FailureKind = "crashes" if answer.exit_code < 0 else "does not import"
        return self._failure(kind, message, environment.key)

    def remove(self, environment: Environment) -> None:
        """Free its space; its lock is kept, from which it can be built again."""
        with suppress(FileNotFoundError):
            (environment.path / _MARK).unlink()  # first, so that a kill leaves no half of it that looks whole
        shutil.rmtree(environment.path, ignore_errors=True)

    def _failure(self, kind: FailureKind, message: str, name: str) -> BuildFailure:
        lines = [line.strip() for line in message.splitlines() if line.strip()]
        last = lines[-1] if kind == "does not import" else " ".join(lines)
        return BuildFailure(kind, last, _log(self.root, name, message))


def _log(root: Path, name: str, message: str) -> Path:
    """The file that keeps all of a failure's message."""
    path = root / "logs" / f"{name}.log"
    make_directory(path.parent)
    write_atomic(path, message.encode() + b"\n")
    return path


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


@dataclass(frozen=True)
class ImageRecipe:
    """What an image is made of.

    base  as `assay stack containerfile --base` has it
    pins  requirements that this stack adds to those of all: `numpy==2.1.3`
    """

    base: str
    requirements: tuple[str, ...]
    pins: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()


@dataclass(frozen=True)
class StackImage:
    """A built image, or the tag under which it can be built from its lock again.

    option  of the launcher that names an image
    """

    base: str
    tag: str
    lock: Path
    option: str

    @property
    def options(self) -> Mapping[str, str]:
        """Of a system that runs in it."""
        return {self.option: self.tag}

    @property
    def key(self) -> str:
        """Equal for equal bases and locks."""
        return self.tag

    @property
    def packages(self) -> dict[str, str]:
        """Name → version of each package of the lock."""
        table: Any = tomllib.loads(self.lock.read_text())
        return {str(package["name"]): str(package["version"]) for package in table["packages"]}


@dataclass(frozen=True)
class ImageWorkshop:
    """Where an exploration builds images: `locks/`, `containerfiles/` and `formats/` are kept.

    build_options  further options of the engine's `build`
    option         of the launcher that names an image
    """

    root: Path
    timeout_s: float
    engine: engines.BuildEngine
    build_options: tuple[str, ...]
    option: str

    def locked(self, recipe: ImageRecipe) -> StackImage | BuildFailure:
        """The image's tag, with the lock that uv resolved; resolving again gives the first lock."""
        name = digest_of([recipe.base, recipe.requirements, recipe.pins])[:12]
        lock = self.root / "locks" / f"{name}.pylock.toml"
        try:
            if not lock.exists():
                target = Target(base_image(recipe.base, mpi=False).base.python)
                text = resolve([*recipe.requirements, *recipe.pins], target).pylock
                make_directory(lock.parent)
                write_atomic(lock, text.encode())
            self._containerfile(recipe.base, lock)
        except InputError as error:
            return self._failure("does not install", str(error), name)
        key = digest_of([str(self.root), recipe.base, lock.read_text()])[:12]  # nobody else removes it
        return StackImage(recipe.base, f"localhost/assay/explored:{key}", lock, self.option)

    def build(self, recipe: ImageRecipe, image: StackImage) -> BuildFailure | None:
        """Build the image if it is not there, and import its packages as an arbitrary user.

        Raises HostError if the engine can't build or start it: uv has found the packages, so the reason is
        another.
        """
        if not self.engine.has(image.tag):
            file = self.root / "containerfiles" / image.lock.name.replace(".pylock.toml", ".Containerfile")
            make_directory(file.parent)
            write_atomic(file, self._containerfile(image.base, image.lock).encode())
            image_id, _ = engines.build(
                self.engine,
                file,
                context=None,
                options=self.build_options,
                on_line=lambda _: None,
                timeout_s=self.timeout_s,
            )
            engines.name_image(self.engine, image_id, image.tag)
        test = run_smoke_test(self.engine, image.tag, recipe.imports, self.timeout_s)
        if test.passed:
            return None
        message = "\n".join(f"{what}: {why}" for what, why in test.failed)
        if not test.started:
            raise HostError(f"{message}\n{self.engine.name} can't run a program in {image.tag}: see above")
        self.remove(image)
        return self._failure("does not import", message, image.tag.rpartition(":")[2])

    def remove(self, image: StackImage) -> None:
        """Free its space; its lock is kept, from which it can be built again."""
        self.engine.remove(image.tag)

    def _containerfile(self, base: str, lock: Path) -> str:
        stack = image_of_lock(lock.read_text(), str(lock), base=base)
        command = ["assay", "stack", "containerfile", "command", "--from", str(lock), "--base", base]
        return container_file_text(stack, shlex.join(command))

    def _failure(self, kind: FailureKind, message: str, name: str) -> BuildFailure:
        return BuildFailure(kind, " ".join(message.split()), _log(self.root, name, message))
