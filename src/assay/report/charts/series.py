"""Throughput, loss and accuracy during the runs: one line per run."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from assay.records import Result, Series
from assay.report import figures
from assay.report.charts.chart import (
    Chart,
    axis_title,
    listed,
    plain,
    side_color,
    side_dash,
    side_shape,
    tooltip,
)
from assay.report.tables import gathered
from assay.units import counted, significant

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
    thinned = [(side, _name(result, len(sessions)), _thinned(s)) for side, result, s in drawn]
    rows = [  # a row per line: repeated in each point's row, names are most of a page
        {
            "side": side,
            "run": run,
            "x": [x for x, _ in points],
            "value": [y * per_unit for _, y in points],
        }
        for side, run, points in thinned
    ]
    places = {x for _, _, points in thinned for x, _ in points}
    base = alt.Chart(alt.NamedData("rows")).transform_flatten(["x", "value"])
    base = base.encode(
        x=alt.X("x:Q", title=series.x_name, scale=alt.Scale(zero=False), axis=_axis(places)),
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


def _name(result: Result, sessions: int) -> str:
    """What no other run of these sessions has: one line is drawn per name."""
    return result.run.trial.id if sessions == 1 else result.run.id


def _axis(x: Collection[float]) -> Any:
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
