"""`assay top`: what runs now, live."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, RUNS, duration, echo_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from assay.monitor.live import LiveNode, LiveRun, LiveRuns

MOST_ROWS = 16  # of a table: a large job's ranks and nodes, those that are off first


@click.command()
@click.argument("run", required=False, default="")
@click.option("--every", callback=duration, default="1s", show_default=True, help="Time between updates.")
@click.option("--once", is_flag=True, help="Print once and exit.")
@RUNS
@JSON
def command(run: str, every: float, once: bool, runs_dir: Path, as_json: bool) -> None:
    """Show what is running now: nodes, GPUs and ranks of each running trial, what is off first.

    RUN is a suite or a session; without it, every running trial is shown. The figures come from the files of
    the runs directory, so it also works while another `assay run` holds the session. If standard output is
    no terminal, it prints once.

    \b
    Examples:
      assay top
      assay top training --every 5s
      assay top --once --json

    \b
    Exit codes: 0 shown; 4 RUN matches nothing; 130 stopped by Ctrl-C.
    """
    from assay.questions.top import top

    if as_json:
        echo_json(top(run, runs=runs_dir).document())
        return
    from assay.cli.console import Console

    console = Console(highlight=False)
    if once or not sys.stdout.isatty():
        console.print(_render_runs(top(run, runs=runs_dir), runs_dir))
        return
    from rich.live import Live

    with Live(console=console, auto_refresh=False, screen=True) as screen:
        while True:
            screen.update(_render_runs(top(run, runs=runs_dir), runs_dir), refresh=True)
            time.sleep(every)


def _render_runs(live_runs: LiveRuns, runs_dir: Path) -> RenderableType:
    from rich.console import Group
    from rich.text import Text

    parts = [part for live in live_runs.running for part in _parts(live)]
    if not parts:
        parts.append(Text(f"Nothing is running in {runs_dir}."))
    return Group(
        *parts, *(Text(f"! {problem}", style="yellow") for problem in live_runs.problems[:MOST_ROWS])
    )


def _parts(live: LiveRun) -> list[RenderableType]:
    from rich.text import Text

    from assay.units import human_seconds

    figures = {name: value for rank in reversed(live.ranks) for name, value in rank.figures.items()}
    figure_texts = "".join(f"  {name} {_number(value)}" for name, value in figures.items())
    left = f", {live.left}" if live.left else ""
    head = Text.assemble(
        (live.run.trial.id, "bold"),
        f"  {live.session}  {live.run.trial.system}  {live.done} of {live.trials} done, "
        f"running for {human_seconds(live.running_s)}{left}{figure_texts}",
    )
    parts: list[RenderableType] = [head]
    if live.stopped:
        parts.append(Text(f"! it may have stopped: {live.stopped}", style="red"))
    if live.nodes:
        parts.append(_nodes(live.nodes))
    if any(node.gpus for node in live.nodes):
        parts.append(_gpus(live.nodes))
    if len(live.ranks) > 1:
        parts.append(_ranks(live))
    events = [f"node {node.node}: {event}" for node in live.nodes for event in node.events[-3:]]
    parts += [Text(f"! {event}", style="yellow") for event in events[-MOST_ROWS:]]
    return [*parts, Text("")]


def _table(title: str, columns: Sequence[str], rows: Sequence[tuple[Sequence[str], str]]) -> RenderableType:
    """Rows, and why some are off below them, where the width of a terminal serves the words."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column(title, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    for cells, off in rows[:MOST_ROWS]:
        table.add_row(*cells, style="red" if off else None)
    if len(rows) > MOST_ROWS:
        table.add_row(f"and {len(rows) - MOST_ROWS} more")
    return Group(
        table, *(Text(f"! {title} {cells[0]}: {off}", "red") for cells, off in rows[:MOST_ROWS] if off)
    )


def _nodes(nodes: Sequence[LiveNode]) -> RenderableType:
    columns = ("cores", "others", "memory", "read", "written", "received", "sent", "CPU wait")
    rows = []
    for node in nodes:
        speeds, values = node.speeds, node.values
        busy, own = speeds.get("cpu_busy_seconds"), speeds.get("job_cpu_seconds")
        others = None if busy is None or own is None else max(0.0, busy - own)
        pressure = speeds.get("cpu_pressure_seconds")
        cells = (
            str(node.node),
            _unit(own, ""),
            _unit(others, ""),
            _quantity(values, "job_memory_bytes", "B"),
            _quantity(speeds, "job_read_bytes", "B/s"),
            _quantity(speeds, "job_written_bytes", "B/s"),
            _quantity(speeds, "network_received_bytes", "B/s"),
            _quantity(speeds, "network_sent_bytes", "B/s"),
            "" if pressure is None else f"{pressure * 100:.0f} %",
        )
        rows.append((cells, node.off))
    return _table("node", columns, rows)


def _gpus(nodes: Sequence[LiveNode]) -> RenderableType:
    columns = ("use", "memory", "power", "temperature", "SM clock")
    rows = []
    for node in nodes:
        for gpu in node.gpus:
            values = gpu.values
            cells = (
                f"{node.node}/{gpu.index}",
                _unit(values.get("utilization_percent"), "%", 0),
                _quantity(values, "memory_used_bytes", "B"),
                _unit(values.get("power_watts"), "W", 0),
                _unit(values.get("temperature_celsius"), "°C", 0),
                _quantity(values, "sm_clock_hertz", "Hz"),
            )
            rows.append((cells, gpu.off))
    return _table("GPU", columns, sorted(rows, key=lambda row: not row[1]))


def _ranks(live: LiveRun) -> RenderableType:
    names = list(dict.fromkeys(name for rank in live.ranks for name in rank.figures))
    rows = []
    for rank in live.ranks:
        own = [_number(rank.figures[name]) if name in rank.figures else "" for name in names]
        rows.append(((str(rank.rank), f"{rank.silent_s:.0f} s ago", *own), rank.off))
    return _table("rank", ("printed", *names), rows)


def _number(value: float) -> str:
    from assay.units import significant

    return significant(value, 4)


def _unit(value: float | None, unit: str, decimals: int = 2) -> str:
    return "" if value is None else f"{value:.{decimals}f} {unit}".rstrip()


def _quantity(values: Mapping[str, float], name: str, unit: str) -> str:
    from assay.units import human

    return human(values[name], unit) if name in values else ""
