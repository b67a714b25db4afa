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
    return max(
        (float(np.median(np.diff(source.unix_s))) for source in series if len(source.unix_s) > 1), default=0.0
    )


def times(begin_at: float, end_at: float, step_s: float) -> NDArray[np.float64]:
    """Times one step apart, from a run's begin on, and its end."""
    return np.unique(np.append(np.arange(begin_at, end_at, step_s), end_at))


def on_grid(
    series: PrometheusSeries, column: str, grid: NDArray[np.float64], step_s: float
) -> NDArray[np.float64]:
    """A series' values at these times; NaN where it has no samples nearby.

    Counters are interpolated between two samples that no reset separates; other values are the last sample.
    """
    after = np.searchsorted(series.unix_s, grid + 1e-6)
    before = np.clip(after - 1, 0, None)
    behind_s, last = grid - series.unix_s[before], len(series.unix_s) - 1
    value = np.where((after > 0) & (behind_s <= LATE * step_s), series.value[before], np.nan)
    if not column.endswith(COUNTER):
        return np.where(
            series.unix_s[before] >= grid[0], value, np.nan
        )  # what was before a run is not of the run
    following = np.clip(after, 0, last)
    gap_s = series.unix_s[following] - series.unix_s[before]
    counts = (
        (after > 0)
        & (after <= last)
        & (gap_s <= LATE * step_s)
        & (series.value[following] >= series.value[before])
    )
    share = np.divide(behind_s, gap_s, out=np.zeros_like(grid), where=gap_s > 0)
    between = series.value[before] + share * (series.value[following] - series.value[before])
    exact = behind_s <= 1e-3
    return np.where(counts, between, np.where(exact, value, np.nan))


def summed(
    series: Sequence[PrometheusSeries], column: str, grid: NDArray[np.float64], step_s: float
) -> tuple[NDArray[np.float64], list[Mapping[str, str]]]:
    """The sum over CPUs, disks, ports or containers, and the labels of those that were left out.

    A counter that is not there from the first to the last sample of the others would add its whole count at
    once when it appears; it is left out.
    """
    begin, end = min(source.unix_s[0] for source in series), max(source.unix_s[-1] for source in series)
    late_s = LATE * step_s
    kept = [
        source
        for source in series
        if source.unix_s[0] <= begin + late_s and source.unix_s[-1] >= end - late_s
    ]
    parts = [on_grid(source, column, grid, step_s) for source in kept]
    with np.errstate(over="ignore"):  # a server's numbers may be any: what is not finite is absent
        total = np.sum(parts, axis=0) if parts else np.full_like(grid, np.nan)
    return total, [source.labels for source in series if not any(source is other for other in kept)]
