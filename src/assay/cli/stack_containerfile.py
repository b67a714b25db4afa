"""`assay stack containerfile`: the software that a workload needs, as a container file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli import named_values, options

if TYPE_CHECKING:
    from assay.stacks.image import ImageContents


@click.command()
@click.argument("workload", required=False)
@click.option(
    "--from",
    "lock",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Install exactly what this pylock.toml has, its hashes checked, instead of what Assay knows to fit.",
)
@click.option(
    "--base",
    metavar="NAME[=IMAGE][@DIGEST]",
    help="Operating system: debian12, debian13, ubuntu24.04, ubi9; the same with a vendor's libraries: "
    "ubuntu24.04-cuda12.9, ubuntu24.04-cuda13.0, ubuntu24.04-rocm7.2, ubuntu24.04-rocm7.14; with its image's "
    "digest, or with your own compatible base image.  [default: ubuntu24.04; with --from, by its Python]",
)
@click.option(
    "--accelerator",
    metavar="NAME",
    help="cpu, cuda, rocm, or one version: cuda13.0. Its libraries come with the framework, its driver "
    "doesn't.  [default: the base's, or cpu]",
)
@click.option(
    "--framework",
    metavar="NAME[==VERSION]",
    help="torch, tensorflow or jax.  [default: the newest that fits the rest, if the workload imports one]",
)
@click.option("--mpi", is_flag=True, help="Also Open MPI and an ssh server for MPIJobs, on port 2222.")
@click.option(
    "--env",
    "settings",
    multiple=True,
    callback=named_values.variables,
    metavar="NAME=VALUE",
    help="Variable of the image; with --from.",
)
@options.JSON
def command(
    workload: str | None,
    lock: Path | None,
    base: str | None,
    accelerator: str | None,
    framework: str | None,
    mpi: bool,
    settings: dict[str, str],
    as_json: bool,
) -> None:
    """Print the Containerfile of an image for WORKLOAD.

    The image contains what WORKLOAD's programs import. One part of each group is chosen, and incompatible
    parts are rejected. Versions are pinned; the image runs as any user ID, as on OpenShift. The same choices
    give the same bytes. For workload `command`, whose program is yours: start your own file FROM this image.

    With --from, the image has what a lock has: WORKLOAD is `command` by default, and needs no more.

    \b
    Examples:
      assay stack containerfile resnet50 --accelerator cuda > Containerfile
      assay stack build Containerfile --tag lab/resnet50
      assay stack containerfile bert --base ubi9 --accelerator cuda13.0 --framework torch==2.14.1
      assay stack containerfile command --framework jax --base ubuntu24.04-rocm7.14
      assay stack containerfile --from locked/pylock.toml --env OMP_NUM_THREADS=8
      assay stack containerfile matmul --base debian12=registry.lab/debian:12@sha256:… --mpi

    \b
    Exit codes: 0 printed; 4 a part is unknown, or the parts are incompatible.
    """
    from assay.stacks import containerfile as containerfile_question

    if lock is not None:
        if accelerator or framework:
            raise click.UsageError("--from has its own framework and accelerator; leave out the option")
        file = containerfile_question.locked_containerfile(
            lock, workload=workload or "command", base=base, mpi=mpi, settings=settings
        )
    elif settings:
        raise click.UsageError("only --from takes --env; name a lock with --from, or omit --env")
    elif workload is None:
        raise click.MissingParameter(
            "Name it, or a lock with --from.",
            click.get_current_context(),
            param_hint="'WORKLOAD'",
            param_type="argument",
        )
    else:
        file = containerfile_question.containerfile(
            workload, base=base or "ubuntu24.04", accelerator=accelerator, framework=framework, mpi=mpi
        )
    if as_json:
        options.echo_json({"schema": "assay.stack/1", **_parts(file.stack), "containerfile": file.text})
    else:
        click.echo(file.text, nl=False)


def _parts(stack: ImageContents) -> dict[str, Any]:
    """The choices and what is installed."""
    from assay.stacks.containerfile import host

    framework = stack.framework
    return {
        "workload": stack.workload,
        "base": {
            "name": stack.system.name,
            "image": stack.system.image,
            "digest": stack.system.digest,
            "python": stack.system.base.python,
        },
        "accelerator": stack.accelerator,
        "framework": None
        if framework is None
        else {framework.name: framework.version, "index": framework.index},
        "mpi": stack.mpi,
        "env": dict(stack.settings),
        "host": host(stack),
        "packages": sorted(
            [
                *map(str, stack.packages),
                *(framework.wheels if framework else ()),
                *map(str, framework.needs if framework else ()),
                *(
                    f"{requirement.name}=={requirement.version}"
                    for requirement in (stack.lock.requirements if stack.lock else ())
                ),
            ]
        ),
    }
