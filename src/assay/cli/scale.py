"""`assay scale`: what more workers bring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.evidence import Named, named, ready
from assay.cli.options import JSON, RUNS, echo_json
from assay.errors import InputError

if TYPE_CHECKING:
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
@RUNS
@JSON
def command(
    references: tuple[str, ...],
    metric: tuple[str, ...],
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
    Several RUNs, such as imported sets of one machine at several sizes, are one curve.

    A size that is faster than the next smaller one by more than its ranks says that the smaller lost speed:
    how much at least, and what to repeat, comes first. Sizes with another batch are left out of the law.

    \b
    Examples:
      assay scale quickstart
      assay scale resnet50-scaling:dgx-openshift --metric throughput --at 64
      assay scale ssd-8-gpus ssd-16-gpus ssd-32-gpus --metric time_per_epoch --metric time_to_train
      assay scale resnet50-scaling --price-per-accelerator-hour 2.5 --power-w 700
      assay scale quickstart --json
    """
    from assay.analyse.spending import Prices

    prices = Prices(price_per_accelerator_hour, power_w)
    studies = studies_of(runs_dir, references, metric=metric or None, at=at, prices=prices)
    if as_json:
        from assay.records import to_plain

        plain = to_plain(studies)
        echo_json({"schema": "assay.scale/1", "curves": [s.pop("curve") for s in plain], "studies": plain})
        return
    from rich.console import Console

    from assay.report import scaling_terminal

    Console(highlight=False).print(scaling_terminal.studies(studies))


def studies_of(
    runs_dir: Path,
    references: Sequence[str],
    *,
    metric: str | Sequence[str] | None = None,
    at: Sequence[int] = (),
    prices: Prices | None = None,
) -> tuple[Study, ...]:
    """The curves of the runs that are referred to, and what follows from each.

    Several references are one curve. Raises InputError where there is none, and says why.
    """
    from assay.analyse.scaling import common_name, curves
    from assay.analyse.scaling_study import study
    from assay.read import flops

    ready(runs_dir)
    found = [named(runs_dir, reference) for reference in dict.fromkeys(references)]
    results = list({r.run.id: r for one in found for r in one.results}.values())
    systems = list(dict.fromkeys(r.run.trial.system for r in results))
    several = len(found) > 1 and len(systems) > 1
    across = common_name(systems) or " + ".join(systems) if several else None
    made = curves(results, metrics=found[0].metrics(), metric=metric, across=across)
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
        each = " ".join(f"{found[0].reference}:{system}" for system in systems)
        words += f". To hold its systems as sizes of one curve: `assay scale {each}`"
    return words
