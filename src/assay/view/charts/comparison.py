"""Comparisons: ratios with their intervals and the margin, and a difference in time, cause by cause."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from assay.analyse.mlperf.decompose import Decomposition
from assay.records import Comparison
from assay.view import figures
from assay.view.blocks import Chart
from assay.view.charts.chart import INK, listed, plain, ratio_ticks, tooltip
from assay.view.sentences import split
from assay.view.sentences.sentences import SYMBOLS

_ARROWS = ("triangle-left", "triangle-right")
_MOST_MARGINS = 6  # shown on each side of 1, to limit wide intervals


def forest(comparisons: Sequence[Comparison], left_out: int = 0) -> Chart:
    """Ratios with their intervals and the margin; times are inverted, so that right is always better."""
    names = {(c.a, c.b) for c in comparisons}
    a, b = next(iter(names)) if len(names) == 1 else ("A", "B")
    rows = [_forest_row(c, several=len(names) > 1) for c in comparisons]
    margin = max(c.margin for c in comparisons)
    span = _forest_span(rows, math.log1p(margin))
    domain, ticks = ratio_ticks(math.exp(-span), math.exp(span))
    edges = list(_forest_edges(rows, domain))
    spec = plain(
        _forest_layers([row["row"] for row in rows], domain, ticks, title=f"{b} relative to {a}"),
        height=38 * len(rows),
        rows=rows,
        edges=edges,
        margin=[{"low": 1 / (1 + margin), "high": 1 + margin, "one": 1}],
    )
    inverted = any(c.point.better == "lower" for c in comparisons)
    more = f" The first {len(rows)} of {len(rows) + left_out} points." if left_out > 0 else ""
    return Chart(
        "forest",
        f"Ratios with 95 % intervals{', times inverted' * inverted}: right of 1 is better. "
        f"The band is the margin of ±{figures.percent(margin)}"
        f"{'; an arrow is an interval that extends further' * bool(edges)}.{more}",
        listed(f"{_forest_name(c)}: {c.verdict}, ratio {figures.compared(c)}" for c in comparisons),
        spec,
        wide=True,
    )


def _forest_edges(rows: Sequence[Mapping[str, Any]], domain: Sequence[float]) -> Iterator[dict[str, Any]]:
    """An arrow at the end of the axis for each interval that extends beyond it."""
    left, right = domain
    for row in rows:
        labels = {"row": row["row"], "verdict": row["verdict"]}
        if row["low"] is not None and row["low"] < left:
            yield {**labels, "edge": left, "way": "left"}
        if row["high"] is not None and row["high"] > right:
            yield {**labels, "edge": right, "way": "right"}


def _forest_layers(order: Sequence[str], domain: Sequence[float], ticks: Sequence[float], title: str) -> Any:
    """Layers: margin, line of no difference, intervals, arrows and ratios."""
    import altair as alt

    x = alt.Scale(type="log", domain=domain, nice=False)
    lines = alt.Axis(labelExpr="split(datum.label, '\\n')", labelLimit=220)
    y = alt.Y("row:N", sort=order, title=None, axis=lines)
    axis = alt.X("low:Q", scale=x, title=title, axis=alt.Axis(values=ticks, format="~g", labelSeparation=1))
    margin, rows, edges = (alt.Chart(alt.NamedData(name)) for name in ("margin", "rows", "edges"))
    color, shape = verdict_look()
    ways = alt.Scale(domain=["left", "right"], range=list(_ARROWS))
    layers = (
        margin.mark_rect(color="var(--band)").encode(x=axis, x2="high:Q"),
        margin.mark_rule(color=INK, strokeDash=[3, 3]).encode(x="one:Q"),
        rows.mark_rule(strokeWidth=2, clip=True).encode(y=y, x="low:Q", x2="high:Q", color=color),
        edges.mark_point(filled=True, size=70, opacity=1).encode(
            y=y, x="edge:Q", color=color, shape=alt.Shape("way:N", legend=None, scale=ways)
        ),
        rows.mark_point(filled=True, size=90, opacity=1).encode(
            y=y, x="ratio:Q", color=color, shape=shape, tooltip=tooltip("row", "verdict", "text")
        ),
    )
    return alt.layer(*layers).resolve_scale(shape="independent")


def verdict_look() -> tuple[Any, Any]:
    """Color and mark of each verdict."""
    import altair as alt

    verdicts = list(SYMBOLS)
    colors = alt.Scale(domain=verdicts, range=[f"var(--{verdict})" for verdict in verdicts])
    shapes = alt.Scale(domain=verdicts, range=["square", "triangle-up", "triangle-down", "circle"])
    return (
        alt.Color("verdict:N", legend=None, scale=colors),
        alt.Shape("verdict:N", legend=None, scale=shapes),
    )


def _forest_span(rows: Sequence[Mapping[str, Any]], margin: float) -> float:
    """Half the axis on the log scale: every ratio, and as much of the intervals as stays legible."""
    ratios = max(abs(math.log(row["ratio"])) for row in rows)
    ends = max(abs(math.log(row[k] or row["ratio"])) for row in rows for k in ("low", "high"))
    return max(1.06 * min(ends, _MOST_MARGINS * margin), 1.2 * ratios, 1.6 * margin)


def _forest_row(c: Comparison, *, several: bool) -> dict[str, Any]:
    value, low, high = c.deciding.value, c.deciding.low, c.deciding.high
    if c.point.better == "lower":
        value, low, high = 1 / value, high and 1 / high, low and 1 / low
    place = f"{figures.where(c.point)} ({c.b})" if several else figures.where(c.point)
    return {
        "row": f"{c.point.benchmark} {figures.metric(c.point.metric)}\n{place}",
        "ratio": value,
        "low": low,
        "high": high,
        "verdict": c.verdict,
        "text": figures.ratio(c.deciding),
    }


def _forest_name(c: Comparison) -> str:
    return (
        f"{c.b} compared with {c.a}, {c.point.benchmark} {figures.metric(c.point.metric)}, "
        f"{figures.where(c.point)}"
    )


_COLORS = {"convergence": "var(--series-2)", "system": "var(--series-1)", "time to train": INK}
_WIDEST_NAME = 26  # characters; the end of a longer name is more informative than the beginning


def waterfall(d: Decomposition) -> Chart:
    """Bars from A's mean to B's. The axis begins near them; totals are marks, since cut bars mislead."""
    import altair as alt

    unit = split.unit_of(d)
    rows = _waterfall_rows(d, unit)
    least, most = (pick(row[k] for row in rows for k in ("from", "to")) for pick in (min, max))
    room = (most - least or most * 0.01) * 0.08
    x = alt.Scale(domain=[max(0.0, least - room), most + room], zero=False, nice=False)
    axis = alt.X("from:Q", title=f"mean time to train, {unit}", scale=x, axis=alt.Axis(tickCount=6))
    lines = alt.Axis(labelExpr="split(datum.label, '\\n')", labelLimit=220)
    base = alt.Chart(alt.NamedData("rows")).encode(
        y=alt.Y("row:N", sort=[row["row"] for row in rows], title=None, axis=lines),
        color=alt.Color(
            "belongs:N", legend=None, scale=alt.Scale(domain=list(_COLORS), range=list(_COLORS.values()))
        ),
        tooltip=tooltip("name", "belongs", "text"),
    )
    bars = base.transform_filter("datum.belongs != 'time to train'").mark_bar(height=16)
    totals = base.transform_filter("datum.belongs == 'time to train'").mark_tick(thickness=4, size=26)
    return Chart(
        "waterfall",
        f"{d.benchmark}, from {d.a.name} to {d.b.name}: what adds time and what saves time",
        listed(f"{row['name']} {row['text']}" for row in rows),
        plain(bars.encode(x=axis, x2="to:Q") + totals.encode(x=axis), height=38 * len(rows), rows=rows),
        wide=True,
    )


def _waterfall_rows(d: Decomposition, unit: str) -> list[dict[str, Any]]:
    """Each cause as the interval over which it moves the running mean; the sides first and last."""
    per_minute = 60.0 if unit == "s" else 1.0
    reached = list(accumulate((c.minutes for c in d.causes), initial=d.a.mean.minutes))
    first, last = (
        (
            s.name,
            "time to train",
            s.mean.minutes,
            s.mean.minutes,
            f"{s.mean.minutes * per_minute:,.3f} {unit}",
        )
        for s in (d.a, d.b)
    )
    steps = [
        (
            c.name,
            c.factor_of,
            before,
            after,
            f"{(after - before) * per_minute:+,.3f} {unit}".replace("-", "−"),
        )
        for c, (before, after) in zip(d.causes, pairwise(reached), strict=True)
    ]
    return [
        {
            "row": f"{_name_tail(name)}\n{text}" + (f", {belongs}" if belongs != "time to train" else ""),
            "name": name,
            "belongs": belongs,
            "from": before * per_minute,
            "to": after * per_minute,
            "text": text,
        }
        for name, belongs, before, after, text in (first, *steps, last)
    ]


def _name_tail(name: str) -> str:
    return name if len(name) <= _WIDEST_NAME else f"…{name[1 - _WIDEST_NAME :]}"
