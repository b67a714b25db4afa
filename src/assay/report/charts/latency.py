"""Latency by percentile: one line per side, from the median into the tail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from assay.report import figures
from assay.report.charts.chart import (
    CUT,
    Chart,
    axis_title,
    legible,
    listed,
    plain,
    side_color,
    side_dash,
    side_shape,
    tooltip,
)
from assay.report.contents.summary import Summary
from assay.report.tables import gathered

MOST_CURVES = 12
PERCENTILE = "percentile"
_LEAST_PERCENTILES = 3


def by_percentile(summaries: Sequence[Summary], sides: Sequence[str]) -> list[Chart]:
    """A line per side from the median to the last percentile, for each metric with percentiles."""
    with_percentiles = [s for s in summaries if PERCENTILE in s.point.labels]
    groups = gathered(
        with_percentiles,
        lambda s: (s.point.benchmark, s.point.metric, s.point.shape, figures.labels(_others(s))),
    )
    drawn = [g for g in groups if len({s.point.labels[PERCENTILE] for s in g}) >= _LEAST_PERCENTILES]
    return [_percentiles(group, sides) for group in drawn[:MOST_CURVES]]


def _others(summary: Summary) -> dict[str, Any]:
    return {name: value for name, value in summary.point.labels.items() if name != PERCENTILE}


def _percentiles(group: Sequence[Summary], sides: Sequence[str]) -> Chart:
    """Percentiles spaced by halvings of the share above them, because tails differ there."""
    import altair as alt

    point = group[0].point
    scale = figures.scale_of([v for s in group for v in s.values], point.unit)
    per_unit, unit = scale.per_unit, scale.unit
    rows = [
        {
            "side": s.side,
            "percentile": f"{s.point.labels[PERCENTILE]:g}",
            "x": _above(s),
            "value": s.estimate.value * per_unit,
            "low": None if s.estimate.low is None else s.estimate.low * per_unit,
            "high": None if s.estimate.high is None else s.estimate.high * per_unit,
        }
        for s in group
    ]
    names = {f"{_above(s):.4f}": f"{s.point.labels[PERCENTILE]:g}" for s in group}
    ends = [end for s in group for end in (s.estimate.low, s.estimate.high)]
    domain, cut = legible(
        [s.estimate.value * per_unit for s in group],
        [None if end is None else end * per_unit for end in ends],
    )
    axis = alt.Axis(
        values=sorted({_above(s) for s in group}),
        labelExpr=f"{names}[format(datum.value, '.4f')]",
        labelOverlap=False,
    )
    x = alt.X("x:Q", title=PERCENTILE, axis=axis, scale=alt.Scale(zero=False, padding=12))
    upward = alt.Scale(domain=domain, zero=False, nice=not cut)
    y = alt.Y("value:Q", title=axis_title(point.metric, unit), scale=upward)
    base = alt.Chart(alt.NamedData("rows")).encode(x=x, color=side_color(sides, legend=True))
    line = base.mark_line(strokeWidth=1.5).encode(y=y, strokeDash=side_dash(sides, legend=True))
    if any(end is not None for end in ends):
        line += base.mark_rule(strokeWidth=2, clip=True).encode(y=alt.Y("low:Q", scale=upward), y2="high:Q")
    dots = base.mark_point(filled=True, size=45, opacity=1).encode(
        y=y,
        shape=side_shape(sides, legend=True),
        tooltip=tooltip("side", "percentile", "value", "low", "high"),
    )
    spec = plain(line + dots, rows=rows, height=220)
    place = ", ".join(filter(None, (figures.shape(point.shape), figures.labels(_others(group[0])))))
    summary = listed(
        f"{s.side} at {s.point.labels[PERCENTILE]:g} %: {figures.measured(s.estimate)[0]}" for s in group
    )
    caption = f"{point.benchmark} {figures.metric(point.metric)} by percentile, {place}{CUT * cut}"
    return Chart("latency", caption, summary, spec)


def _above(summary: Summary) -> float:
    """A percentile as the number of halvings of the share above it: 1 for the median."""
    percentile = summary.point.labels[PERCENTILE]
    assert isinstance(percentile, int | float)
    return -math.log2(1 - min(percentile, 99.999) / 100)
