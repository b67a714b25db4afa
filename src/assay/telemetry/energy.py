"""Energy of a run's GPUs, from the samples of its nodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.telemetry import recorded
from assay.telemetry.lines import NodeTelemetry

COVERED: Final = 0.95  # share of a run's time that each GPU's counter must span, or its power samples cover
LEAST: Final = 0.8  # share that it must span however rare the samples are: the rest counts at its mean power
SHORTEST_S: Final = 2.0  # sensors observe a fraction of each 100 ms: shorter runs have no energy
_LATE: Final = 2.5  # periods between samples that still count as covered


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
                    lag({energy}) OVER w AS before, {_LATE} * CAST(? AS MAP(INTEGER, DOUBLE))[node] AS late
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
