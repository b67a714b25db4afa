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
    from assay.questions.stack_indicators import IndicatorListing
    from assay.stacks.predictions import IndicatorPrediction


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
    from assay.questions.stack_indicators import stack_indicators

    with reading() as progress:
        found = stack_indicators(workload=workload, runs=runs_dir, progress=progress)
    if as_json:
        from assay.documents.stack_indicators import document

        options.echo_json(document(found))
        return
    from assay.view.terminal import printable

    for line in _lines(found):
        click.echo(printable(line))


def _lines(found: IndicatorListing) -> Iterator[str]:
    if not found.predictions:
        yield _nothing(found)
        return
    for _, group in groupby(found.predictions, key=lambda one: one.workload.key):
        of = list(group)
        used = sum(one.predicts for one in of)
        series = of[0].workload
        share = f"{used} of {counted(len(of), 'indicator')} used for advice"
        yield f"{series.title} on {series.hardware}: {share}"
        yield f"  {_reliability(of[0])}"
        yield from (f"  {line}" for line in prediction_lines(of))


def _reliability(one: IndicatorPrediction) -> str:
    """How well the workload predicts itself: what its noise leaves for any indicator."""
    r = one.reliability
    if r is None:
        return "its own steps were not measured in two halves of its sessions: how much is noise is unknown"
    ends = "no interval" if r.low is None or r.high is None else f"{r.low:.2f} to {r.high:.2f}"
    return (
        f"its own steps, one half of its sessions with the other: rank correlation {r.value:.2f} ({ends}) "
        f"over {r.n} steps; where that is low, noise limits the correlations below"
    )


def _nothing(found: IndicatorListing) -> str:
    if not found.indicators:
        return "No indicator was measured. Run the workload indicators on the stacks that you measure."
    listed = ", ".join(found.indicators)
    return (
        f"No stack was measured with an indicator and a workload on the same hardware. Indicators: {listed}."
    )


def prediction_lines(found: Sequence[IndicatorPrediction]) -> Iterator[str]:
    """Each indicator with its correlation, what that rests on, and why it is not used."""
    wide = max(len(one.indicator.title) for one in found)
    for one in found:
        why = "" if one.predicts else f"; not used: {one.why_not}"
        yield f"{one.indicator.title:{wide}}  {correlation(one)}{why}"


def correlation(one: IndicatorPrediction) -> str:
    """`rank correlation 0.81 (0.32 to 0.96) over 11 steps, 12 stacks: 90 % of pairs of steps …`."""
    from assay.analyse.stacks.rank_agreement import agreement

    c = one.correlation
    stacks = counted(one.stacks, "stack")
    if c is None:
        return f"rank correlation unknown, {stacks}"
    ends = "no interval" if c.low is None or c.high is None else f"{c.low:.2f} to {c.high:.2f}"
    return (
        f"rank correlation {c.value:.2f} ({ends}) over {c.n} steps, {stacks}: "
        f"{agreement(c.value):.0%} of pairs of steps ordered alike".replace("%", " %")
    )
