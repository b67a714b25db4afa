"""What each GPU did over a run, from the samples of its nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from assay.records import GpuUse
from assay.telemetry import recorded
from assay.telemetry.stalls import THROTTLED

POWER_CAP: Final = 0x04  # NVML's clock reason: the power limit
AT_WORK_PERCENT: Final = 50.0  # use from which on a sample's clock is one under load
_LATE: Final = 2.5  # periods between samples that still count as covered
_SLOWED: Final = (
    "thermal_software_seconds_total",
    "thermal_hardware_seconds_total",
    "power_brake_seconds_total",
)
_CAPPED: Final = ("power_limited_seconds_total",)


def gpu_uses(directory: Path) -> tuple[GpuUse, ...]:
    """Each GPU that the nodes of an attempt showed to its sampler; raises InputError if it is damaged."""
    nodes = recorded.nodes(directory)
    if not any(node.header.gpus for node in nodes):
        return ()
    periods = {node.node: node.header.period_s for node in nodes}
    with recorded.tables(directory) as tables:
        known = recorded.columns(tables, "gpu")
        used, power, clock = (
            name if name in known else "NULL::DOUBLE"
            for name in ("utilization_percent", "power_watts", "sm_clock_hertz")
        )
        steps = "".join(
            f", {name} - lag({name}) OVER w AS {name}_step" for name in (*_SLOWED, *_CAPPED) if name in known
        )
        rows = tables.execute(
            f"""
            SELECT node, gpu, coalesce(sum(d) FILTER (d <= late), 0), avg({used}) / 100, avg({power}),
                avg({clock}) FILTER ({used} >= {AT_WORK_PERCENT}),
                {_time_of(_SLOWED, THROTTLED, known)}, {_time_of(_CAPPED, POWER_CAP, known)}
            FROM (
                SELECT *, unix_s - lag(unix_s) OVER w AS d,
                    {_LATE} * CAST(? AS MAP(INTEGER, DOUBLE))[node] AS late{steps}
                FROM gpu WINDOW w AS (PARTITION BY node, gpu ORDER BY unix_s))
            GROUP BY node, gpu ORDER BY node, gpu""",  # noqa: S608 - our own names and numbers
            [periods],
        ).fetchall()
    once = recorded.gpus_once(nodes)
    return tuple(GpuUse(*row) for row in rows if row[:2] in once)


def _time_of(counters: tuple[str, ...], bits: int, known: frozenset[str]) -> str:
    """Seconds of the covered time for the reason that took most.

    From the driver's counters; where it has none, the time of the samples that name such a reason. A counter
    that decreased was reset, and its step is unknown.
    """
    counted = [
        f"sum({name}_step) FILTER (d <= late AND {name}_step >= 0)" for name in counters if name in known
    ]
    if "clock_reasons" in known:
        reason = f"CASE WHEN (clock_reasons::BIGINT & {bits}) != 0 THEN d ELSE 0 END"
        counted.append(f"sum({reason}) FILTER (d <= late AND clock_reasons IS NOT NULL)")
    if len(counted) < 2:
        return counted[0] if counted else "NULL::DOUBLE"
    *from_counters, last = counted
    return f"coalesce(greatest({', '.join(from_counters)}), {last})"
