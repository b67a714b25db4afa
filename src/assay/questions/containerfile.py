"""Container files with the software that a workload needs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from os import PathLike

    from assay.questions.advise_stack import StackAdvice
    from assay.stacks.image import ImageContents


@dataclass(frozen=True)
class ContainerFile:
    """A stack and the text that builds it."""

    stack: ImageContents
    text: str


def containerfile(
    workload: str,
    *,
    base: str = "ubuntu24.04",
    accelerator: str | None = None,
    framework: str | None = None,
    mpi: bool = False,
) -> ContainerFile:
    """The container file of an image for a workload, like `assay stack containerfile`.

    Raises InputError, with every finding, if a part is unknown or the parts are incompatible.
    """
    from assay.stacks.containerfile import containerfile as written
    from assay.stacks.image import choose

    stack = choose(workload, base=base, accelerator=accelerator, framework=framework, mpi=mpi)
    return ContainerFile(stack, written(stack, _command(stack)))


def locked_containerfile(
    lock: str | PathLike[str],
    *,
    workload: str = "command",
    base: str | None = None,
    mpi: bool = False,
    settings: Mapping[str, str] | None = None,
) -> ContainerFile:
    """The container file of exactly what a pylock.toml has, like `assay stack containerfile --from`.

    workload  whose programs must find what they import
    base      default: the first one with the lock's Python
    settings  variables of the image

    Raises InputError, with every finding, if the lock can't be installed so, or the base does not fit it.
    """
    from assay.inputs import read_whole

    text = read_whole(Path(lock)).decode("utf-8", "replace")
    return _of_lock(text, str(lock), workload, base, mpi, settings or {})


def advised_containerfile(advice: StackAdvice, lock: str, *, base: str | None = None) -> ContainerFile:
    """The container file of an advised stack, with the variables that it was measured with.

    lock  path of its pylock.toml, for the file's heading
    """
    settings = {name: str(value) for name, value in advice.settings.items()}
    return _of_lock(advice.lock.pylock, lock, "command", base, False, settings)


def _of_lock(
    text: str, source: str, workload: str, base: str | None, mpi: bool, settings: Mapping[str, str]
) -> ContainerFile:
    from assay.stacks.containerfile import containerfile as written
    from assay.stacks.locked_image import image_of_lock

    stack = image_of_lock(text, source, workload=workload, base=base, mpi=mpi, settings=settings)
    command = ["assay", "stack", "containerfile", workload, "--from", source, "--base", stack.system.written]
    command += [f"--env={name}={value}" for name, value in stack.settings.items()]
    return ContainerFile(stack, written(stack, shlex.join([*command, *(["--mpi"] if mpi else [])])))


def _command(stack: ImageContents) -> str:
    """The command line that makes this stack, with every default explicit."""
    command = ["assay", "stack", "containerfile", stack.workload, "--base", stack.system.written]
    command += ["--accelerator", stack.accelerator]
    if stack.framework is not None:
        command += ["--framework", f"{stack.framework.name}=={stack.framework.version}"]
    return shlex.join([*command, *(["--mpi"] if stack.mpi else [])])
