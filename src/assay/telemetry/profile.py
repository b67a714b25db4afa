"""What a run's nodes and GPUs did over its time, at most a few hundred points per line."""

# ruff: noqa: S608 - queries contain our own words, checked names, and numbers

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay.telemetry import recorded
from assay.telemetry.recorded import TelemetryGap
from assay.telemetry.samples import COUNTER, TABLES, TelemetryEvent

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MOST_BUCKETS = 240


@dataclass(frozen=True)
class TelemetryLine:
    """One value over time: (seconds since the profile's begin, value), a mean over each bucket.

    name  of what is drawn, with its node or GPU if there are several: `job`, `GPU 3`
    """

    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class TelemetryPanel:
    """Lines with one unit: `cores`, `B`, `B/s`, `%`, `W`, `°C`, `Hz`."""

    title: str
    unit: str
    lines: tuple[TelemetryLine, ...]


@dataclass(frozen=True)
class TelemetryProfile:
    """The telemetry of a run.

    begin_at  seconds since 1970, where the panels' time begins; events and gaps have times of day
    """

    begin_at: float
    end_at: float
    period_s: float
    panels: tuple[TelemetryPanel, ...]
    events: tuple[tuple[float, int, TelemetryEvent], ...] = ()
    gaps: tuple[TelemetryGap, ...] = ()


@dataclass(frozen=True)
class _PanelSource:
    """title, unit, table, and (name of the line, column, factor); counters are drawn as rates."""

    title: str
    unit: str
    table: str
    lines: tuple[tuple[str, str, float], ...]


_SOURCES: Final = (
    _PanelSource("GPU use", "%", "gpu", (("", "utilization_percent", 1),)),
    _PanelSource("GPU power", "W", "gpu", (("", "power_watts", 1),)),
    _PanelSource("GPU memory", "B", "gpu", (("", "memory_used_bytes", 1),)),
    _PanelSource("GPU temperature", "°C", "gpu", (("", "temperature_celsius", 1),)),
    _PanelSource("SM clock", "Hz", "gpu", (("", "sm_clock_hertz", 1),)),
    _PanelSource(
        "CPU",
        "cores",
        "node",
        (
            ("job", "job_cpu_seconds_total", 1),
            ("node", "cpu_busy_seconds_total", 1),
            ("throttled", "cpu_throttled_seconds_total", 1),
        ),
    ),
    _PanelSource(
        "memory", "B", "node", (("job", "job_memory_bytes", 1), ("page cache", "memory_page_cache_bytes", 1))
    ),
    _PanelSource(
        "disk",
        "B/s",
        "node",
        (
            ("job read", "job_read_bytes_total", 1),
            ("job wrote", "job_written_bytes_total", 1),
            ("node read", "disk_read_bytes_total", 1),
            ("node wrote", "disk_written_bytes_total", 1),
        ),
    ),
    _PanelSource(
        "network",
        "B/s",
        "node",
        (
            ("received", "network_received_bytes_total", 1),
            ("sent", "network_sent_bytes_total", 1),
            ("InfiniBand received", "infiniband_received_bytes_total", 1),
            ("InfiniBand sent", "infiniband_sent_bytes_total", 1),
        ),
    ),
    _PanelSource(
        "waiting for",
        "%",
        "node",
        (
            ("a CPU", "cpu_pressure_seconds_total", 100),
            ("memory", "memory_pressure_seconds_total", 100),
            ("input and output", "io_pressure_seconds_total", 100),
        ),
    ),
)


def profile(directory: Path, until: float | None = None) -> TelemetryProfile | None:
    """The telemetry in an attempt's directory; None if it has none. Raises InputError if it is damaged.

    until  the run's end, seconds since 1970: samples that are missing before it are a gap
    """
    nodes = recorded.nodes(directory)
    if not nodes:
        return None
    with recorded.tables(directory) as tables:
        bounds = (
            "SELECT min(unix_s), max(unix_s) FROM (SELECT unix_s FROM node UNION ALL SELECT unix_s FROM gpu)"
        )
        begin_at, end_at = tables.execute(bounds).fetchall()[0]
        if begin_at is None:
            return None
        panels = tuple(_panels(tables, begin_at, end_at, max(n.header.period_s for n in nodes)))
        gaps = tuple(recorded.gaps(tables, nodes, until))
    events = sorted(
        ((node.header.started_at + event.at_s, node.node, event) for node in nodes for event in node.events),
        key=lambda timed: timed[0],
    )
    return TelemetryProfile(begin_at, end_at, nodes[0].header.period_s, panels, tuple(events), gaps)


def _panels(
    tables: DuckDBPyConnection, begin_at: float, end_at: float, period_s: float
) -> Iterator[TelemetryPanel]:
    bucket_s = max(period_s, (end_at - begin_at) / MOST_BUCKETS)
    known = {name: recorded.columns(tables, name) for name in TABLES}
    for source in _SOURCES:
        lines = [
            TelemetryLine(name, points)
            for label, column, factor in source.lines
            if column in known[source.table]
            for name, points in _lines_by_place(
                tables, source.table, label, column, factor, begin_at, bucket_s
            )
        ]
        drawn = tuple(line for line in lines if any(value for _, value in line.points))
        if drawn:
            yield TelemetryPanel(source.title, source.unit, drawn)


def _lines_by_place(
    tables: DuckDBPyConnection,
    table: str,
    label: str,
    column: str,
    factor: float,
    begin_at: float,
    bucket_s: float,
) -> list[tuple[str, tuple[tuple[float, float], ...]]]:
    """A line per node or GPU: means of the values, or of the counter's rates, in each bucket."""
    place = "node, gpu" if table == "gpu" else "node, NULL"
    window = f"OVER (PARTITION BY {place} ORDER BY unix_s)"
    value = (
        f"""CASE WHEN "{column}" >= lag("{column}") {window}
            THEN ("{column}" - lag("{column}") {window}) / nullif(unix_s - lag(unix_s) {window}, 0) END"""
        if column.endswith(COUNTER)
        else f'"{column}"'
    )
    query = f"""
        SELECT node, gpu, bucket, avg(value) * {factor!r} FROM (
            SELECT {place} AS gpu, floor((unix_s - {begin_at!r}) / {bucket_s!r}) AS bucket, {value} AS value
            FROM {table})
        WHERE value IS NOT NULL GROUP BY ALL ORDER BY ALL"""
    points_by_place: dict[tuple[int, int | None], list[tuple[float, float]]] = {}
    for node, gpu, bucket, mean in tables.execute(query).fetchall():
        points_by_place.setdefault((node, gpu), []).append(((bucket + 0.5) * bucket_s, mean))
    several = len({node for node, _ in points_by_place}) > 1
    return [
        (", ".join(_name(label, node if several else None, gpu)), tuple(points))
        for (node, gpu), points in points_by_place.items()
    ]


def _name(label: str, node: int | None, gpu: int | None) -> Iterator[str]:
    if node is not None:
        yield f"node {node}"
    if gpu is not None:
        yield f"GPU {gpu}"
    if label:
        yield label
