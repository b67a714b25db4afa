"""How GPUs were used in a run, and their energy, from the samples of its nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.records import GpuUse
from assay.telemetry import recorded
from assay.telemetry.samples import NodeTelemetry
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
COVERED: Final = 0.95  # share of a run's time that each GPU's counter must span, or its power samples cover
LEAST: Final = 0.8  # share that it must span however rare the samples are: the rest counts at its mean power
SHORTEST_S: Final = 2.0  # sensors observe a fraction of each 100 ms: shorter runs have no energy
_LATE_PERIODS: Final = 2.5  # periods between samples that still count as covered


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


@dataclass(frozen=True)
class GpuEnergy:
    """Energy of all GPUs that the nodes of a run showed to its sampler, whether the run used them or not.

    joules  from the run's start to its end, at the mean power of the time that was sampled
    watts   mean power of all GPUs together
    source  energy counters, or power readings where the driver has no counter
    """

    joules: float
    watts: float
    gpus: int
    nodes: int
    source: str


def gpu_energy(directory: Path, duration_s: float) -> GpuEnergy | None:
    """The energy of an attempt's GPUs; None if it has none, is too short, or a GPU lacks samples.

    duration_s  from the start of the ranks to the end

    Raises InputError if the telemetry is damaged.
    """
    nodes = recorded.nodes(directory)
    expected = recorded.gpus_once(nodes) - _measured_by_another(nodes)
    if not expected or duration_s < SHORTEST_S:
        return None
    periods = {node.node: node.header.period_s for node in nodes}
    with recorded.tables(directory) as tables:
        known = recorded.columns(tables, "gpu")
        if not {"energy_joules_total", "power_watts"} & known:
            return None
        energy = "energy_joules_total" if "energy_joules_total" in known else "NULL::DOUBLE"
        power = "power_watts" if "power_watts" in known else "NULL::DOUBLE"
        rows = tables.execute(
            f"""
            SELECT node, gpu, sum(CASE WHEN d <= late THEN d END),
                sum(CASE WHEN e >= before THEN e - before END), sum(CASE WHEN e >= before THEN d END), avg(p)
            FROM (
                SELECT node, gpu, {energy} AS e, {power} AS p, unix_s - lag(unix_s) OVER w AS d,
                    lag({energy}) OVER w AS before,
                    {_LATE_PERIODS} * CAST(? AS MAP(INTEGER, DOUBLE))[node] AS late
                FROM gpu WINDOW w AS (PARTITION BY node, gpu ORDER BY unix_s))
            GROUP BY node, gpu""",  # noqa: S608 - our own names and numbers
            [periods],
        ).fetchall()
    rows = [row for row in rows if row[:2] in expected]
    if len(rows) != len(expected):
        return None
    enough_s = max(COVERED * duration_s - 2 * max(periods.values()), LEAST * duration_s)
    counted = all((counted_s or 0.0) >= enough_s for *_, counted_s, _ in rows)
    if not counted and any((sampled_s or 0.0) < enough_s for _, _, sampled_s, *_ in rows):
        return None
    watts = [joules / counted_s if counted else mean for *_, joules, counted_s, mean in rows]
    if any(value is None for value in watts):
        return None
    total = math.fsum(watts)
    source = "energy counters" if counted else "power readings"
    return GpuEnergy(total * duration_s, total, len(rows), len({node for node, *_ in rows}), source)


def _measured_by_another(nodes: Sequence[NodeTelemetry]) -> set[tuple[int, int]]:
    """(node, index) of the dies and parts of AMD's GPUs whose power another of the same socket measures."""
    gpus = [(node.node, gpu) for node in nodes for gpu in node.header.gpus]
    return {(node, gpu["index"]) for node, gpu in gpus if gpu.get("measures_power") is False}
