"""`assay list`: runs and imported sets, newest first. Fast with 100,000 runs: only changes are read."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from assay.cli.options import JSON, RUNS, SINCE, echo_json
from assay.errors import UnreadableError


@click.command()
@click.option("--suite", help="Only runs of this suite or imported set.")
@click.option("--system", help="Only runs on this system.")
@click.option("--workload", help="Only runs of this workload.")
@click.option("--benchmark", help="Only runs of this benchmark.")
@click.option(
    "--state",
    type=click.Choice(["submitting", "running", "finished", "failed"]),
    help="Only runs in this state.",
)
@SINCE
@click.option("--trials", is_flag=True, help="One line per run instead of one per session and system.")
@click.option(
    "--limit", type=click.IntRange(min=1), default=40, show_default=True, help="Maximum number of lines."
)
@RUNS
@JSON
def command(
    suite: str | None,
    system: str | None,
    workload: str | None,
    benchmark: str | None,
    state: str | None,
    since: float | None,
    trials: bool,
    limit: int,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """List runs and imported sets, newest first: each line begins with what `show` and `compare` accept.

    \b
    Examples:
      assay list
      assay list --suite resnet50-scaling --since 7d
      assay list --trials --state failed
    """
    from assay.questions.list_ import list_
    from assay.store import Filter

    only = Filter(suite, system, workload, benchmark, state, since)
    listing = list_(only, limit=limit, trials=trials, runs=runs_dir)
    if as_json:
        named = "runs" if trials else "sets"
        echo_json({"schema": "assay.list/1", named: listing.rows, "changed_since": listing.changed})
    elif listing.rows:
        _print_table(listing.rows, limit, trials=trials)
    elif not listing.unreadable:
        click.echo(
            "No runs yet. To make some, run `assay run SUITE`." if only == Filter() else "No matching runs."
        )
    if listing.unreadable:
        raise UnreadableError(listing.unreadable)


def _print_table(rows: Sequence[dict[str, Any]], limit: int, *, trials: bool) -> None:
    heading, lines = (_RUN, map(_run, rows)) if trials else (_SET, map(_set, rows))
    for line in _columns([heading, *lines], _width()):
        click.echo(line)
    if len(rows) == limit:
        click.echo(f"Showing the newest {limit}; --limit shows more.", err=True)


_NARROW = 24  # columns; a last cell with fewer is placed below its row
_SET = ("reference", "ok", "failed", "open", "when (UTC)", "benchmarks")
_RUN = ("run", "state", "shape", "took", "when (UTC)", "why")


def _set(row: dict[str, Any]) -> Sequence[str]:
    return (
        row["reference"],
        str(row["finished"]),
        str(row["failed"] or "·"),
        str(row["open"] or "·"),
        _format_time(row["created_at"]),
        " ".join(row["benchmarks"]),
    )


def _run(row: dict[str, Any]) -> Sequence[str]:
    from assay.units import human_seconds

    took = "·" if row["duration_s"] is None else human_seconds(row["duration_s"])
    return (
        row["id"],
        row["state"],
        row["shape"],
        took,
        _format_time(row["created_at"]),
        row["cause"].split("\n")[0],
    )


def _format_time(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M")


def _width() -> int | None:
    """Columns of the terminal; None if the output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _columns(rows: Sequence[Sequence[str]], width: int | None) -> Iterator[str]:
    """Aligned plain text, because a table library would double the time that this command takes.

    width  at which the last cell of a row wraps, below its column or, if that is narrow, below the row
    """
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]) - 1)]
    indent = sum(widths) + 2 * len(widths)
    for *cells, last in rows:
        line = "".join(f"{cell:{wide}}  " for cell, wide in zip(cells, widths, strict=True))
        if width is None or indent + len(last) <= width:
            yield (line + last).rstrip()
        elif width - indent >= _NARROW:
            yield from textwrap.wrap(last, width, initial_indent=line, subsequent_indent=" " * indent)
        else:
            yield line.rstrip()
            yield from textwrap.wrap(last, width, initial_indent="    ", subsequent_indent="    ")
