"""`assay watch --pid`: a process and everything below it, live."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from assay.cli.options import echo_json_line
from assay.cli.watch_logs import beside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rich.table import Table

    from assay.monitor.watching import Watching
    from assay.monitor.watching_logs import WatchedLogs
    from assay.telemetry.samples import TelemetryEvent

UNKNOWN = "unknown"


def show(pid: int, every: float, for_: float | None, logs: WatchedLogs | None, *, as_json: bool) -> None:
    """Print samples as they arrive, then the summary."""
    from assay.monitor.questions.watch import watch

    samples = beside(watch(pid, every=every, for_=for_), logs, as_json=as_json)
    if as_json:
        last = None
        for last in samples:
            echo_json_line(last.document())
        echo_json_line({"summary": last.summary() if last else {}})
        return
    (_live if sys.stdout.isatty() else _lines)(samples)


def _lines(samples: Iterator[Watching]) -> None:
    """A line per sample, for logs and pipes."""
    shown, last = 0, None
    for last in samples:
        at_s = last.latest[None].at_s
        click.echo(f"{at_s:8.1f} s  {row_of(node_figures(last))}")
        for gpu, row in gpu_figures(last).items():
            click.echo(f"            GPU {gpu}  {row_of(row)}")
        for event in last.events[shown:]:
            click.echo(f"{event.at_s:8.1f} s  ! {event_text(event)}")
        shown = len(last.events)
    _end(last)


def row_of(figures: Mapping[str, str]) -> str:
    """The figures that are known: at the first sample, no speed is."""
    known = {name: figure for name, figure in figures.items() if figure != UNKNOWN}
    return "  ".join(f"{name} {figure:<11}" for name, figure in known.items()).rstrip()


def _live(samples: Iterator[Watching]) -> None:
    """A table that is redrawn at each sample."""
    from rich.live import Live

    from assay.cli.console import Console

    last = None
    with Live(console=Console(highlight=False), auto_refresh=False, transient=True) as live:
        for last in samples:
            live.update(_table(last), refresh=True)
    for event in last.events if last else ():
        click.echo(f"{event.at_s:8.1f} s  ! {event_text(event)}")
    _end(last)


def _table(watching: Watching) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", title_justify="left")
    table.add_column(f"process {watching.pid}")
    gpus = gpu_figures(watching)
    node = node_figures(watching)
    for name in node:
        table.add_column(name, justify="right")
    table.add_row(f"{watching.latest[None].at_s:.0f} s", *node.values())
    if not gpus:
        return table
    both = Table.grid()
    below = Table(box=None, pad_edge=False, header_style="dim")
    below.add_column("GPU")
    for name in next(iter(gpus.values())):
        below.add_column(name, justify="right")
    for gpu, row in gpus.items():
        below.add_row(str(gpu), *row.values())
    both.add_row(table)
    both.add_row(below)
    return both


def node_figures(watching: Watching) -> dict[str, str]:
    """What the job and its node do, by name."""
    values, speeds = watching.latest[None].values, watching.speeds.get(None, {})
    return {
        "CPU": _figure(speeds, "job_cpu_seconds", "{:.2f} cores"),
        "memory": _quantity(values, "job_memory_bytes", "B"),
        "processes": _figure(values, "job_processes", "{:.0f}"),
        "read": _quantity(speeds, "job_read_bytes", "B/s"),
        "written": _quantity(speeds, "job_written_bytes", "B/s"),
        "node CPU": _figure(speeds, "cpu_busy_seconds", "{:.2f} cores"),
        "received": _quantity(speeds, "network_received_bytes", "B/s"),
        "sent": _quantity(speeds, "network_sent_bytes", "B/s"),
    }


def gpu_figures(watching: Watching) -> dict[int, dict[str, str]]:
    """What each GPU does, by index and name."""
    return {
        gpu: {
            "use": _figure(sample.values, "utilization_percent", "{:.0f} %"),
            "memory": _quantity(sample.values, "memory_used_bytes", "B"),
            "power": _figure(sample.values, "power_watts", "{:.0f} W"),
            "temperature": _figure(sample.values, "temperature_celsius", "{:.0f} °C"),
            "SM clock": _quantity(sample.values, "sm_clock_hertz", "Hz"),
        }
        for gpu, sample in sorted((gpu, sample) for gpu, sample in watching.latest.items() if gpu is not None)
    }


def _figure(values: Mapping[str, float], name: str, form: str) -> str:
    return form.format(values[name]) if name in values else UNKNOWN


def _quantity(values: Mapping[str, float], name: str, unit: str) -> str:
    from assay.units import human

    return human(values[name], unit) if name in values else UNKNOWN


def event_text(event: TelemetryEvent) -> str:
    """An event, with its GPU."""
    return event.words if event.gpu is None else f"GPU {event.gpu}: {event.words}"


def _end(last: Watching | None) -> None:
    from assay.units import human_seconds

    summary = last.summary() if last else {}
    if not summary:
        click.echo("It ended before the first sample.")
        return
    parts = [f"watched for {human_seconds(summary['watched_seconds'])}"]
    if "job_mean_cpu_cores" in summary:
        parts.append(f"{summary['job_mean_cpu_cores']:.2f} cores on average")
    parts.append(f"at most {_quantity(summary, 'job_peak_memory_bytes', 'B')} of memory")
    click.echo("; ".join(parts))
