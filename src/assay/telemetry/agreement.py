"""Whether the sampler and a Prometheus say the same about a run."""

# ruff: noqa: S608 - queries contain our own words and names

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from assay.telemetry import recorded
from assay.telemetry.samples import COUNTER

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

COMPARED: Final = (  # table, column, what it is, unit
    ("gpu", "power_watts", "power", "W"),
    ("gpu", "energy_joules_total", "power, from the energy counter", "W"),
    ("gpu", "utilization_percent", "use", "%"),
    ("gpu", "memory_used_bytes", "memory", "B"),
    ("node", "cpu_busy_seconds_total", "busy CPUs", "CPUs"),
    ("node", "job_cpu_seconds_total", "CPUs of the job", "CPUs"),
    ("node", "memory_available_bytes", "memory available", "B"),
)
SHORTEST_S: Final = 60.0  # in common: a few scrapes of the usual 15 or 30 s say little
TOLERANCE: Final = 0.05  # of the larger mean: two readings of one sensor, rounded and averaged differently
FLOOR: Final = {
    "W": 5.0,
    "%": 2.0,
    "CPUs": 0.1,
    "B": 64 * 2.0**20,
}  # an idle machine's readings differ by as much
ERRORS: Final = 4.0  # standard errors of the two means' difference
BLOCKS: Final = (
    8  # a mean's error is estimated from means of so many stretches, which hardly depend on each other
)


@dataclass(frozen=True)
class TelemetryDifference:
    """Two means of one figure over the time that both sources cover, that differ by more than the tolerance.

    place      `node 0`, `GPU 3 of node 0`
    tolerance  what would still have counted as equal, in the unit
    """

    what: str
    place: str
    unit: str
    sampler: float
    prometheus: float
    tolerance: float


@dataclass(frozen=True)
class TelemetryAgreement:
    """Every comparison that could be made, and those that failed; 0 compared: no time in common."""

    compared: int
    differences: tuple[TelemetryDifference, ...]


def agreement(directory: Path) -> TelemetryAgreement:
    """The two sources of an attempt compared. Raises InputError if one is damaged.

    Means agree within 5 % plus four standard errors of their difference, which come from how the means of
    eighths of the time vary. Counters are compared by their increase.
    """
    compared, differences = 0, []
    with recorded.tables(directory, "sampler") as ours, recorded.tables(directory, "prometheus") as theirs:
        for table, column, what, unit in COMPARED:
            a, b = _series(ours, table, column), _series(theirs, table, column)
            for place in sorted(a.keys() & b.keys()):
                means = _means(*a[place], *b[place], counter=column.endswith(COUNTER))
                if means is None:
                    continue
                compared += 1
                sampler, prometheus, error = means
                tolerance = max(TOLERANCE * max(abs(sampler), abs(prometheus)), FLOOR[unit]) + ERRORS * error
                if abs(sampler - prometheus) > tolerance:
                    node, gpu = place
                    where = f"node {node}" if gpu < 0 else f"GPU {gpu} of node {node}"
                    difference = TelemetryDifference(what, where, unit, sampler, prometheus, tolerance)
                    differences.append(difference)
    return TelemetryAgreement(compared, tuple(differences))


Column = tuple["NDArray[np.float64]", "NDArray[np.float64]"]


def _series(tables: DuckDBPyConnection, table: str, column: str) -> dict[tuple[int, int], Column]:
    """Times and values by node and GPU, -1 for the node itself."""
    if column not in recorded.columns(tables, table):
        return {}
    gpu = "gpu" if table == "gpu" else "-1"
    rows = tables.execute(
        f"SELECT node, {gpu}, list(unix_s ORDER BY unix_s), list({column} ORDER BY unix_s) FROM {table} "
        f"WHERE {column} IS NOT NULL GROUP BY ALL"
    ).fetchall()
    return {(node, gpu_index): (np.array(times), np.array(values)) for node, gpu_index, times, values in rows}


def _means(
    at_a: NDArray[np.float64],
    a: NDArray[np.float64],
    at_b: NDArray[np.float64],
    b: NDArray[np.float64],
    *,
    counter: bool,
) -> tuple[float, float, float] | None:
    """Both means over the common time, and the standard error of their difference; None if it is short."""
    begin, end = max(at_a[0], at_b[0]), min(at_a[-1], at_b[-1])
    if end - begin < SHORTEST_S:
        return None
    both = [_blocks(times, value, begin, end, counter=counter) for times, value in ((at_a, a), (at_b, b))]
    if not all(np.isfinite(blocks).all() for blocks in both):
        return None
    ours, theirs = both
    error = float(np.std(ours - theirs, ddof=1)) / math.sqrt(BLOCKS)
    return float(np.mean(ours)), float(np.mean(theirs)), error


def _blocks(
    times: NDArray[np.float64], value: NDArray[np.float64], begin: float, end: float, *, counter: bool
) -> NDArray[np.float64]:
    """Means over equal stretches of the time; NaN for one without samples."""
    edges = np.linspace(begin, end, BLOCKS + 1)
    if counter:
        if (np.diff(value) < 0).any():  # a reset: its increase is unknown
            return np.full(BLOCKS, np.nan)
        increases: NDArray[np.float64] = np.diff(np.interp(edges, times, value)) / np.diff(edges)
        return increases
    number = np.clip(np.searchsorted(edges, times, side="right") - 1, 0, BLOCKS - 1)
    inside = (times >= begin) & (times <= end)
    counts = np.bincount(number[inside], minlength=BLOCKS)
    sums = np.bincount(number[inside], weights=value[inside], minlength=BLOCKS)
    means: NDArray[np.float64] = np.divide(sums, counts, out=np.full(BLOCKS, np.nan), where=counts > 0)
    return means
