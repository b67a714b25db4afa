"""`assay stack indicators`: how well indicators predict workloads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli import options
from assay.units import counted

if TYPE_CHECKING:
    from assay.stacks.indicators import IndicatorListing, IndicatorPrediction


@click.command()
@click.option("--workload", metavar="NAME", help="Only how they predict this workload.")
@options.RUNS
@options.JSON
def command(workload: str | None, runs_dir: Path, as_json: bool) -> None:
    """Show how well each performance indicator predicts each workload.

    An indicator predicts a workload if the steps from one version of a package to the next change both alike.
    The rank correlation (Kendall's) of steps comes with its 95 % interval, held jointly for all indicators of
    a workload. Only indicators whose interval lies above 0 are used by `assay stack advise`.

    A step is between stacks that differ in nothing else and were measured on the same hardware, in sessions
    that are linked by common stacks.

    \b
    Examples:
      assay stack indicators
      assay stack indicators --workload resnet50 --json
    """
    from assay.cli.stack_progress import reading
    from assay.stacks.indicators import stack_indicators

    with reading() as progress:
        listing = stack_indicators(workload=workload, runs=runs_dir, progress=progress)
    if as_json:
        options.echo_json(listing.document())
        return
    from assay.view.terminal import printable

    for line in _describe_listing(listing):
        click.echo(printable(line))


def _describe_listing(listing: IndicatorListing) -> Iterator[str]:
    if not listing.predictions:
        yield _nothing(listing)
        return
    for _, group in groupby(listing.predictions, key=lambda prediction: prediction.workload.key):
        predictions = list(group)
        used = sum(prediction.predicts for prediction in predictions)
        series = predictions[0].workload
        share = f"{used} of {counted(len(predictions), 'indicator')} used for advice"
        yield f"{series.title} on {series.hardware}: {share}"
        yield f"  {_reliability(predictions[0])}"
        yield from (f"  {line}" for line in prediction_lines(predictions))


def _reliability(prediction: IndicatorPrediction) -> str:
    """How well the workload predicts itself: what its noise leaves for any indicator."""
    r = prediction.reliability
    if r is None:
        return "its own steps were not measured in two halves of its sessions: how much is noise is unknown"
    ends = "no interval" if r.low is None or r.high is None else f"{r.low:.2f} to {r.high:.2f}"
    return (
        f"its own steps, one half of its sessions with the other: rank correlation {r.value:.2f} ({ends}) "
        f"over {r.n} steps; where that is low, noise limits the correlations below"
    )


def _nothing(listing: IndicatorListing) -> str:
    if not listing.indicators:
        return "No indicator was measured. Run the workload indicators on the stacks that you measure."
    listed = ", ".join(listing.indicators)
    return (
        f"No stack was measured with an indicator and a workload on the same hardware. Indicators: {listed}."
    )


def prediction_lines(predictions: Sequence[IndicatorPrediction]) -> Iterator[str]:
    """Each indicator with its correlation, what that rests on, and why it is not used."""
    wide = max(len(prediction.indicator.title) for prediction in predictions)
    for prediction in predictions:
        why = "" if prediction.predicts else f"; not used: {prediction.why_not}"
        yield f"{prediction.indicator.title:{wide}}  {correlation(prediction)}{why}"


def correlation(prediction: IndicatorPrediction) -> str:
    """`rank correlation 0.81 (0.32 to 0.96) over 11 steps, 12 stacks: 90 % of pairs of steps …`."""
    from assay.stacks.effects import agreement

    c = prediction.correlation
    stacks = counted(prediction.stacks, "stack")
    if c is None:
        return f"rank correlation unknown, {stacks}"
    ends = "no interval" if c.low is None or c.high is None else f"{c.low:.2f} to {c.high:.2f}"
    return (
        f"rank correlation {c.value:.2f} ({ends}) over {c.n} steps, {stacks}: "
        f"{agreement(c.value):.0%} of pairs of steps ordered alike".replace("%", " %")
    )
