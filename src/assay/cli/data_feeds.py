"""`assay data feeds`: how many accelerators a storage feeds, and what checkpoints cost a day."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, RUNS, echo_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.analyse.feeding import CheckpointCost, Feeding


@click.command("feeds")
@click.argument("references", metavar="RUN…", nargs=-1, required=True)
@click.option("--sample-bytes", metavar="SIZE", help="Stored bytes of a sample: 110kB.  [default: as read]")
@click.option("--checkpoint-every", metavar="TIME", help="Also show what saving so often costs a day: 30min.")
@RUNS
@JSON
def command(
    references: tuple[str, ...],
    sample_bytes: str | None,
    checkpoint_every: str | None,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Show how many of a training's accelerators a storage feeds before it becomes the limit.

    RUNs contain the supply and the demand. Supply: a training in mode data-only, which reads and decodes what
    the training does, or the workload storage, which reads without decoding. Demand: the same training in
    mode synthetic or real, per accelerator. A sample has the bytes that a data-only run read, unless stated.
    The doubts of both are listed. If others may have used more than 20 % of the CPU time of a side, nothing
    is promised.

    \b
    Examples:
      assay data feeds storage-acceptance
      assay data feeds nfs-reads resnet50-scaling --sample-bytes 110kB
      assay data feeds storage-acceptance --checkpoint-every 30min --json

    \b
    Exit codes: 0 shown; 4 the runs have no supply with its demand.
    """
    from assay.questions.feeds import feeds

    result = feeds(*references, sample_bytes=sample_bytes, checkpoint_every=checkpoint_every, runs=runs_dir)
    if as_json:
        echo_json(result.document())
        return
    for feeding in result.feedings:
        for line in _feeding(feeding):
            click.echo(line)
    for cost in result.checkpoints:
        click.echo(_cost(cost))
    for what in result.apart:
        click.echo(f"not compared: {what}")
    if result.unread:
        rest = f" and {len(result.unread) - 1} more" if len(result.unread) > 1 else ""
        click.echo(
            f"not read: {result.unread[-1]}{rest}; name sessions to let the interval cover all of them"
        )
    if any(feeding.doubts for feeding in result.feedings):
        from assay.cli.console import Console
        from assay.view.terminal import doubts_table
        from assay.view.verdicts import doubts_of_feedings

        console = Console(highlight=False)
        console.print("\nDoubts:")
        console.print(doubts_table(doubts_of_feedings(result.feedings)))


def _feeding(feeding: Feeding) -> Iterator[str]:
    from assay.units import counted, human, significant

    supply, demand, fed = feeding.supply, feeding.demand, feeding.accelerators
    pattern = f", {feeding.pattern}" if feeding.pattern else ""
    what = f"{supply.system} {supply.benchmark} {supply.shape}{pattern}"
    number = significant(fed.value, 3)
    if fed.low is None or fed.high is None:
        like = f"accelerators like {demand.system}'s"
        yield f"{what} feeds about {number} {like}; nothing is promised: {feeding.why}"
    else:
        between = f"{significant(fed.low, 3)} to {significant(fed.high, 3)}"
        least = counted(feeding.at_least or 0, "accelerator")
        yield f"{what} feeds at least {least} like {demand.system}'s: {number} ({between})"
    sample_size = f" of {human(feeding.sample_bytes, 'B')} each" if feeding.sample_bytes is not None else ""
    sessions = ", ".join(sorted({*supply.sessions, *demand.sessions}))
    yield (
        f"  supply {human(supply.rate.value, supply.rate.unit)}; demand of one accelerator in "
        f"{demand.benchmark} {demand.shape} {human(demand.rate.value, demand.rate.unit)}{sample_size}; "
        f"from {sessions}"
    )


def _cost(cost: CheckpointCost) -> str:
    from assay.units import human, human_seconds

    save, day = cost.save_s, cost.day_s
    between = (
        f" ({human_seconds(day.low)} to {human_seconds(day.high)})"
        if day.low is not None and day.high is not None
        else ""
    )
    return (
        f"{cost.system} {cost.benchmark} {cost.shape}: a checkpoint of {human(cost.bytes_, 'B')} takes "
        f"{human_seconds(save.value)}; after every {human_seconds(cost.every_s)} of work that is "
        f"{human_seconds(day.value)} a day{between}, {day.value / 86400:.2%} of the time"
    )
