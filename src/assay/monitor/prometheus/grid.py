"""Scraped series as rows with common times: interpolated, summed, and without inventing what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from assay.monitor.prometheus.client import PrometheusSeries
from assay.telemetry.samples import COUNTER

LATE: Final = 2.5  # intervals between two samples, from which on a sample is missing in between
SHORTEST_STEP_S: Final = 1.0


def interval_s(series: Iterable[PrometheusSeries]) -> float:
    """The longest of the series' median intervals; 0 if none has two samples."""
    return max((float(np.median(np.diff(one.at))) for one in series if len(one.at) > 1), default=0.0)


def times(begin_at: float, end_at: float, step_s: float) -> NDArray[np.float64]:
    """Times one step apart, from a run's begin on, and its end."""
    return np.unique(np.append(np.arange(begin_at, end_at, step_s), end_at))


def on_grid(
    one: PrometheusSeries, column: str, grid: NDArray[np.float64], step_s: float
) -> NDArray[np.float64]:
    """A series' values at these times; NaN where it has no samples nearby.

    Counters are interpolated between two samples that no reset separates; other values are the last sample.
    """
    after = np.searchsorted(one.at, grid + 1e-6)
    before = np.clip(after - 1, 0, None)
    behind_s, last = grid - one.at[before], len(one.at) - 1
    value = np.where((after > 0) & (behind_s <= LATE * step_s), one.value[before], np.nan)
    if not column.endswith(COUNTER):
        return np.where(one.at[before] >= grid[0], value, np.nan)  # what was before a run is not of the run
    following = np.clip(after, 0, last)
    gap_s = one.at[following] - one.at[before]
    counts = (
        (after > 0) & (after <= last) & (gap_s <= LATE * step_s) & (one.value[following] >= one.value[before])
    )
    share = np.divide(behind_s, gap_s, out=np.zeros_like(grid), where=gap_s > 0)
    between = one.value[before] + share * (one.value[following] - one.value[before])
    exact = behind_s <= 1e-3
    return np.where(counts, between, np.where(exact, value, np.nan))


def summed(
    series: Sequence[PrometheusSeries], column: str, grid: NDArray[np.float64], step_s: float
) -> tuple[NDArray[np.float64], list[Mapping[str, str]]]:
    """The sum over CPUs, disks, ports or containers, and the labels of those that were left out.

    A counter that is not there from the first to the last sample of the others would add its whole count at
    once when it appears; it is left out.
    """
    begin, end = min(one.at[0] for one in series), max(one.at[-1] for one in series)
    late_s = LATE * step_s
    kept = [one for one in series if one.at[0] <= begin + late_s and one.at[-1] >= end - late_s]
    parts = [on_grid(one, column, grid, step_s) for one in kept]
    with np.errstate(over="ignore"):  # a server's numbers may be any: what is not finite is absent
        total = np.sum(parts, axis=0) if parts else np.full_like(grid, np.nan)
    return total, [one.labels for one in series if not any(one is other for other in kept)]
