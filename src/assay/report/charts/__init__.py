"""The charts of a report as Vega-Lite, each with its caption and a text alternative."""

from __future__ import annotations

import math
import os
from pathlib import Path

from assay.analyse.comparison.curve_verdicts import curve_verdicts
from assay.inputs import from_home
from assay.report.charts.chart import Chart
from assay.report.charts.confusion import confusion
from assay.report.charts.exchange import exchanges, ratios
from assay.report.charts.forest import forest
from assay.report.charts.latency import by_percentile
from assay.report.charts.run_time import run_panels
from assay.report.charts.runs import curve, runs, split
from assay.report.charts.scaling import scaling
from assay.report.charts.series import over_time
from assay.report.charts.throughput_latency import rate_against_latency
from assay.report.charts.timeline import timelines
from assay.report.charts.waterfall import waterfall
from assay.report.contents.contents import Contents
from assay.report.tables import gathered

__all__ = ["TITLES", "Chart", "charts"]

if from_home("~") == Path("~"):  # altair's import fails for a user ID that has no home directory
    os.environ["HOME"] = os.sep  # as container engines set it then
    import altair  # noqa: F401

    del os.environ["HOME"]

MOST_PANELS = 24  # of runs as points; the tables have every point
MOST_ROWS = 40  # of the forest plot

TITLES = {
    "forest": "Ratios and the margin",
    "ratios": "Ratios by message size, and the margin",
    "exchange": "Exchanges by message size",
    "curve": "Results by size",
    "runs": "Each run, with its side's mean and 95 % interval",
    "scaling": "Scaling: speed-up relative to the smallest size; dashed is ideal",
    "served": "Throughput and latency; dashed is the bound",
    "latency": "Latency by percentile",
    "waterfall": "Time to train, from one side to the other",
    "timeline": "Timeline of the session",
    "run time": "One run of each system over its time",
    "series": "During the runs",
    "confusion": "Confusion: predicted class by true class; a stronger color means a larger share",
}
"""The heading above the charts of each kind."""


def charts(contents: Contents) -> tuple[Chart, ...]:
    """Every chart that these contents have data for, in reading order; none for ranked sides."""
    if contents.rankings:
        return ()
    all_charts: list[Chart] = []
    compared = [c for q in contents.questions for c in q.comparisons if not math.isnan(c.ratio.value)]
    single_points = [c for c in compared if c.along is None]
    if single_points:
        all_charts.append(forest(single_points[:MOST_ROWS], left_out=len(single_points) - MOST_ROWS))
    all_charts += [ratios(curve_verdict) for curve_verdict in curve_verdicts(compared)]
    sides = tuple(contents.sides)
    primary = [s for s in contents.summaries if contents.primary[s.point.benchmark] == s.point.metric]
    all_charts += exchanges(contents.exchanges)
    drawn = {(exchange.benchmark, exchange.shape) for exchange in contents.exchanges}
    curves, panels = split([s for s in primary if (s.point.benchmark, s.point.shape) not in drawn])
    all_charts += [curve(group, sides) for group in curves]
    all_charts += [runs(group, sides) for group in panels[:MOST_PANELS]]
    scaled = [c for c in contents.curves if contents.primary.get(c.benchmark) == c.metric]
    all_charts += [scaling(group, sides) for group in gathered(scaled, lambda c: (c.benchmark, c.metric))]
    all_charts += rate_against_latency(contents.sides)
    all_charts += by_percentile(contents.summaries, sides)
    all_charts += [waterfall(d) for d in contents.splits if d.causes]
    all_charts += timelines(contents.sides, primary)
    all_charts += [panel for time in contents.run_times for panel in run_panels(time)]
    all_charts += over_time(contents.sides)
    all_charts += confusion(contents.sides)
    return tuple(all_charts)
