"""Container files with the software that a workload needs."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    accelerator: str = "cpu",
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


def _command(stack: ImageContents) -> str:
    """The command line that makes this stack, with every default explicit."""
    words = ["assay", "stack", "containerfile", stack.workload, "--base", stack.system.written]
    words += ["--accelerator", stack.accelerator]
    if stack.framework is not None:
        words += ["--framework", f"torch=={stack.framework.version}"]
    return shlex.join([*words, *(["--mpi"] if stack.mpi else [])])
