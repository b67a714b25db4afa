"""From one side's mean time to train to the other's, cause by cause."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

from assay.analyse.mlperf.decompose import Decomposition
from assay.report.charts.chart import INK, Chart, listed, plain, tooltip
from assay.report.sentences import split

_COLORS = {"convergence": "var(--series-2)", "system": "var(--series-1)", "time to train": INK}
_WIDEST_NAME = 26  # characters; the end of a longer name is more informative than the beginning


def waterfall(d: Decomposition) -> Chart:
    """Bars from A's mean to B's. The axis begins near them; totals are marks, since cut bars mislead."""
    import altair as alt

    unit = split.unit_of(d)
    rows = _rows(d, unit)
    least, most = (pick(row[k] for row in rows for k in ("from", "to")) for pick in (min, max))
    room = (most - least or most * 0.01) * 0.08
    x = alt.Scale(domain=[max(0.0, least - room), most + room], zero=False, nice=False)
    axis = alt.X("from:Q", title=f"mean time to train, {unit}", scale=x, axis=alt.Axis(tickCount=6))
    lines = alt.Axis(labelExpr="split(datum.label, '\\n')", labelLimit=220)
    base = alt.Chart(alt.NamedData("rows")).encode(
        y=alt.Y("row:N", sort=[row["row"] for row in rows], title=None, axis=lines),
        color=alt.Color(
            "belongs:N",
            legend=None,
            scale=alt.Scale(domain=list(_COLORS), range=list(_COLORS.values())),
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


def _rows(d: Decomposition, unit: str) -> list[dict[str, Any]]:
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
            "row": f"{_tail(name)}\n{text}" + (f", {belongs}" if belongs != "time to train" else ""),
            "name": name,
            "belongs": belongs,
            "from": before * per_minute,
            "to": after * per_minute,
            "text": text,
        }
        for name, belongs, before, after, text in (first, *steps, last)
    ]


def _tail(name: str) -> str:
    return name if len(name) <= _WIDEST_NAME else f"…{name[1 - _WIDEST_NAME :]}"
