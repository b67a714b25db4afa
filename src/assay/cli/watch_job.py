"""`assay watch --slurm-job` and `--kubernetes`: every node or pod of a job, live."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from assay.cli.options import echo_json_line
from assay.cli.watch_logs import beside
from assay.cli.watch_process import event_text, gpu_figures, node_figures, row_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from assay.monitor.watching_jobs import WatchedJob
    from assay.monitor.watching_logs import WatchedLogs

MOST_ROWS = 24  # of a live table


def show(
    slurm_job: str | None,
    kubernetes: str | None,
    every: float,
    for_: float | None,
    python: str,
    logs: WatchedLogs | None,
    *,
    as_json: bool,
) -> None:
    """Print samples as they arrive, then the summary."""
    from assay.monitor.questions.watch import watch_job

    watched = watch_job(slurm_job=slurm_job, kubernetes=kubernetes, every=every, for_=for_, python=python)
    paced = beside(_paced(watched, every), logs, as_json=as_json)
    if as_json:
        last = None
        for last in paced:
            echo_json_line(last.document())
        places = last.places if last else {}
        echo_json_line({"summary": {place: watching.summary() for place, watching in places.items()}})
        return
    (_live if sys.stdout.isatty() else _print_samples)(paced)


def _paced(samples: Iterator[WatchedJob], every: float) -> Iterator[WatchedJob]:
    """Once per period, although every node has a sample in it; and the last."""
    last, due = None, 0.0
    for last in samples:
        if time.monotonic() >= due:
            due = time.monotonic() + every
            yield last
    if last is not None:
        yield last


def _print_samples(samples: Iterator[WatchedJob]) -> None:
    last, shown = None, dict[str, int]()
    for last in samples:
        for place, watching in last.places.items():
            if None not in watching.latest:
                continue
            click.echo(f"{watching.latest[None].at_s:8.1f} s  {place}  {row_of(node_figures(watching))}")
            for gpu, row in gpu_figures(watching).items():
                click.echo(f"            {place} GPU {gpu}  {row_of(row)}")
            for event in watching.events[shown.get(place, 0) :]:
                click.echo(f"{event.at_s:8.1f} s  ! {place}: {event_text(event)}")
            shown[place] = len(watching.events)
    _end(last)


def _live(samples: Iterator[WatchedJob]) -> None:
    from rich.live import Live

    from assay.cli.console import Console

    last = None
    with Live(console=Console(highlight=False), auto_refresh=False, transient=True) as live:
        for last in samples:
            live.update(_table(last), refresh=True)
    for place, watching in last.places.items() if last else ():
        for event in watching.events:
            click.echo(f"{event.at_s:8.1f} s  ! {place}: {event_text(event)}")
    _end(last)


def _table(watched: WatchedJob) -> RenderableType:
    from rich.console import Group
    from rich.table import Table

    sampled = [(place, watching) for place, watching in watched.places.items() if None in watching.latest]
    nodes = Table(box=None, pad_edge=False, header_style="dim")
    nodes.add_column(f"{watched.job}: {len(sampled)} of {len(watched.places)}")
    for name in node_figures(sampled[0][1]) if sampled else ():
        nodes.add_column(name, justify="right", no_wrap=True)
    for place, watching in sampled[:MOST_ROWS]:
        nodes.add_row(place, *node_figures(watching).values())
    if len(sampled) > MOST_ROWS:
        nodes.add_row(f"and {len(sampled) - MOST_ROWS} more")
    rows = [
        (f"{place} {gpu}", row) for place, watching in sampled for gpu, row in gpu_figures(watching).items()
    ]
    if not rows:
        return nodes
    gpus = Table(box=None, pad_edge=False, header_style="dim")
    gpus.add_column("GPU")
    for name in rows[0][1]:
        gpus.add_column(name, justify="right", no_wrap=True)
    for name, row in rows[:MOST_ROWS]:
        gpus.add_row(name, *row.values())
    if len(rows) > MOST_ROWS:
        gpus.add_row(f"and {len(rows) - MOST_ROWS} more")
    return Group(nodes, gpus)


def _end(last: WatchedJob | None) -> None:
    from assay.units import counted, human, human_seconds

    if last is None:
        click.echo("It ended before the first sample.")
        return
    for place, watching in last.places.items():
        summary = watching.summary()
        if "watched_seconds" not in summary:
            click.echo(f"{place}: not sampled: {last.failed.get(place, 'it ended before the first sample')}")
            continue
        parts = [f"{place}: watched for {human_seconds(summary['watched_seconds'])}"]
        if "job_mean_cpu_cores" in summary:
            parts.append(f"{summary['job_mean_cpu_cores']:.2f} cores on average")
        if "job_peak_memory_bytes" in summary:
            parts.append(f"at most {human(summary['job_peak_memory_bytes'], 'B')} of memory")
        click.echo("; ".join(parts))
    if last.failed:
        click.echo(f"{counted(len(last.failed), 'place')} could not be sampled")
