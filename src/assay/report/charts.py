"""The charts of a report as Vega-Lite, each with its caption and the same in words.

Colours are the page's CSS variables, so that a chart follows the theme and the printer without being drawn
again. Colour never stands alone: systems also differ in their mark, verdicts in their word.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.records import Comparison, Result, Scaling, Series
from assay.report import figures
from assay.report.contents import Contents, Summary
from assay.report.sentences import SYMBOLS
from assay.report.tables import gathered

MOST_SYSTEMS = 6  # series colours that the style sheet knows; further systems begin again
MOST_PANELS = 24  # of runs as points; the tables have every point
MOST_ROWS = 40  # of the forest plot
MOST_LINE_POINTS = 6000  # in one chart of lines; above, whole runs are left out evenly
MOST_POINTS_A_LINE = 200
CURVE_FROM = 4  # numbers of a label that make a curve rather than panels

_SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
_DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [4, 4], [1, 3])
_ARROWS = ("triangle-left", "triangle-right")
_MARKED_UNDER = 12  # points a line, that each get their mark
_MOST_MARGINS = 6  # that the forest shows to each side of 1 for the sake of wide intervals
_INK, _FAINT = "var(--ink)", "var(--rule)"


@dataclass(frozen=True)
class Chart:
    """One figure of the page.

    spec   Vega-Lite as plain data, its rows inside
    words  what the chart shows, with its figures, for who can't see it
    wide   it takes the page's whole width
    """

    kind: str
    caption: str
    words: str
    spec: Mapping[str, Any]
    wide: bool = False


def charts(contents: Contents) -> tuple[Chart, ...]:
    """Every chart that these contents carry, in the order of reading."""
    made: list[Chart] = []
    asked = [c for q in contents.questions for c in q.comparisons if not math.isnan(c.ratio.value)]
    if asked:
        made.append(forest(asked[:MOST_ROWS], left_out=len(asked) - MOST_ROWS))
    sides = tuple(contents.sides)
    primary = [s for s in contents.summaries if contents.primary[s.point.benchmark] == s.point.metric]
    curves, panels = _split(primary)
    made += [curve(group, sides) for group in curves]
    made += [runs(group, sides) for group in panels[:MOST_PANELS]]
    scaled = [c for c in contents.curves if contents.primary.get(c.benchmark) == c.metric]
    made += [scaling(group, sides) for group in gathered(scaled, lambda c: (c.benchmark, c.metric))]
    made += over_time(contents.sides)
    return tuple(made)


# Comparison ----------------------------------------------------------------------------------------------


def forest(comparisons: Sequence[Comparison], left_out: int = 0) -> Chart:
    """Ratios with their intervals against the margin; times are inverted, so that right is always better."""
    import altair as alt

    rows = [_forest_row(c, several=len({(c.a, c.b) for c in comparisons}) > 1) for c in comparisons]
    margin = max(c.margin for c in comparisons)
    span = _forest_span(rows, math.log1p(margin))
    domain = [math.exp(-span), math.exp(span)]
    edges = [
        {"row": row["row"], "verdict": row["verdict"], "edge": end, "way": way}
        for row in rows
        for end, way, beyond in (
            (domain[0], "left", row["low"] is not None and row["low"] < domain[0]),
            (domain[1], "right", row["high"] is not None and row["high"] > domain[1]),
        )
        if beyond
    ]
    x = alt.Scale(type="log" if span > 1 else "linear", domain=domain, nice=False)
    order = [row["row"] for row in rows]
    y = alt.Y(
        "row:N", sort=order, title=None, axis=alt.Axis(labelExpr="split(datum.label, '\\n')", labelLimit=220)
    )
    names = {(c.a, c.b) for c in comparisons}
    a, b = names.pop() if len(names) == 1 else ("A", "B")
    inverted = any(c.point.better == "lower" for c in comparisons)
    title = f"{b} over {a}"
    base = alt.Chart(alt.NamedData("rows")).encode(y=y)
    verdicts = list(SYMBOLS)
    colour = alt.Color(
        "verdict:N",
        legend=None,
        scale=alt.Scale(domain=verdicts, range=[f"var(--{v})" for v in verdicts]),
    )
    shape = alt.Shape(
        "verdict:N",
        legend=None,
        scale=alt.Scale(domain=verdicts, range=["square", "triangle-up", "triangle-down", "circle"]),
    )
    band = (
        alt.Chart(alt.NamedData("margin"))
        .mark_rect(color="var(--band)")
        .encode(x=alt.X("low:Q", scale=x, title=title), x2="high:Q")
    )
    one = alt.Chart(alt.NamedData("margin")).mark_rule(color=_INK, strokeDash=[3, 3]).encode(x="one:Q")
    interval = base.mark_rule(strokeWidth=2, clip=True).encode(x="low:Q", x2="high:Q", color=colour)
    beyond = (
        alt.Chart(alt.NamedData("edges"))
        .mark_point(filled=True, size=70, opacity=1)
        .encode(
            y=y,
            x="edge:Q",
            color=colour,
            shape=alt.Shape(
                "way:N", legend=None, scale=alt.Scale(domain=["left", "right"], range=list(_ARROWS))
            ),
        )
    )
    point = base.mark_point(filled=True, size=90, opacity=1).encode(
        x="ratio:Q", color=colour, shape=shape, tooltip=_tooltip("row", "verdict", "text")
    )
    spec = _plain(
        (band + one + interval + beyond + point).resolve_scale(shape="independent"),
        height=38 * len(rows),
        rows=rows,
        edges=edges,
        margin=[{"low": 1 / (1 + margin), "high": 1 + margin, "one": 1}],
    )
    more = f" The first {len(rows)} of {len(rows) + left_out} points." if left_out > 0 else ""
    return Chart(
        "forest",
        f"Ratios with 95 % intervals{', times inverted' * inverted}: right of 1 is better. "
        f"The band is the margin of ±{figures.percent(margin)}"
        f"{'; an arrow is an interval that goes on' * bool(edges)}.{more}",
        _listed(f"{_forest_name(c)}: {c.verdict}, ratio {figures.ratio(c.ratio)}" for c in comparisons),
        spec,
        wide=True,
    )


def _forest_span(rows: Sequence[Mapping[str, Any]], margin: float) -> float:
    """Half the axis on the log scale: every ratio, and no more of the intervals than stays legible."""
    ratios = max(abs(math.log(row["ratio"])) for row in rows)
    ends = max(abs(math.log(row[k] or row["ratio"])) for row in rows for k in ("low", "high"))
    return max(1.06 * min(ends, _MOST_MARGINS * margin), 1.2 * ratios, 1.6 * margin)


def _forest_row(c: Comparison, *, several: bool) -> dict[str, Any]:
    value, low, high = c.ratio.value, c.ratio.low, c.ratio.high
    if c.point.better == "lower":
        value, low, high = 1 / value, high and 1 / high, low and 1 / low
    place = f"{figures.where(c.point)} ({c.b})" if several else figures.where(c.point)
    return {
        "row": f"{c.point.benchmark} {figures.metric(c.point.metric)}\n{place}",
        "ratio": value,
        "low": low,
        "high": high,
        "verdict": c.verdict,
        "text": figures.ratio(c.ratio),
    }


def _forest_name(c: Comparison) -> str:
    return (
        f"{c.b} against {c.a}, {c.point.benchmark} {figures.metric(c.point.metric)}, {figures.where(c.point)}"
    )


# Runs ----------------------------------------------------------------------------------------------------


def runs(group: Sequence[Summary], sides: Sequence[str]) -> Chart:
    """Each run as a point over its side's geometric mean and 95 % interval, at one point of the sweep."""
    import altair as alt

    point = group[0].point
    scale = figures.scale_of([v for s in group for v in s.values], point.unit)
    per_unit, unit = (scale.per_unit, scale.unit) if scale else (1.0, point.unit)
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
    present = [side for side in sides if any(s.side == side for s in group)]
    y = alt.Y("side:N", sort=present, title=None)
    x = alt.X(
        "value:Q",
        scale=alt.Scale(zero=False),
        title=_axis(point.metric, unit),
        axis=alt.Axis(tickCount=4),
    )
    mean = alt.Chart(alt.NamedData("means")).encode(y=y)
    spec = _plain(
        mean.mark_rule(strokeWidth=9, opacity=0.28).encode(
            x=alt.X("low:Q", scale=alt.Scale(zero=False)), x2="high:Q", color=_side_colour(sides)
        )
        + mean.mark_tick(thickness=2, size=24, color=_INK, opacity=1).encode(x=x)
        + alt.Chart(alt.NamedData("dots"))
        .mark_point(filled=True, size=52, opacity=0.85)
        .encode(
            y=y,
            x=x,
            color=_side_colour(sides),
            shape=_side_shape(sides),
            tooltip=_tooltip("run", "value"),
        ),
        height=34 * len(present),
        dots=dots,
        means=means,
    )
    words = _listed(
        f"{s.side}: geometric mean {_estimate_text(s)} from {s.estimate.n} runs, "
        f"{min(s.values) * per_unit:.4g} to {max(s.values) * per_unit:.4g} {unit}"
        for s in group
    )
    caption = f"{point.benchmark} {figures.metric(point.metric)}, {figures.where(point)}"
    return Chart("runs", caption, words, spec)


def _estimate_text(summary: Summary) -> str:
    """`26.43 images/s (26.20 to 26.66)`."""
    value, interval, _ = figures.measured(summary.estimate)
    return f"{value} ({interval})"


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
    axis = alt.Axis(labelExpr=_BINARY_LABELS, tickCount=6) if is_bytes else alt.Axis(tickCount=6)
    words = label.removesuffix("_bytes").replace("_", " ")
    x = alt.X("x:Q", scale=alt.Scale(type="log", base=2, nice=False), title=words, axis=axis)
    y = alt.Y("value:Q", scale=alt.Scale(type="log"), title=_axis(point.metric, unit))
    base = alt.Chart(alt.NamedData("rows")).encode(x=x, color=_side_colour(sides, legend=True))
    spec = _plain(
        base.mark_line(strokeWidth=1.5).encode(y=y)
        + base.mark_rule(strokeWidth=2).encode(y=alt.Y("low:Q"), y2="high:Q")
        + base.mark_point(filled=True, size=45, opacity=1).encode(
            y=y, shape=_side_shape(sides, legend=True), tooltip=_tooltip("side", "x", "value", "low", "high")
        ),
        rows=rows,
        height=260,
    )
    caption = f"{point.benchmark} {figures.metric(point.metric)} over {words}, {figures.shape(point.shape)}"
    told = _listed(f"{s.side} at {figures.labels(s.point.labels)}: {_estimate_text(s)}" for s in group)
    return Chart("curve", f"{caption}, with 95 % intervals", told, spec, wide=True)


_BINARY_LABELS = (
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB' : "
    "datum.value >= 1048576 ? datum.value / 1048576 + ' MiB' : "
    "datum.value >= 1024 ? datum.value / 1024 + ' KiB' : datum.value + ' B'"
)


def _split(summaries: Sequence[Summary]) -> tuple[list[list[Summary]], list[list[Summary]]]:
    """Groups that make a curve over a stepped label, and groups that are one point each."""
    curves, panels = [], []
    for group in gathered(summaries, lambda s: (s.point.benchmark, s.point.metric, s.point.shape)):
        if _stepped(group):
            curves.append(group)
        else:
            panels += gathered(group, lambda s: figures.labels(s.point.labels))
    return curves, panels


def _stepped(group: Sequence[Summary]) -> str:
    """The one label that varies over a group, where it is a number with enough steps for a curve; else ""."""
    varying = [name for name in group[0].point.labels if len({s.point.labels.get(name) for s in group}) > 1]
    if len(varying) != 1:
        return ""
    values = {s.point.labels.get(varying[0]) for s in group}
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool) and v > 0]
    positive = all(v > 0 for s in group for v in s.values)
    return varying[0] if len(numbers) == len(values) >= CURVE_FROM and positive else ""


# Scaling -------------------------------------------------------------------------------------------------


def scaling(curves: Sequence[Scaling], sides: Sequence[str]) -> Chart:
    """Speed-up over ranks with its interval, against the ideal line."""
    import altair as alt

    rows = [
        {
            "side": c.system,
            "line": f"{c.system} {figures.labels(c.labels)}",
            "ranks": p.ranks,
            "value": p.speedup.value,
            "low": p.speedup.low,
            "high": p.speedup.high,
            "efficiency": f"{p.efficiency.value * 100:.0f} %",
            "shape": p.shape,
        }
        for c in curves
        for p in c.points
    ]
    ranks = sorted({p.ranks for c in curves for p in c.points})
    names = tuple(dict.fromkeys([*sides, *(c.system for c in curves)]))
    smallest = curves[0].points[0]
    x = alt.X("ranks:Q", title="ranks", axis=alt.Axis(values=ranks, format="d"), scale=alt.Scale(zero=False))
    base = alt.Chart(alt.NamedData("rows")).encode(x=x, detail="line:N")
    y = alt.Y("value:Q", title=f"speed-up over {figures.shape(smallest.shape)}", scale=alt.Scale(zero=False))
    ideal = alt.Chart(alt.NamedData("ideal")).mark_line(color=_INK, strokeDash=[3, 3], strokeWidth=1)
    spec = _plain(
        ideal.encode(x=x, y=y)
        + base.mark_line(strokeWidth=1.5).encode(y=y, color=_side_colour(names, legend=True))
        + base.mark_rule(strokeWidth=2).encode(
            y=alt.Y("low:Q"), y2="high:Q", color=_side_colour(names, legend=True)
        )
        + base.mark_point(filled=True, size=60, opacity=1).encode(
            y=y,
            color=_side_colour(names, legend=True),
            shape=_side_shape(names, legend=True),
            tooltip=_tooltip("line", "shape", "value", "low", "high", "efficiency"),
        ),
        rows=rows,
        ideal=[{"ranks": r, "value": r / smallest.ranks} for r in ranks],
        height=240,
    )
    words = _listed(
        f"{c.system} {figures.labels(c.labels)} {figures.shape(p.shape)}: speed-up "
        f"{figures.ratio(p.speedup)}, efficiency {p.efficiency.value * 100:.0f} %"
        for c in curves
        for p in c.points[1:]
    )
    first = curves[0]
    caption = f"{first.benchmark} {figures.metric(first.metric)}"
    return Chart("scaling", caption, words, spec)


# Over time -----------------------------------------------------------------------------------------------


def over_time(sides: Mapping[str, Sequence[Result]]) -> list[Chart]:
    """Every series that runs printed, one line a run, one chart a benchmark, shape and series."""
    found = [
        (side, result, series)
        for side, results in sides.items()
        for result in results
        for series in result.reading.series
        if len(series.x) > 1
    ]
    groups = gathered(
        found, lambda f: (f[1].run.trial.benchmark, str(f[1].run.trial.shape), f[2].name, f[2].x_name)
    )
    return [_lines(group, tuple(sides)) for group in groups]


def _lines(group: Sequence[tuple[str, Result, Series]], sides: Sequence[str]) -> Chart:
    import altair as alt

    drawn = _evenly(group, MOST_LINE_POINTS)
    _, first, series = group[0]
    scale = figures.scale_of([y for _, _, s in drawn for y in s.y], series.unit)
    per_unit, unit = (scale.per_unit, scale.unit) if scale else (1.0, series.unit)
    rows = [
        {"side": side, "run": result.run.trial.id, "x": x, "value": y * per_unit}
        for side, result, s in drawn
        for x, y in _thinned(s)
    ]
    base = alt.Chart(alt.NamedData("rows")).encode(
        x=alt.X("x:Q", title=series.x_name, scale=alt.Scale(zero=False), axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("value:Q", title=_axis(series.name, unit), scale=alt.Scale(zero=False)),
        color=_side_colour(sides, legend=True),
        detail="run:N",
        tooltip=_tooltip("run", "x", "value"),
    )
    line = base.mark_line(strokeWidth=1.3, opacity=0.8)
    if len(series.x) < _MARKED_UNDER:
        dots = base.mark_point(filled=True, size=36, opacity=0.9)
        chart = line + dots.encode(shape=_side_shape(sides, legend=True))
    else:
        chart = line.encode(strokeDash=_side_dash(sides, legend=True))
    spec = _plain(chart, rows=rows, height=200)
    trial = first.run.trial
    some = "" if len(drawn) == len(group) else f", {len(drawn)} of {len(group)} runs drawn"
    task = f"{trial.benchmark} {figures.metric(series.name)} over {series.x_name}"
    caption = f"{task}, {figures.shape(str(trial.shape))}{some}"
    words = _listed(_line_words(side, [s for at, _, s in group if at == side]) for side in sides)
    return Chart("series", caption, words, spec)


def _line_words(side: str, lines: Sequence[Series]) -> str:
    if not lines:
        return ""
    first, last = [s.y[0] for s in lines], [s.y[-1] for s in lines]
    unit = f" {lines[0].unit}" if lines[0].unit else ""
    return (
        f"{side}: {len(lines)} runs begin at {min(first):.4g} to {max(first):.4g}{unit} "
        f"and end at {min(last):.4g} to {max(last):.4g}{unit}"
    )


def _thinned(series: Series) -> list[tuple[float, float]]:
    """Every k-th point and the last, at most `MOST_POINTS_A_LINE` or so."""
    points = list(zip(series.x, series.y, strict=True))
    step = max(1, len(points) // MOST_POINTS_A_LINE)
    return points[::step] if (len(points) - 1) % step == 0 else [*points[::step], points[-1]]


def _evenly(group: Sequence[Any], most_points: int) -> Sequence[Any]:
    """As many whole runs as fit, spread over the group."""
    longest = max(min(len(s.x), MOST_POINTS_A_LINE) for _, _, s in group)
    room = max(1, most_points // longest)
    return group if len(group) <= room else [group[k * len(group) // room] for k in range(room)]


# Common to all -------------------------------------------------------------------------------------------


def _plain(chart: Any, *, height: Any = None, **rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The finished chart as plain data, its rows beside the encodings."""
    made = chart.properties(width="container", autosize={"type": "fit-x", "contains": "padding"})
    if height is not None:
        made = made.properties(height=height)
    spec: dict[str, Any] = made.configure(**_CONFIG).to_dict()
    spec["datasets"] = {name: list(table) for name, table in rows.items()}
    return spec


_FONT = "system-ui, sans-serif"
_CONFIG: dict[str, Any] = {
    "background": "transparent",
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": _INK,
        "titleColor": _INK,
        "gridColor": _FAINT,
        "domainColor": _FAINT,
        "tickColor": _FAINT,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelOverlap": True,
        "labelFlush": False,
    },
    "legend": {
        "labelColor": _INK,
        "titleColor": _INK,
        "labelFontSize": 12,
        "orient": "top",
        "title": None,
    },
}


def _side_colour(sides: Sequence[str], *, legend: bool = False) -> Any:
    import altair as alt

    colours = [f"var(--series-{at % MOST_SYSTEMS + 1})" for at in range(len(sides))]
    return alt.Color(
        "side:N", legend=_legend(sides, legend), scale=alt.Scale(domain=list(sides), range=colours)
    )


def _legend(sides: Sequence[str], shown: bool) -> Any:
    import altair as alt

    return alt.Legend() if shown and len(sides) > 1 else None


def _side_shape(sides: Sequence[str], *, legend: bool = False) -> Any:
    import altair as alt

    shapes = [_SHAPES[at % len(_SHAPES)] for at in range(len(sides))]
    return alt.Shape(
        "side:N", legend=_legend(sides, legend), scale=alt.Scale(domain=list(sides), range=shapes)
    )


def _side_dash(sides: Sequence[str], *, legend: bool = False) -> Any:
    import altair as alt

    dashes = [_DASHES[at % len(_DASHES)] for at in range(len(sides))]
    return alt.StrokeDash(
        "side:N", legend=_legend(sides, legend), scale=alt.Scale(domain=list(sides), range=dashes)
    )


def _tooltip(*fields: str) -> list[Any]:
    import altair as alt

    numbers = {"value", "low", "high", "x"}
    return [
        alt.Tooltip(f"{name}:Q", format=".4~g") if name in numbers else alt.Tooltip(f"{name}:N")
        for name in fields
    ]


def _axis(metric: str, unit: str) -> str:
    return f"{figures.metric(metric)}, {unit}" if unit else figures.metric(metric)


def _largest_unit(values: Iterable[float], unit: str) -> tuple[str, float]:
    scale = figures.scale_of([max(values)], unit)
    return (scale.unit, scale.per_unit) if scale else (unit, 1.0)


def _listed(parts: Iterable[str]) -> str:
    return "; ".join(filter(None, parts)) + "."
