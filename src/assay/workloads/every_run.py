"""What runs report whatever their programs print; `WALL_TIME` only if their workload says so."""

from __future__ import annotations

from assay.records import Metric

PEAK_RSS = Metric(
    "peak_rss",
    "B",
    "lower",
    "Resident memory of the largest of the run's processes, at its peak, as the kernel counts it",
    scales=False,
)

WALL_TIME = Metric(
    "wall_time", "s", "lower", "Time from the start of the run's ranks to the end of the last of them"
)
