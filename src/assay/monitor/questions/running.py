"""What runs now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.questions.evidence import runs_directory
from assay.questions.question import Answer, Reference
from assay.units import human, human_seconds, significant
from assay.view.blocks import Heading, Paragraph, Table, TableBody, TableRow

if TYPE_CHECKING:
    from assay.monitor.live import LiveNode, LiveRun, LiveRuns
    from assay.view.blocks import Block

MOST_ROWS = 16  # of a table: a large job's ranks and nodes, those that are off first
Row = tuple[tuple[str, ...], str]  # cells, and why it needs a look, "" if it does not


def running_trials(reference: str = "", *, runs: Reference | None = None) -> LiveRuns:
    """Every running trial with its nodes, GPUs and ranks, what is off first, like `assay watch`.

    reference  a suite or a session; "": all
    runs       directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if the reference matches no session.
    """
    from assay.monitor.live import live_runs

    return live_runs(runs_directory(runs), reference)


@dataclass(frozen=True)
class Running(Answer):
    """What runs in a directory."""

    live: LiveRuns
    runs_dir: Path

    def view(self) -> Iterator[Block]:
        """Each trial with tables of its nodes, GPUs and ranks."""
        for run in self.live.running:
            yield Heading(run.run.trial.id)
            yield from trial(run)
        if not self.live.running:
            yield Paragraph(f"Nothing is running in {self.runs_dir}.")
        yield from (Paragraph(f"! {problem}", "undecided") for problem in self.live.problems[:MOST_ROWS])

    def document(self) -> dict[str, Any]:
        """Every running trial, and the sessions that can't be read."""
        return self.live.document()


def trial(live: LiveRun) -> Iterator[Block]:
    """How far a trial is, with tables of its nodes, GPUs and ranks."""
    figures = {name: value for rank in reversed(live.ranks) for name, value in rank.figures.items()}
    figure_texts = "".join(f"  {name} {significant(value, 4)}" for name, value in figures.items())
    left = f", {live.left}" if live.left else ""
    yield Paragraph(
        f"{live.session}  {live.run.trial.system}  {live.done} of {live.trials} done, "
        f"running for {human_seconds(live.running_s)}{left}{figure_texts}"
    )
    if live.stopped:
        yield Paragraph(f"! it may have stopped: {live.stopped}", "invalid")
    if live.nodes:
        yield from _nodes(live.nodes)
    if any(node.gpus for node in live.nodes):
        yield from _gpus(live.nodes)
    if len(live.ranks) > 1:
        names = list(dict.fromkeys(name for rank in live.ranks for name in rank.figures))
        rows: list[Row] = []
        for rank in live.ranks:
            own = [significant(rank.figures[name], 4) if name in rank.figures else "" for name in names]
            rows.append(((str(rank.rank), f"{rank.silent_s:.0f} s ago", *own), rank.off))
        yield from _table("rank", ("printed", *names), rows)
    events = [f"node {node.node}: {event}" for node in live.nodes for event in node.events[-3:]]
    yield from (Paragraph(f"! {event}", "undecided") for event in events[-MOST_ROWS:])


def _table(title: str, columns: Sequence[str], rows: Sequence[Row]) -> Iterator[Block]:
    """Rows, and why some are off below them, where the width of a terminal serves the words."""
    shown = [TableRow(cells, "fails" if off else "") for cells, off in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        shown.append(TableRow((f"and {len(rows) - MOST_ROWS} more", *[""] * len(columns))))
    yield Table("", (title, *columns), (TableBody("", tuple(shown)),), verdicts=0)
    for cells, off in rows[:MOST_ROWS]:
        if off:
            yield Paragraph(f"! {title} {cells[0]}: {off}", "invalid")


def _nodes(nodes: Sequence[LiveNode]) -> Iterator[Block]:
    columns = ("cores", "others", "memory", "read", "written", "received", "sent", "CPU wait")
    rows: list[Row] = []
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


def _gpus(nodes: Sequence[LiveNode]) -> Iterator[Block]:
    columns = ("use", "memory", "power", "temperature", "SM clock")
    rows: list[Row] = []
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


def _unit(value: float | None, unit: str, decimals: int = 2) -> str:
    return "" if value is None else f"{value:.{decimals}f} {unit}".rstrip()


def _quantity(values: Mapping[str, float], name: str, unit: str) -> str:
    return human(values[name], unit) if name in values else ""
