"""Exchanges by message size on log axes: measurements, fitted lines, n½, and the network's line rate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from assay.analyse.comparison.families import CurveVerdict, band, size_of
from assay.analyse.exchange.curves import ExchangeCurve, ExchangePoint
from assay.records import Estimate
from assay.view import figures
from assay.view.blocks import Chart
from assay.view.charts.chart import (
    INK,
    axis_title,
    listed,
    plain,
    ratio_ticks,
    side_color,
    side_dash,
    side_shape,
    tooltip,
)
from assay.view.charts.comparison import verdict_look
from assay.view.charts.runs import BINARY_LABELS
from assay.view.figures import gathered
from assay.view.sentences import exchange as exchange_words

Metric = Literal["busbw", "latency"]
_UNITS: dict[Metric, str] = {"busbw": "B/s", "latency": "s"}
_HALF = "M-1,-1L1,1M-1,1L1,-1"  # a cross, which is no system's mark


def exchanges(curves: Sequence[ExchangeCurve]) -> list[Chart]:
    """Bus bandwidth and latency of each benchmark and shape, a line per system and setting."""
    groups = gathered(curves, lambda curve: (curve.benchmark, curve.shape))
    return [_chart(group, metric) for group in groups for metric in _UNITS]


def _chart(group: Sequence[ExchangeCurve], metric: Metric) -> Chart:
    names = [_name(curve, group) for curve in group]
    values = [_value(point, metric).value for curve in group for point in curve.points]
    scale = figures.scale_of([max(values) if metric == "busbw" else min(values)], _UNITS[metric])
    per_unit, unit = scale.per_unit, scale.unit
    named_curves = list(zip(names, group, strict=True))
    tables: dict[str, list[dict[str, Any]]] = {
        "drawn": [row for name, curve in named_curves for row in _drawn(name, curve, metric, per_unit)],
        "measured": [row for name, curve in named_curves for row in _measured(name, curve, metric, per_unit)],
        "halves": [row for name, curve in named_curves for row in _half(name, curve, metric, per_unit)],
        "rates": _rates(group, per_unit) if metric == "busbw" else [],
    }
    lines = {row["side"] for row in tables["drawn"]}
    tables["joined"] = [row for row in tables["measured"] if row["side"] not in lines]
    spec = plain(_layers(names, axis_title(metric, unit), tables), **tables, height=300)
    first = group[0]
    caption = f"{first.benchmark} {figures.metric(metric)} by message size, {figures.shape(first.shape)}"
    notes = ["95 % intervals"]
    notes += ["lines: α + n·β, fitted to each run"] * bool(tables["drawn"])
    notes += ["crosses: half of the bandwidth"] * bool(tables["halves"])
    summary = listed(f"{name}: {exchange_words.describe_curve(curve)}" for name, curve in named_curves)
    return Chart("exchange", f"{caption}; {', '.join(notes)}", summary, spec, wide=True)


def _layers(names: Sequence[str], title: str, tables: Mapping[str, Sequence[object]]) -> Any:
    """The fitted lines in their bands, the measurements, half the bandwidth, and the line rate."""
    import altair as alt

    color, dash = side_color(names, legend=True), side_dash(names, legend=True)
    x, tooltips = _size_axis(), tooltip("side", "x", "value", "low", "high")
    axis = alt.Axis(values=[10.0**k for k in range(-9, 13)], format="~g")
    y = alt.Y("value:Q", scale=alt.Scale(type="log"), title=title, axis=axis)
    low = alt.Y("low:Q", title=title)
    drawn, measured, joined, halves, rates = (
        alt.Chart(alt.NamedData(name)) for name in ("drawn", "measured", "joined", "halves", "rates")
    )
    at_size, right = measured.encode(x=x, color=color), rates.encode(x=alt.value("width"), y=y)
    layers = [
        ("drawn", drawn.mark_area(opacity=0.18).encode(x=x, y=low, y2="high:Q", color=color)),
        ("joined", joined.mark_line(strokeWidth=1, opacity=0.5).encode(x=x, y=y, color=color)),
        ("drawn", drawn.mark_line(strokeWidth=1.5).encode(x=x, y=y, color=color, strokeDash=dash)),
        ("measured", at_size.mark_rule(strokeWidth=2).encode(y=low, y2="high:Q")),
        (
            "measured",
            at_size.mark_point(filled=True, size=45, opacity=1).encode(
                y=y, shape=side_shape(names, legend=True), tooltip=tooltips
            ),
        ),
        (
            "halves",
            halves.mark_point(shape=_HALF, size=110, strokeWidth=2).encode(
                x=x, y=y, color=color, tooltip=tooltips
            ),
        ),
        ("rates", rates.mark_rule(color=INK, strokeDash=[3, 3], strokeWidth=1).encode(y=y)),
        ("rates", right.mark_text(color=INK, align="right", baseline="bottom", dy=-3).encode(text="words:N")),
    ]
    return alt.layer(*(layer for name, layer in layers if tables[name]))


def _size_axis() -> Any:
    import altair as alt

    axis = alt.Axis(labelExpr=BINARY_LABELS, tickCount=6)
    return alt.X("x:Q", scale=alt.Scale(type="log", base=2, nice=False), title="size", axis=axis)


def _name(curve: ExchangeCurve, group: Sequence[ExchangeCurve]) -> str:
    """The system, with the labels that distinguish its curves."""
    shared = figures.shared_labels([other.labels for other in group])
    own = figures.labels(figures.own_labels(curve.labels, shared))
    if len({other.system for other in group}) == 1 and own:
        return own
    return ", ".join(filter(None, (curve.system, own)))


def _value(point: ExchangePoint, metric: Metric) -> Estimate:
    return point.busbw if metric == "busbw" else point.latency


def _row(name: str, size: float, value: Estimate, per_unit: float) -> dict[str, Any]:
    ends = {"value": value.value, "low": value.low, "high": value.high}
    return {
        "side": name, "x": size, **{k: None if v is None else v * per_unit for k, v in ends.items()}
    }  # fmt: skip


def _measured(name: str, curve: ExchangeCurve, metric: Metric, per_unit: float) -> Iterator[dict[str, Any]]:
    return (_row(name, p.size_bytes, _value(p, metric), per_unit) for p in curve.points)


def _drawn(name: str, curve: ExchangeCurve, metric: Metric, per_unit: float) -> Iterator[dict[str, Any]]:
    for size, busbw in curve.drawn:
        yield _row(name, size, _as(metric, busbw, size, curve), per_unit)


def _as(metric: Metric, busbw: Estimate, size: float, curve: ExchangeCurve) -> Estimate:
    """A bus bandwidth converted to the time it implies, by the operation's factor."""
    if metric == "busbw":
        return busbw
    point = curve.points[-1]
    moved = point.busbw.value * point.latency.value / point.size_bytes * size
    low, high = (None if end is None else moved / end for end in (busbw.high, busbw.low))
    return Estimate(moved / busbw.value, low, high, busbw.n, "s", busbw.confidence)


def _half(name: str, curve: ExchangeCurve, metric: Metric, per_unit: float) -> Iterator[dict[str, Any]]:
    if curve.half is None:
        return
    most = curve.asymptote or max((p.busbw for p in curve.points), key=lambda busbw: busbw.value)
    value = Estimate(most.value / 2, None, None, most.n, "B/s")
    yield _row(name, curve.half.value, _as(metric, value, curve.half.value, curve), per_unit)


def _rates(group: Sequence[ExchangeCurve], per_unit: float) -> list[dict[str, Any]]:
    rates = dict.fromkeys(curve.line_rate for curve in group if curve.line_rate is not None)
    return [{"value": r.bytes_per_s * per_unit, "words": f"line rate of {r.ports}"} for r in rates]


def ratios(curve_verdict: CurveVerdict) -> Chart:
    """B/A at each size, with the simultaneous band and the margin."""
    import altair as alt

    first = curve_verdict.sizes[0]
    rows = [
        {
            "x": size_of(c),
            "value": c.ratio.value,
            "low": band(c).low,
            "high": band(c).high,
            "verdict": c.verdict,
            "size": figures.binary_bytes(size_of(c)),
        }
        for c in curve_verdict.sizes
    ]
    values = [c.ratio.value for c in curve_verdict.sizes]
    least, most = 1 / (1 + first.margin), 1 + first.margin
    domain, ticks = ratio_ticks(min(*values, least), max(*values, most))
    title = f"{figures.metric(curve_verdict.point.metric)}, {first.b} relative to {first.a}"
    y = alt.Y(
        "value:Q",
        scale=alt.Scale(type="log", domain=domain, nice=False),
        title=title,
        axis=alt.Axis(values=ticks, format="~g"),
    )
    x = _size_axis()
    color, shape = verdict_look()
    margin, over = alt.Chart(alt.NamedData("margin")), alt.Chart(alt.NamedData("rows")).encode(x=x)
    spec = plain(
        margin.mark_rect(color="var(--band)").encode(y=alt.Y("low:Q", title=title), y2="high:Q")
        + margin.mark_rule(color=INK, strokeDash=[3, 3]).encode(y="one:Q")
        + over.mark_area(opacity=0.15, color=INK, clip=True).encode(y=alt.Y("low:Q"), y2="high:Q")
        + over.mark_line(strokeWidth=1, color=INK).encode(y=y)
        + over.mark_point(filled=True, size=80, opacity=1).encode(
            y=y, color=color, shape=shape, tooltip=tooltip("size", "verdict", "value", "low", "high")
        ),
        rows=rows,
        margin=[{"low": least, "high": most, "one": 1}],
        height=240,
    )
    caption = (
        f"{curve_verdict.point.benchmark}, {figures.where(curve_verdict.point)}: "
        "the gray band holds at all sizes in 95 % of cases, "
        f"the other one is the margin of ±{figures.percent(first.margin)}"
    )
    return Chart("ratios", caption, exchange_words.verdict_line(curve_verdict) + ".", spec, wide=True)
