"""`assay scale`: what more workers gain."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.units import counted

if TYPE_CHECKING:
    from assay.analyse.scaling.curve import By
    from assay.questions.scale import ScalingCurves


@click.command()
@click.argument("references", metavar="RUN…", nargs=-1, required=True)
@click.option(
    "--metric", multiple=True, help="Metric of the curves. [default: each primary metric that scales]"
)
@click.option(
    "--at", type=click.IntRange(min=1), multiple=True, help="Predict for N ranks.  [2×, 4× the largest]"
)
@click.option(
    "--price-per-accelerator-hour",
    type=click.FloatRange(min=0, min_open=True),
    help="In your currency; adds the cost of a result.",
)
@click.option(
    "--power-w",
    type=click.FloatRange(min=0, min_open=True),
    help="Power of an accelerator, watts: adds the energy of a result.",
)
@click.option(
    "--group",
    type=click.Choice(["name", "accelerator", "none"]),
    help="Which systems of one RUN are sizes of one machine: same submitter and name except for the count, "
    "or same accelerator.  [default: name for imported sets, else none]",
)
@RUNS
@JSON
def command(
    references: tuple[str, ...],
    metric: tuple[str, ...],
    group: By | None,
    at: tuple[int, ...],
    price_per_accelerator_hour: float | None,
    power_w: float | None,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Show throughput, speed-up and efficiency of RUN over worker counts, what limits them, what they cost.

    Efficiency is the speed-up divided by the ratio of ranks. Times are inverted, so that above 1 is faster.
    Metrics without an ideal in proportion to the ranks (bus bandwidth, latency) have no curve.
    A training's step is compared with an all-reduce benchmark if its sessions have one in the same shape.
    Several RUNs, such as imported sets of one machine at several sizes, form one curve. The systems of one
    imported RUN, such as a whole round, are grouped: each machine's sizes form a curve.

    If a size is faster than the next smaller one by more than its ranks, the smaller one lost speed:
    at least how much, and what to repeat, comes first. Sizes with another batch size are left out of the law.

    \b
    Examples:
      assay scale quickstart
      assay scale resnet50-scaling:dgx-openshift --metric throughput --at 64
      assay scale ssd-8-gpus ssd-16-gpus ssd-32-gpus --metric time_per_epoch --metric time_to_train
      assay scale resnet50-scaling --price-per-accelerator-hour 2.5 --power-w 700
      assay scale quickstart --json
      assay scale v4.0 --group accelerator
    """
    from assay.questions.scale import scale

    scaling_curves = scale(
        *references,
        metric=metric or None,
        at=at,
        price_per_accelerator_hour=price_per_accelerator_hour,
        power_w=power_w,
        group=group,
        runs=runs_dir,
    )
    if as_json:
        echo_json(scaling_curves.document())
        return
    from assay.cli.console import Console
    from assay.report.terminal import scaling as scaling_terminal

    if how := _grouping(scaling_curves):
        click.echo(f"{how}\n")
    Console(highlight=False).print(scaling_terminal.studies(scaling_curves.studies))


def _grouping(scaling_curves: ScalingCurves) -> str:
    """How the systems of one reference were grouped into curves; "" if they were not."""
    by = scaling_curves.grouped_by
    if by == "none":
        return ""
    what = "name without its count" if by == "name" else "accelerator"
    others = "--group accelerator or none" if by == "name" else "--group name or none"
    curves = len({study.curve.system for study in scaling_curves.studies})
    return f"Sizes of {counted(curves, 'machine')}, by submitter and {what}; {others} groups differently."
