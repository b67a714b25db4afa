"""`assay scale`: what more workers bring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.evidence import Named, named, ready
from assay.cli.options import JSON, RUNS, echo_json
from assay.errors import InputError
from assay.units import counted

if TYPE_CHECKING:
    from assay.analyse.machines import By
    from assay.analyse.scaling_study import Study
    from assay.analyse.spending import Prices


@click.command()
@click.argument("references", metavar="RUN…", nargs=-1, required=True)
@click.option(
    "--metric", multiple=True, help="Whose curves; by default each benchmark's primary one that scales."
)
@click.option(
    "--at", type=click.IntRange(min=1), multiple=True, help="Predict for so many ranks.  [2×, 4× the largest]"
)
@click.option(
    "--price-per-accelerator-hour",
    type=click.FloatRange(min=0, min_open=True),
    help="In your currency: gives the cost of a result.",
)
@click.option(
    "--power-w",
    type=click.FloatRange(min=0, min_open=True),
    help="Watts that an accelerator draws: gives the energy of a result.",
)
@click.option(
    "--group",
    type=click.Choice(["name", "accelerator", "none"]),
    help="Which systems of one RUN are sizes of one machine: of one submitter and name but for the count, or "
    "accelerator.  [default: name for imported sets, else none]",
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

    Efficiency is the speed-up over the ratio of ranks. Times are inverted, so that above 1 is faster.
    Metrics that have no ideal in proportion to the ranks (bus bandwidth, latency) have no curve.
    A training's step is compared with an all-reduce benchmark where its sessions have one in the same shape.
    Several RUNs, such as imported sets of one machine at several sizes, are one curve. The systems of one
    imported RUN, such as a whole round, are grouped: each machine's sizes are a curve.

    A size that is faster than the next smaller one by more than its ranks says that the smaller lost speed:
    how much at least, and what to repeat, comes first. Sizes with another batch are left out of the law.

    \b
    Examples:
      assay scale quickstart
      assay scale resnet50-scaling:dgx-openshift --metric throughput --at 64
      assay scale ssd-8-gpus ssd-16-gpus ssd-32-gpus --metric time_per_epoch --metric time_to_train
      assay scale resnet50-scaling --price-per-accelerator-hour 2.5 --power-w 700
      assay scale quickstart --json
      assay scale v4.0 --group accelerator
    """
    from assay.analyse.spending import Prices

    prices = Prices(price_per_accelerator_hour, power_w)
    studies = studies_of(runs_dir, references, metric=metric or None, at=at, prices=prices, group=group)
    if as_json:
        from assay.records import to_plain

        plain = to_plain(studies)
        echo_json({"schema": "assay.scale/1", "curves": [s.pop("curve") for s in plain], "studies": plain})
        return
    from rich.console import Console

    from assay.report import scaling_terminal

    if how := _grouping(studies, runs_dir, references, group):
        click.echo(f"{how}\n")
    Console(highlight=False).print(scaling_terminal.studies(studies))


def _grouping(studies: Sequence[Study], runs_dir: Path, references: Sequence[str], group: By | None) -> str:
    """How the systems of one reference were grouped into curves; "" where they were not."""
    by = _grouped_by([named(runs_dir, reference) for reference in dict.fromkeys(references)], group)
    if by == "none":
        return ""
    what = "name without its count" if by == "name" else "accelerator"
    others = "--group accelerator or none" if by == "name" else "--group name or none"
    curves = len({study.curve.system for study in studies})
    return f"Sizes of {counted(curves, 'machine')}, by submitter and {what}; {others} groups otherwise."


def _grouped_by(found: Sequence[Named], group: By | None) -> By:
    imported = all(r.run.source is not None for one in found for r in one.results)
    several = len({r.run.trial.system for one in found for r in one.results}) > 1
    return "none" if len(found) > 1 or not several else group or ("name" if imported else "none")


def studies_of(
    runs_dir: Path,
    references: Sequence[str],
    *,
    metric: str | Sequence[str] | None = None,
    at: Sequence[int] = (),
    prices: Prices | None = None,
    group: By | None = None,
) -> tuple[Study, ...]:
    """The curves of the runs that are referred to, and what follows from each.

    Several references are one curve; of one, `group` says which systems are. Raises InputError where there is
    none, and says why.
    """
    from assay.analyse.machines import machines
    from assay.analyse.scaling import common_name, curves
    from assay.analyse.scaling_study import study
    from assay.read import flops

    ready(runs_dir)
    found = [named(runs_dir, reference) for reference in dict.fromkeys(references)]
    results = list({r.run.id: r for one in found for r in one.results}.values())
    systems = list(dict.fromkeys(r.run.trial.system for r in results))
    several = len(found) > 1 and len(systems) > 1
    across = common_name(systems) or " + ".join(systems) if several else None
    by = _grouped_by(found, group)
    if by == "none":
        made = curves(results, metrics=found[0].metrics(), metric=metric, across=across)
    else:
        made = [
            curve
            for name, sizes in machines(results, by).items()
            for curve in curves(sizes, metrics=found[0].metrics(), metric=metric, across=name)
        ]
    if not made:
        raise InputError(_no_curve(found, systems, metric))
    return tuple(study(curve, at=at, prices=prices, flops=flops, beside=results) for curve in made)


def _no_curve(found: Sequence[Named], systems: Sequence[str], metric: str | Sequence[str] | None) -> str:
    shapes = sorted({str(result.run.trial.shape) for one in found for result in one.results})
    wanted = (metric,) if isinstance(metric, str) else metric
    what = "its primary metrics" if wanted is None else ", ".join(wanted)
    words = (
        f"{' '.join(one.reference for one in found)}: no curve: {what} must scale with the ranks and have "
        f"results at two sizes at least (its runs have the shapes {', '.join(shapes)})"
    )
    if len(found) == 1 and len(systems) > 1 and len(shapes) > 1:
        words += (
            f". To hold its {len(systems)} systems as sizes of one curve, name each: "
            f"`assay scale {found[0].reference}:{systems[0]} {found[0].reference}:{systems[1]} …`"
        )
    return words
