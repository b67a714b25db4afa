"""The image of a stack: a base, and what uv locked for its Python, built and tested by podman or buildah."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from assay.durable import make_directory, write_atomic
from assay.errors import HostError, InputError
from assay.records import FailureKind, digest_of
from assay.stacks import engines, smoke_test
from assay.stacks.containerfile import containerfile
from assay.stacks.exploring.environments import BuildFailure
from assay.stacks.image import base_image
from assay.stacks.locked_image import image_of_lock
from assay.stacks.resolving import Target, resolve


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
    """Where an exploration builds images: `locks/`, `containerfiles/` and `logs/` are kept.

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
        test = smoke_test.run(self.engine, image.tag, recipe.imports, self.timeout_s)
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
        return containerfile(stack, shlex.join(_command(base, lock)))

    def _failure(self, kind: FailureKind, message: str, name: str) -> BuildFailure:
        log = self.root / "logs" / f"{name}.log"
        make_directory(log.parent)
        write_atomic(log, message.encode() + b"\n")
        return BuildFailure(kind, " ".join(message.split()), log)


def _command(base: str, lock: Path) -> Sequence[str]:
    return ["assay", "stack", "containerfile", "command", "--from", str(lock), "--base", base]
