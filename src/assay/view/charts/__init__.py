"""The charts of a report as Vega-Lite, each with its caption and a text alternative."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from assay.analyse.comparison.families import curve_verdicts
from assay.errors import PluginError
from assay.inputs import from_home
from assay.records import Comparison
from assay.registry import EntryPoint, NamedEntries, registry, report
from assay.view.blocks import Chart
from assay.view.charts.chart import ChartKind
from assay.view.charts.classes import confusion
from assay.view.charts.comparison import forest, waterfall
from assay.view.charts.exchange import exchanges, ratios
from assay.view.charts.latency import by_percentile, rate_against_latency
from assay.view.charts.run_time import run_panels
from assay.view.charts.runs import curve, over_time, runs, split
from assay.view.charts.scaling import scaling
from assay.view.charts.timeline import timelines
from assay.view.contents import Contents, Summary
from assay.view.figures import gathered

if from_home("~") == Path("~"):  # altair's import fails for a user ID that has no home directory
    os.environ["HOME"] = os.sep  # as container engines set it then
    import altair  # noqa: F401

    del os.environ["HOME"]

MOST_PANELS = 24  # of runs as points; the tables have every point
MOST_ROWS = 40  # of the forest plot


def _compared(contents: Contents) -> list[Comparison]:
    """The comparisons that have a ratio."""
    return [c for q in contents.questions for c in q.comparisons if not math.isnan(c.ratio.value)]


def _forest(contents: Contents) -> Iterator[Chart]:
    rows = [comparison for comparison in _compared(contents) if comparison.along is None]
    if rows:
        yield forest(rows[:MOST_ROWS], left_out=len(rows) - MOST_ROWS)


def _primary(contents: Contents) -> list[Summary]:
    return [s for s in contents.summaries if contents.primary[s.point.benchmark] == s.point.metric]


def _of_runs(contents: Contents) -> tuple[list[list[Summary]], list[list[Summary]]]:
    """Results by size, and panels of those without sizes; exchanges have their own chart."""
    drawn = {(curve.benchmark, curve.shape) for curve in contents.exchanges}
    return split([s for s in _primary(contents) if (s.point.benchmark, s.point.shape) not in drawn])


def _scaling(contents: Contents) -> Iterator[Chart]:
    curves = [c for c in contents.curves if contents.primary.get(c.benchmark) == c.metric]
    for group in gathered(curves, lambda c: (c.benchmark, c.metric)):
        yield scaling(group, tuple(contents.sides))


_OWN = {
    "forest": ChartKind("Ratios and the margin", _forest),
    "ratios": ChartKind(
        "Ratios by message size, and the margin", lambda c: map(ratios, curve_verdicts(_compared(c)))
    ),
    "exchange": ChartKind("Exchanges by message size", lambda c: exchanges(c.exchanges)),
    "curve": ChartKind(
        "Results by size", lambda c: (curve(group, tuple(c.sides)) for group in _of_runs(c)[0])
    ),
    "runs": ChartKind(
        "Each run, with its side's mean and 95 % interval",
        lambda c: (runs(group, tuple(c.sides)) for group in _of_runs(c)[1][:MOST_PANELS]),
    ),
    "scaling": ChartKind("Scaling: speed-up relative to the smallest size; dashed is ideal", _scaling),
    "served": ChartKind(
        "Throughput and latency; dashed is the bound", lambda c: rate_against_latency(c.sides)
    ),
    "latency": ChartKind("Latency by percentile", lambda c: by_percentile(c.summaries, tuple(c.sides))),
    "waterfall": ChartKind(
        "Time to train, from one side to the other", lambda c: (waterfall(d) for d in c.splits if d.causes)
    ),
    "timeline": ChartKind("Timeline of the session", lambda c: timelines(c.sides, _primary(c))),
    "run time": ChartKind(
        "One run of each system over its time",
        lambda c: (panel for time in c.run_times for panel in run_panels(time)),
    ),
    "series": ChartKind("During the runs", lambda c: over_time(c.sides)),
    "confusion": ChartKind(
        "Confusion: predicted class by true class; a stronger color means a larger share",
        lambda c: confusion(c.sides),
    ),
}


def _guarded(kind: ChartKind, plugin: EntryPoint) -> ChartKind:
    """The kind of a plug-in: where drawing fails, the report has no such chart, and the user is told."""

    def draw(contents: Contents) -> tuple[Chart, ...]:
        return tuple(replace(chart, kind=plugin.name) for chart in kind.draw(contents))

    def failed(failure: PluginError) -> tuple[Chart, ...]:
        report(str(failure))
        return ()

    return replace(kind, draw=plugin.guarded(draw, failed))


CHARTS: NamedEntries[ChartKind] = registry("assay.charts", _OWN, ChartKind, adapt=_guarded)
"""The kinds of charts, in reading order."""


def charts(contents: Contents) -> tuple[Chart, ...]:
    """Every chart that these contents have data for, in reading order; none for ranked sides."""
    if contents.rankings:
        return ()
    return tuple(chart for kind in CHARTS.values() for chart in kind.draw(contents))
