"""Stalls, gaps and events of runs as tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.report.contents.run_times import RunTime
from assay.units import human_seconds
from assay.view.blocks import Table, TableBody, TableRow

MOST_ROWS = 40  # of one table
UNEXPLAINED = "unknown"


def tables(times: Sequence[RunTime]) -> tuple[Table, ...]:
    """The stalls with their likely causes, and what is missing or happened in the telemetry."""
    sections = (
        ("Stalls", ("system", "run", "at", "lost", "likely cause", "evidence"), [*_stalls(times)]),
        ("Events and gaps in the telemetry", ("system", "run", "at", "what"), [*_events(times)]),
    )
    return tuple(
        Table(_title(title, rows), columns, (TableBody("", tuple(rows[:MOST_ROWS])),), frozenset(range(6)))
        for title, columns, rows in sections
        if rows
    )


def _title(title: str, rows: Sequence[TableRow]) -> str:
    return title if len(rows) <= MOST_ROWS else f"{title}, the first {MOST_ROWS} of {len(rows)}"


def _stalls(times: Sequence[RunTime]) -> Iterator[TableRow]:
    for time in times:
        for stall in time.stalls:
            yield TableRow(
                (
                    time.side,
                    time.trial,
                    human_seconds(stall.begin_at - time.begin_at),
                    human_seconds(stall.lost_s),
                    stall.cause or UNEXPLAINED,
                    stall.evidence or "nothing in the telemetry shows a cause",
                )
            )


def _events(times: Sequence[RunTime]) -> Iterator[TableRow]:
    for time in times:
        if time.problem:
            yield TableRow((time.side, time.trial, "", time.problem))
        if time.telemetry is None:
            continue
        for moment, node, event in time.telemetry.events:
            place = f"node {node}" if event.gpu is None else f"node {node}, GPU {event.gpu}"
            yield TableRow(
                (time.side, time.trial, human_seconds(moment - time.begin_at), f"{place}: {event.words}")
            )
        for gap in time.telemetry.gaps:
            place = f"node {gap.node}" if gap.gpu is None else f"node {gap.node}, GPU {gap.gpu}"
            missing = human_seconds(gap.end_at - gap.begin_at)
            begin = human_seconds(gap.begin_at - time.begin_at)
            yield TableRow((time.side, time.trial, begin, f"{place}: no sample for {missing}"))
