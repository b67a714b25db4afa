"""Ratios with their intervals against the margin."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from assay.records import Comparison
from assay.report import figures
from assay.report.charts.chart import INK, Chart, listed, plain, ratio_ticks, tooltip
from assay.report.sentences import SYMBOLS

_ARROWS = ("triangle-left", "triangle-right")
_MOST_MARGINS = 6  # that the forest shows to each side of 1 for the sake of wide intervals


def forest(comparisons: Sequence[Comparison], left_out: int = 0) -> Chart:
    """Ratios with their intervals against the margin; times are inverted, so that right is always better."""
    import altair as alt

    rows = [_forest_row(c, several=len({(c.a, c.b) for c in comparisons}) > 1) for c in comparisons]
    margin = max(c.margin for c in comparisons)
    span = _forest_span(rows, math.log1p(margin))
    domain, ticks = ratio_ticks(math.exp(-span), math.exp(span))
    edges = [
        {"row": row["row"], "verdict": row["verdict"], "edge": end, "way": way}
        for row in rows
        for end, way, beyond in (
            (domain[0], "left", row["low"] is not None and row["low"] < domain[0]),
            (domain[1], "right", row["high"] is not None and row["high"] > domain[1]),
        )
        if beyond
    ]
    x = alt.Scale(type="log", domain=domain, nice=False)
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
        .encode(x=alt.X("low:Q", scale=x, title=title, axis=alt.Axis(values=ticks, format="~g")), x2="high:Q")
    )
    one = alt.Chart(alt.NamedData("margin")).mark_rule(color=INK, strokeDash=[3, 3]).encode(x="one:Q")
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
        x="ratio:Q", color=colour, shape=shape, tooltip=tooltip("row", "verdict", "text")
    )
    spec = plain(
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
        listed(f"{_forest_name(c)}: {c.verdict}, ratio {figures.ratio(c.ratio)}" for c in comparisons),
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
