"""`assay stack containerfile`: the software that a workload needs, as a container file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from assay.cli import options

if TYPE_CHECKING:
    from assay.stacks.image import ImageContents


@click.command()
@click.argument("workload")
@click.option(
    "--base",
    metavar="NAME[=IMAGE][@DIGEST]",
    default="ubuntu24.04",
    show_default=True,
    help="Operating system: debian12, debian13, ubuntu24.04, ubi9; with its image's digest, or with your own "
    "compatible base image.",
)
@click.option(
    "--accelerator",
    metavar="NAME",
    default="cpu",
    show_default=True,
    help="cpu, cuda, rocm, or one version: cuda13.0. Its libraries come with torch, its driver doesn't.",
)
@click.option(
    "--framework",
    metavar="torch[==VERSION]",
    help="[default: the newest that fits the rest, if the workload imports torch]",
)
@click.option("--mpi", is_flag=True, help="Also Open MPI and an ssh server for MPIJobs, on port 2222.")
@options.JSON
def command(
    workload: str, base: str, accelerator: str, framework: str | None, mpi: bool, as_json: bool
) -> None:
    """Print the Containerfile of an image for WORKLOAD.

    The image contains what WORKLOAD's programs import. One part of each group is chosen, and incompatible
    parts are rejected. Versions are pinned; the image runs as any user ID, as on OpenShift. The same choices
    give the same bytes. For workload `command`, whose program is yours: start your own file FROM this image.

    \b
    Examples:
      assay stack containerfile resnet50 --accelerator cuda > Containerfile
      podman build --tag lab/resnet50 --file Containerfile
      assay stack containerfile bert --base ubi9 --accelerator cuda13.0 --framework torch==2.14.1
      assay stack containerfile matmul --base debian12=registry.lab/debian:12@sha256:… --mpi

    \b
    Exit codes: 0 printed; 4 a part is unknown, or the parts are incompatible.
    """
    from assay.api.container_files import containerfile as made

    file = made(workload, base=base, accelerator=accelerator, framework=framework, mpi=mpi)
    if as_json:
        options.echo_json({"schema": "assay.stack/1", **_parts(file.stack), "containerfile": file.text})
    else:
        click.echo(file.text, nl=False)


def _parts(stack: ImageContents) -> dict[str, Any]:
    """The choices and what is installed."""
    from assay.stacks.containerfile import host

    torch = stack.framework
    return {
        "workload": stack.workload,
        "base": {
            "name": stack.system.name,
            "image": stack.system.image,
            "digest": stack.system.digest,
            "python": stack.system.base.python,
        },
        "accelerator": stack.accelerator,
        "framework": None if torch is None else {"torch": torch.version, "index": torch.index},
        "mpi": stack.mpi,
        "host": host(stack),
        "packages": sorted(
            [
                *map(str, stack.packages),
                *(torch.wheels if torch else ()),
                *map(str, torch.needs if torch else ()),
            ]
        ),
    }
