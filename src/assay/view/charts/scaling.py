"""Speed-up by ranks, with the ideal line."""

from __future__ import annotations

from collections.abc import Sequence

from assay.records import Scaling
from assay.view import figures
from assay.view.blocks import Chart
from assay.view.charts.chart import CUT, INK, legible, listed, plain, side_color, side_shape, tooltip

_ASIDE = 0.02  # of the axis, between the points of one system and the next


def scaling(curves: Sequence[Scaling], sides: Sequence[str]) -> Chart:
    """Speed-up by ranks with its interval, and the ideal line."""
    import altair as alt

    ranks = sorted({p.ranks for c in curves for p in c.points})
    names = tuple(dict.fromkeys([*sides, *(c.system for c in curves)]))
    rows = [
        {
            "side": c.system,
            "line": f"{c.system} {figures.labels(c.labels)}",
            "ranks": p.ranks,
            "at": p.ranks + _aside(names.index(c.system), len(names), ranks),
            "value": p.speedup.value,
            "low": p.speedup.low,
            "high": p.speedup.high,
            "efficiency": f"{p.efficiency.value * 100:.0f} %",
            "shape": p.shape,
        }
        for c in curves
        for p in c.points
    ]
    smallest = curves[0].points[0]
    across = alt.Scale(zero=False, nice=False, padding=12)
    axis = alt.Axis(values=ranks, format="d")
    x, x_aside = (alt.X(f"{f}:Q", title="ranks", axis=axis, scale=across) for f in ("ranks", "at"))
    base = alt.Chart(alt.NamedData("rows")).encode(x=x_aside, detail="line:N")
    speedups = [p.speedup for c in curves for p in c.points]
    ideals = [rank / smallest.ranks for rank in ranks]
    domain, cut = legible(
        [*ideals, *(s.value for s in speedups)], [end for s in speedups for end in (s.low, s.high)]
    )
    upward = alt.Scale(domain=domain, zero=False, nice=not cut)
    y = alt.Y("value:Q", title=f"speed-up relative to {figures.shape(smallest.shape)}", scale=upward)
    ideal = alt.Chart(alt.NamedData("ideal")).mark_line(color=INK, strokeDash=[3, 3], strokeWidth=1)
    color = side_color(names, legend=True)
    lines = base.mark_line(strokeWidth=1.5).encode(y=y, color=color)
    intervals = base.mark_rule(strokeWidth=2, clip=True).encode(
        y=alt.Y("low:Q", scale=upward), y2="high:Q", color=color
    )
    points = base.mark_point(filled=True, size=60, opacity=1).encode(
        y=y,
        color=color,
        shape=side_shape(names, legend=True),
        tooltip=tooltip("line", "shape", "value", "low", "high", "efficiency"),
    )
    known = any(s.low is not None for s in speedups)  # a layer without any value makes Vega warn
    spec = plain(
        alt.layer(ideal.encode(x=x, y=y), lines, *[intervals] * known, points),
        rows=rows,
        ideal=[{"ranks": r, "value": v} for r, v in zip(ranks, ideals, strict=True)],
        height=240,
    )
    summary = listed(
        f"{c.system} {figures.labels(c.labels)} {figures.shape(p.shape)}: speed-up "
        f"{figures.ratio(p.speedup)}, efficiency {p.efficiency.value * 100:.0f} %"
        for c in curves
        for p in c.points[1:]
    )
    first = curves[0]
    caption = f"{first.benchmark} {figures.metric(first.metric)}{CUT * cut}"
    return Chart("scaling", caption, summary, spec)


def _aside(place: int, count: int, ranks: Sequence[int]) -> float:
    """The horizontal offset of a system's points, so that intervals don't hide each other."""
    return (place - (count - 1) / 2) * _ASIDE * (ranks[-1] - ranks[0])
