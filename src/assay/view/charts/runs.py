"""Runs as points with their mean and interval; over a stepped label, as a curve; over time, as lines.

Throughput, loss and accuracy during the runs have one line per run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from assay.records import Result, Series
from assay.units import counted, significant
from assay.view import figures
from assay.view.blocks import Chart
from assay.view.charts.chart import (
    CUT,
    INK,
    axis_title,
    legible,
    listed,
    plain,
    side_axis,
    side_color,
    side_dash,
    side_shape,
    tooltip,
)
from assay.view.contents import Summary
from assay.view.figures import gathered

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
    x = alt.X("value:Q", scale=across, title=axis_title(point.metric, unit), axis=alt.Axis(tickCount=4))
    mean = alt.Chart(alt.NamedData("means")).encode(y=y)
    spec = plain(
        mean.mark_rule(strokeWidth=9, opacity=0.28, clip=True).encode(
            x=alt.X("low:Q", scale=across), x2="high:Q", color=side_color(sides)
        )
        + mean.mark_tick(thickness=2, size=24, color=INK, opacity=1).encode(x=x)
        + alt.Chart(alt.NamedData("dots"))
        .mark_point(filled=True, size=52, opacity=0.85)
        .encode(y=y, x=x, color=side_color(sides), shape=side_shape(sides), tooltip=tooltip("run", "value")),
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


MOST_LINE_POINTS = 12_000  # in all line charts together; beyond, whole runs are left out evenly
MOST_POINTS_A_LINE = 200
_MARKED_UNDER = 12  # points per line, each of which gets a mark
_TICKED = 6  # places along all lines, each of which gets a tick


def over_time(sides: Mapping[str, Sequence[Result]]) -> list[Chart]:
    """Every series that runs printed, one line per run, one chart per benchmark, shape and series."""
    drawable = [
        (side, result, series)
        for side, results in sides.items()
        for result in results
        for series in result.reading.series
        if len(series.x) > 1
    ]
    groups = gathered(
        drawable, lambda f: (f[1].run.trial.benchmark, str(f[1].run.trial.shape), f[2].name, f[2].x_name)
    )
    share = MOST_LINE_POINTS // max(1, len(groups))
    return [_line_chart(group, tuple(sides), share) for group in groups]


def _line_chart(group: Sequence[tuple[str, Result, Series]], sides: Sequence[str], most_points: int) -> Chart:
    import altair as alt

    drawn = _evenly(group, most_points)
    _, first, series = group[0]
    scale = figures.scale_of([y for _, _, s in drawn for y in s.y], series.unit)
    per_unit, unit = scale.per_unit, scale.unit
    sessions = {(result.run.suite, result.run.session) for _, result, _ in drawn}  # each has a trial `…-r01`
    thinned = [(side, _series_name(result, len(sessions)), _thinned(s)) for side, result, s in drawn]
    rows = [  # a row per line: repeated in each point's row, names are most of a page
        {"side": side, "run": run, "x": [x for x, _ in points], "value": [y * per_unit for _, y in points]}
        for side, run, points in thinned
    ]
    places = {x for _, _, points in thinned for x, _ in points}
    base = alt.Chart(alt.NamedData("rows")).transform_flatten(["x", "value"])
    base = base.encode(
        x=alt.X("x:Q", title=series.x_name, scale=alt.Scale(zero=False), axis=_time_axis(places)),
        y=alt.Y("value:Q", title=axis_title(series.name, unit), scale=alt.Scale(zero=False)),
        color=side_color(sides, legend=True),
        detail="run:N",
        tooltip=tooltip("run", "x", "value"),
    )
    line = base.mark_line(strokeWidth=1.3, opacity=0.8)
    if len(series.x) < _MARKED_UNDER:
        dots = base.mark_point(filled=True, size=36, opacity=0.9)
        chart = line + dots.encode(shape=side_shape(sides, legend=True))
    else:
        chart = line.encode(strokeDash=side_dash(sides, legend=True))
    spec = plain(chart, rows=rows, height=200)
    trial = first.run.trial
    some = "" if len(drawn) == len(group) else f", {len(drawn)} of {counted(len(group), 'run')} drawn"
    task = f"{trial.benchmark} {figures.metric(series.name)} by {series.x_name}"
    caption = f"{task}, {figures.shape(str(trial.shape))}{some}"
    summary = listed(_line_words(side, [s for owner, _, s in group if owner == side]) for side in sides)
    return Chart("series", caption, summary, spec)


def _series_name(result: Result, sessions: int) -> str:
    """What no other run of these sessions has: one line is drawn per name."""
    return result.run.trial.id if sessions == 1 else result.run.id


def _time_axis(x: Collection[float]) -> Any:
    """Every place if there are few, such as the epochs of evaluations; otherwise round ones."""
    import altair as alt

    places = sorted(x)
    return alt.Axis(values=places, format="~g") if len(places) <= _TICKED else alt.Axis(tickMinStep=1)


def _line_words(side: str, lines: Sequence[Series]) -> str:
    if not lines:
        return ""
    first, last = [s.y[0] for s in lines], [s.y[-1] for s in lines]
    unit = f" {lines[0].unit}" if lines[0].unit else ""
    starts, ends = (
        f"{significant(min(values), 4)} to {significant(max(values), 4)}{unit}" for values in (first, last)
    )
    return f"{side}: {counted(len(lines), 'run')} from {starts} at the start to {ends} at the end"


def _thinned(series: Series) -> list[tuple[float, float]]:
    """Every k-th point and the last, about `MOST_POINTS_A_LINE` at most."""
    points = list(zip(series.x, series.y, strict=True))
    step = max(1, len(points) // MOST_POINTS_A_LINE)
    return points[::step] if (len(points) - 1) % step == 0 else [*points[::step], points[-1]]


def _evenly(group: Sequence[Any], most_points: int) -> Sequence[Any]:
    """As many whole runs as fit, spread over the group."""
    longest = max(min(len(s.x), MOST_POINTS_A_LINE) for _, _, s in group)
    room = max(1, most_points // longest)
    return group if len(group) <= room else [group[k * len(group) // room] for k in range(room)]
