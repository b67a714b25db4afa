"""`assay data check`: a training's whole data set, read once before it begins."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.named_values import values
from assay.cli.options import JSON, echo_json
from assay.cli.redacting_stream import show_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.data.checking import DataCheck

MOST_SHOWN = 20


@click.command("check")
@click.argument("workload")
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    callback=values,
    help="Parameter of the workload that its loaders use.",
)
@click.option("--processes", type=click.IntRange(min=1), help="That read.  [default: one per CPU]")
@JSON
def command(
    workload: str, path: Path, params: dict[str, object], processes: int | None, as_json: bool
) -> None:
    """Read the data set in PATH as the training WORKLOAD does, and name what it can't read.

    The loaders are the training's own: they check the layout when they start, then read and decode every
    sample of the training set and of the evaluation set once. It needs the extra `training` here. That a
    data set has another size than the official one is said, and is no error.

    \b
    Examples:
      assay data check resnet50 /data/imagenet
      assay data check segmentation /data/a2d2/camera_lidar_semantic --param camera=cam_side_left
      assay data check unet3d /data/kits19 --json

    \b
    Exit codes: 0 every sample is readable; 1 some are not; 4 another layout, or the workload has no data.
    """
    from assay.questions.datasets import check_data
    from assay.units import counted

    live = sys.stderr.isatty() and not as_json
    check = check_data(workload, path, params=params, processes=processes, tell=_progress() if live else None)
    if live:
        show_progress("")
    if as_json:
        from dataclasses import asdict

        echo_json(asdict(check))
    else:
        sizes = ", ".join(f"{size:,} for {part}" for part, size in check.samples.items())
        click.echo(f"{sizes}; {counted(check.damaged, 'sample')} can't be read")
        if check.official:
            click.echo(f"Not the official data set: {check.official}")
        for why in check.unreadable[:MOST_SHOWN]:
            click.echo(f"  {why}")
        if check.damaged > MOST_SHOWN:
            click.echo(f"  and {check.damaged - MOST_SHOWN:,} more; --json lists a thousand")
    if check.damaged:
        sys.exit(1)


def _progress() -> Callable[[DataCheck], None]:
    from assay.units import human_seconds

    begin, drawn = time.monotonic(), 0.0

    def tell(check: DataCheck) -> None:
        nonlocal drawn
        now, done, total = time.monotonic(), sum(check.checked.values()), sum(check.samples.values())
        if now - drawn < 0.1 or not done:
            return
        drawn = now
        left = (now - begin) / done * (total - done)
        show_progress(f"{done:,} of {total:,}, about {human_seconds(left)} left")

    return tell
