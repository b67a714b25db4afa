"""Runs as points with their mean and interval; over a stepped label, as a curve."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from assay.report import figures
from assay.report.charts.chart import (
    CUT,
    INK,
    Chart,
    axis_title,
    legible,
    listed,
    plain,
    side_axis,
    side_color,
    side_shape,
    tooltip,
)
from assay.report.contents.summary import Summary
from assay.report.tables import gathered
from assay.units import counted, significant

CURVE_FROM = 4  # values of a label from which on it is a curve, not panels


def runs(group: Sequence[Summary], sides: Sequence[str]) -> Chart:
    """Each run as a point with its side's geometric mean and 95 % interval, at one point of the sweep."""
    import altair as alt

    point = group[0].point
    scale = figures.scale_of([v for s in group for v in s.values], point.unit)
    per_unit, unit = scale.per_unit, scale.unit
    dots = [
        {"side": s.side, "value": v * per_unit, "run": run}
        for s in group
        for v, run in zip(s.values, s.runs, strict=True)
    ]
    means = [
        {
            "side": s.side,
            "value": s.estimate.value * per_unit,
            "low": None if s.estimate.low is None else s.estimate.low * per_unit,
            "high": None if s.estimate.high is None else s.estimate.high * per_unit,
        }
        for s in group
    ]
    ends = [end for s in group for end in (s.estimate.low, s.estimate.high)]
    domain, cut = legible(
        [v * per_unit for s in group for v in s.values],
        [None if end is None else end * per_unit for end in ends],
    )
    across = alt.Scale(domain=domain, zero=False, nice=not cut)
    present = [side for side in sides if any(s.side == side for s in group)]
    y = alt.Y("side:N", sort=present, title=None, axis=side_axis(present))
    x = alt.X(
        "value:Q",
        scale=across,
        title=axis_title(point.metric, unit),
        axis=alt.Axis(tickCount=4),
    )
    mean = alt.Chart(alt.NamedData("means")).encode(y=y)
    spec = plain(
        mean.mark_rule(strokeWidth=9, opacity=0.28, clip=True).encode(
            x=alt.X("low:Q", scale=across), x2="high:Q", color=side_color(sides)
        )
        + mean.mark_tick(thickness=2, size=24, color=INK, opacity=1).encode(x=x)
        + alt.Chart(alt.NamedData("dots"))
        .mark_point(filled=True, size=52, opacity=0.85)
        .encode(
            y=y,
            x=x,
            color=side_color(sides),
            shape=side_shape(sides),
            tooltip=tooltip("run", "value"),
        ),
        height=34 * len(present),
        dots=dots,
        means=means,
    )
    summary = listed(
        f"{s.side}: {_mean(s)} {_estimate_text(s)} from {counted(s.estimate.n, 'run')}, "
        f"{significant(min(s.values) * per_unit, 4)} to {significant(max(s.values) * per_unit, 4)} {unit}"
        for s in group
    )
    caption = f"{point.benchmark} {figures.metric(point.metric)}, {figures.where(point)}{CUT * cut}"
    return Chart("runs", caption, summary, spec)


def _estimate_text(summary: Summary) -> str:
    """`26.43 images/s (26.20 to 26.66)`."""
    value, interval, _ = figures.measured(summary.estimate)
    return f"{value} ({interval})"


BINARY_LABELS = (
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB' : "
    "datum.value >= 1048576 ? datum.value / 1048576 + ' MiB' : "
    "datum.value >= 1024 ? datum.value / 1024 + ' KiB' : datum.value + ' B'"
)


def curve(group: Sequence[Summary], sides: Sequence[str]) -> Chart:
    """A metric over a stepped label (payload, size) on log axes, with each point's interval."""
    import altair as alt

    point, label = group[0].point, _stepped(group)
    unit, per_unit = _largest_unit([v for s in group for v in s.values], point.unit)
    rows = [
        {
            "side": s.side,
            "x": s.point.labels[label],
            "value": s.estimate.value * per_unit,
            "low": None if s.estimate.low is None else s.estimate.low * per_unit,
            "high": None if s.estimate.high is None else s.estimate.high * per_unit,
        }
        for s in group
    ]
    is_bytes = label.endswith("_bytes")
    axis = alt.Axis(labelExpr=BINARY_LABELS, tickCount=6) if is_bytes else alt.Axis(tickCount=6)
    label_text = label.removesuffix("_bytes").replace("_", " ")
    x = alt.X("x:Q", scale=alt.Scale(type="log", base=2, nice=False), title=label_text, axis=axis)
    y = alt.Y("value:Q", scale=alt.Scale(type="log"), title=axis_title(point.metric, unit))
    base = alt.Chart(alt.NamedData("rows")).encode(x=x, color=side_color(sides, legend=True))
    spec = plain(
        base.mark_line(strokeWidth=1.5).encode(y=y)
        + base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q"), y2="high:Q")
        + base.mark_point(filled=True, size=45, opacity=1).encode(
            y=y, shape=side_shape(sides, legend=True), tooltip=tooltip("side", "x", "value", "low", "high")
        ),
        rows=rows,
        height=260,
    )
    caption = (
        f"{point.benchmark} {figures.metric(point.metric)} by {label_text}, {figures.shape(point.shape)}"
    )
    summary = listed(f"{s.side} at {figures.labels(s.point.labels)}: {_estimate_text(s)}" for s in group)
    return Chart("curve", f"{caption}, with 95 % intervals", summary, spec, wide=True)


def split(summaries: Sequence[Summary]) -> tuple[list[list[Summary]], list[list[Summary]]]:
    """Groups that make a curve over a stepped label, and groups that are one point each."""
    curves, panels = [], []
    for group in gathered(summaries, lambda s: (s.point.benchmark, s.point.metric, s.point.shape)):
        if _stepped(group):
            curves.append(group)
        else:
            panels += gathered(group, lambda s: figures.labels(s.point.labels))
    return curves, panels


def _stepped(group: Sequence[Summary]) -> str:
    """The one label that varies within a group, if it is numeric with enough steps for a curve; else ""."""
    varying = [name for name in group[0].point.labels if len({s.point.labels.get(name) for s in group}) > 1]
    if len(varying) != 1:
        return ""
    values = {s.point.labels.get(varying[0]) for s in group}
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool) and v > 0]
    positive = all(v > 0 for s in group for v in s.values)
    return varying[0] if len(numbers) == len(values) >= CURVE_FROM and positive else ""


def _largest_unit(values: Iterable[float], unit: str) -> tuple[str, float]:
    scale = figures.scale_of([max(values)], unit)
    return scale.unit, scale.per_unit


def _mean(s: Summary) -> str:
    return f"{'geometric' if min(s.values) > 0 else 'arithmetic'} mean"
