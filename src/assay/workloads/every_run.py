"""What runs of every workload report, whatever their programs print."""

from __future__ import annotations

from assay.records import Metric

PEAK_RSS = Metric(
    "peak_rss",
    "B",
    "lower",
    "Resident memory of the largest of the run's processes, at its peak, as the kernel counts it",
    scales=False,
)
