"""For the group `assay.charts`: what a report draws, as Vega-Lite."""

from __future__ import annotations

from assay.view.blocks import Chart
from assay.view.charts.chart import ChartKind, plain
from assay.view.contents import Contents

__all__ = ["Chart", "ChartKind", "Contents", "plain"]
