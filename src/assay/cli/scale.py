"""`assay scale`: what more workers bring."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.evidence import named, ready
from assay.cli.options import JSON, RUNS, echo_json
from assay.errors import InputError

if TYPE_CHECKING:
    from assay.records import Scaling


@click.command()
@click.argument("run")
@click.option("--metric", help="Whose curve; by default each benchmark's primary one that scales.")
@RUNS
@JSON
def command(run: str, metric: str | None, runs_dir: Path, as_json: bool) -> None:
    """Show throughput, speed-up and efficiency of RUN over worker counts, against the smallest size.

    Efficiency is the speed-up over the ratio of ranks. Times are inverted, so that above 1 is faster.
    Metrics that have no ideal in proportion to the ranks (bus bandwidth, latency) have no curve.

    \b
    Examples:
      assay scale quickstart
      assay scale resnet50-scaling:dgx-openshift --metric throughput
      assay scale quickstart --json
    """
    curves = curves_of(runs_dir, run, metric=metric)
    if as_json:
        from assay.records import to_plain

        echo_json({"schema": "assay.scale/1", "curves": to_plain(curves)})
        return
    from rich.console import Console

    from assay.report import terminal

    Console().print(terminal.scaling(curves))


def curves_of(runs_dir: Path, run: str, *, metric: str | None = None) -> tuple[Scaling, ...]:
    """The curves of the runs that RUN refers to. Raises InputError where there is none, and says why."""
    from assay.analyse.scaling import scale

    ready(runs_dir)
    found = named(runs_dir, run)
    curves = scale(found.results, metrics=found.metrics(), metric=metric)
    if not curves:
        shapes = sorted({str(result.run.trial.shape) for result in found.results})
        what = "its primary metrics" if metric is None else metric
        raise InputError(
            f"{run}: no curve: {what} must scale with the ranks and have results at two sizes at least "
            f"(its runs have the shapes {', '.join(shapes)})"
        )
    return curves
