"""`assay watch --flight-recorder`: what dumps of torch's flight recorder say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import echo_json

if TYPE_CHECKING:
    from assay.monitor.flight_recorder import CollectiveStop, FlightRecord

MOST_NAMED = 8  # ranks in a sentence


def show(directory: Path, *, as_json: bool) -> None:
    """Print it, and exit with 1 if a rank is named."""
    from assay.monitor.questions.watch import flight_record

    record = flight_record(directory)
    if as_json:
        echo_json(record.document())
    else:
        for line in _describe_record(record):
            click.echo(line)
    if record.stops or record.stragglers:
        click.get_current_context().exit(1)


def _describe_record(record: FlightRecord) -> Iterator[str]:
    from assay.cli.watch_logs import limits
    from assay.units import counted

    yield f"Dumps of {counted(len(record.ranks), 'rank')}."
    for stop in record.stops:
        yield from _stop(stop)
    if any(stop.missing for stop in record.stops):
        yield "This holds for dumps of a timeout: in dumps of a job that runs, a rank may be a moment behind."
    if not record.stops:
        yield "No collective is open: every rank had completed what it called."
    for slow in record.stragglers:
        yield (
            f"! rank {slow.rank} takes {slow.ratio:.2f} times as long from one collective to the next as the "
            f"others ({slow.low:.2f} to {slow.high:.2f}, {slow.steps} collectives)"
        )
    for group, verdict in record.verdicts.items():
        yield from (f"group {group}: {line}" for line in limits(verdict, "collective", "rank {}".format))
    if not record.timed:
        yield "Collectives were not timed, so nobody can be named as slow: set TORCH_NCCL_ENABLE_TIMING=1."


def _stop(stop: CollectiveStop) -> Iterator[str]:
    where = f"collective {stop.number} ({stop.name}) of group {stop.group}"
    if stop.missing:
        has = "has" if len(stop.missing) == 1 else "have"
        yield f"! {_ranks(stop.missing)} {has} not reached {where}; {_named(stop.waiting)} wait in it"
    elif not stop.different:
        yield f"! every rank is in {where}, and it does not complete: look at the network and the GPUs"
    for rank, call in list(stop.different.items())[:MOST_NAMED]:
        yield f"! rank {rank} called {call} as {where}"


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {_named(ranks)}"


def _named(ranks: Sequence[int]) -> str:
    more = f" and {len(ranks) - MOST_NAMED} more" if len(ranks) > MOST_NAMED else ""
    return ", ".join(map(str, ranks[:MOST_NAMED])) + more
