"""`assay watch --nccl-ras`: what NCCL itself reports of a running job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from assay.cli.options import echo_json_line

if TYPE_CHECKING:
    from assay.monitor.nccl_ras import RasRank, RasStall, RasWatch

MOST_NAMED = 8  # ranks in a sentence


def show(address: str, every: float, for_: float | None, *, as_json: bool) -> None:
    """Print each answer, and exit with 1 if the last one names a rank."""
    from assay.monitor.questions.watch import watch_nccl

    last = None
    for last in watch_nccl(address, every=every, for_=for_):
        if as_json:
            echo_json_line(last.document())
            continue
        for line in _describe_communicators(last):
            click.echo(line)
    if last is not None and last.names_a_rank:
        click.get_current_context().exit(1)


def _describe_communicators(watched: RasWatch) -> Iterator[str]:
    from assay.units import counted

    largest = max((communicator.size for communicator in watched.communicators), default=0)
    count = counted(len(watched.communicators), "communicator")
    yield f"{watched.at_s:8.1f} s  {count}, the largest of {counted(largest, 'rank')}"
    for stall in watched.stalls:
        yield f"! {_stall(stall)}"
    for name, ranks in watched.lost.items():
        yield f"! communicator {name}: no answer from {_named(ranks)}"
    for name, ranks in watched.failed.items():
        yield f"! communicator {name}: NCCL reports error {ranks[0].error} of {_named(ranks)}"


def _stall(stall: RasStall) -> str:
    calls = f"{stall.low}" if stall.low == stall.high - 1 else f"{stall.low} to {stall.high - 1}"
    return (
        f"communicator {stall.communicator} of {stall.size}: the others wait for {_named(stall.behind)}, "
        f"with {calls} calls of {stall.operation} instead of {stall.high}; nothing has changed for "
        f"{stall.silent_s:.0f} s, before for at most {stall.longest_gap_s:.0f} s"
    )


def _named(ranks: Sequence[RasRank]) -> str:
    more = f" and {len(ranks) - MOST_NAMED} more" if len(ranks) > MOST_NAMED else ""
    named = ", ".join(f"{rank.rank} ({rank.host}, process {rank.pid})" for rank in ranks[:MOST_NAMED])
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {named}{more}"
