"""`assay goodput`: useful time, time between failures, the best checkpoint interval."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, RUNS, echo_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from assay.analyse.goodput.checkpoints import CheckpointInterval
    from assay.analyse.goodput.failures import FailureRate
    from assay.questions.goodput import GoodputResult

MOST_NODES = 10  # shown
MOST_SIZES = 8  # of jobs, shown
FILE = click.Path(path_type=Path, dir_okay=False, exists=True)


@click.command()
@click.argument("reference", required=False, default="")
@click.option("--csv", "table", type=FILE, help="Jobs as a table; docs/how-to/goodput.md has its columns.")
@click.option("--sacct", type=FILE, help="Output of `sacct -D --json`.")
@click.option("--pods", type=FILE, help="Output of `kubectl get pods --all-namespaces -o json`.")
@click.option("--checkpoint-cost", metavar="TIME", help="Time that saving a checkpoint takes: 60s.")
@click.option("--until", metavar="TIME", help="End of the observation: a date or an age.  [default: now]")
@RUNS
@JSON
def command(
    reference: str,
    table: Path | None,
    sacct: Path | None,
    pods: Path | None,
    checkpoint_cost: str | None,
    until: str | None,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Show how much of the time of jobs was useful, how often they fail, and how often to save a checkpoint.

    REFERENCE is a suite or a session of the runs directory. Jobs that still run, were cancelled, or succeeded
    count as time without a failure. What a source does not account for stays unknown, so goodput is a range.

    \b
    Examples:
      assay goodput
      sacct -D --json -S 2026-11-01 > jobs.json && assay goodput --sacct jobs.json --checkpoint-cost 60s
      kubectl get pods -A -o json > pods.json && assay goodput --pods pods.json
      assay goodput --csv jobs.csv --until 2026-11-23

    \b
    Exit codes: 0 shown; 4 a source can't be read, or nothing ran.
    """
    from assay.questions.goodput import goodput

    result = goodput(
        reference,
        table=table,
        sacct=sacct,
        pods=pods,
        checkpoint_cost=checkpoint_cost,
        until=until,
        runs=runs_dir,
    )
    if as_json:
        echo_json(result.document())
        return
    for line in _describe_result(result):
        click.echo(line)


def _describe_result(result: GoodputResult) -> Iterator[str]:
    from assay.units import counted, human_seconds

    if (share := result.share) is not None:
        known = (
            f"{share.low:.1%}" if share.high - share.low < 0.0005 else f"{share.low:.1%} to {share.high:.1%}"
        )
        parts = ", ".join(
            f"{name} {seconds / share.wall_s:.1%}" for name, seconds in share.parts_s.items() if seconds
        )
        yield f"Goodput: {known} of {human_seconds(share.wall_s)} of jobs on nodes ({parts})"
    for size in result.by_size[:MOST_SIZES]:
        on = f" on {counted(size.nodes, 'node')}" if size.nodes else ""
        yield f"A job{on} runs {_between(size.rate)}"
        if size.checkpoint is not None:
            yield f"  {_checkpoint(size.checkpoint)}"
    if len(result.by_size) > MOST_SIZES:
        yield f"and {counted(len(result.by_size) - MOST_SIZES, 'smaller size')}: --json has them"
    if result.of_nodes is not None:
        yield f"A node runs {_between(result.of_nodes)}"
    suspects = [node for node in result.by_node if node.suspect]
    for node in suspects[:MOST_NODES]:
        yield (
            f"! {node.node}: {counted(node.failures, 'failure')} in {human_seconds(node.time_s)}, more than "
            f"the others' rate explains (p = {node.p:.2g} over {counted(len(result.by_node), 'node')})"
        )
    if len(suspects) > MOST_NODES:
        yield f"! and {counted(len(suspects) - MOST_NODES, 'more node')}"
    if any(size.rate.failures for size in result.by_size):
        yield (
            "Intervals hold for causes at a constant rate; what fails again within an hour of a restart has "
            "the cause of the failure before. Jobs on more nodes fail more often, by how much only they show."
        )
    for problem in result.unreadable[:MOST_NODES]:
        yield f"! not counted: {problem}"
    if len(result.unreadable) > MOST_NODES:
        yield f"! and {len(result.unreadable) - MOST_NODES} more"


def _between(rate: FailureRate) -> str:
    from assay.units import counted, human_seconds

    if rate.mean_s is None or rate.high_s is None:
        return (
            f"more than {human_seconds(rate.low_s)} between failures, with 95 % confidence "
            f"(no failure in {human_seconds(rate.time_s)})"
        )
    together = f" of {counted(rate.incidents, 'cause')}" if rate.incidents < rate.failures else ""
    return (
        f"{human_seconds(rate.mean_s)} between failures "
        f"({human_seconds(rate.low_s)} to {human_seconds(rate.high_s)}, "
        f"{counted(rate.failures, 'failure')}{together} in {human_seconds(rate.time_s)})"
    )


def _checkpoint(interval: CheckpointInterval) -> str:
    from assay.units import human_seconds

    cost = human_seconds(interval.cost_s)
    if (
        interval.daly_s is None
        or interval.young_s is None
        or interval.high_s is None
        or interval.waste is None
    ):
        return (
            f"Checkpoints of {cost}: every {human_seconds(interval.low_s)} or less often (Daly); at that "
            f"rate, at most {interval.waste_high:.1%} of the time goes to checkpoints and repeated work"
        )
    return (
        f"Checkpoints of {cost}: every {human_seconds(interval.daly_s)} of work "
        f"({human_seconds(interval.low_s)} to {human_seconds(interval.high_s)}; Daly, Young "
        f"{human_seconds(interval.young_s)}); {interval.waste:.1%} of the time then goes to checkpoints and "
        f"repeated work "
        f"({interval.waste_low or 0:.1%} to {interval.waste_high:.1%})"
    )
