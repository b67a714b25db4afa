"""From one side's mean time to train to the other's, cause by cause."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from assay.analyse.decompose import Decomposition
from assay.report import split
from assay.report.charts.chart import INK, Chart, listed, plain, tooltip

_BELONGS = {"convergence": "var(--series-2)", "system": "var(--series-1)", "time": INK}


def waterfall(d: Decomposition) -> Chart:
    """Bars from A's mean to B's. The axis begins near them: totals are marks, since a cut bar would lie."""
    import altair as alt

    unit = split.unit_of(d)
    rows = _rows(d, 60.0 if unit == "s" else 1.0)
    order = [row["row"] for row in rows]
    least, most = (pick(row[k] for row in rows for k in ("from", "to")) for pick in (min, max))
    room = (most - least or most * 0.01) * 0.12
    x = alt.Scale(domain=[max(0.0, least - room), most + 2 * room], zero=False, nice=False)
    y = alt.Y("row:N", sort=order, title=None, axis=alt.Axis(labelLimit=220))
    colour = alt.Color(
        "belongs:N",
        legend=alt.Legend(),
        scale=alt.Scale(domain=list(_BELONGS), range=list(_BELONGS.values())),
    )
    base = alt.Chart(alt.NamedData("rows")).encode(y=y, color=colour)
    axis = alt.X("from:Q", title=f"mean time to train, {unit}", scale=x)
    about = tooltip("row", "belongs", "text")
    bars = (
        base.transform_filter("datum.belongs != 'time'")
        .mark_bar(height=16)
        .encode(x=axis, x2="to:Q", tooltip=about)
    )
    totals = (
        base.transform_filter("datum.belongs == 'time'")
        .mark_tick(thickness=4, size=26)
        .encode(x=axis, tooltip=about)
    )
    words = base.mark_text(align="left", dx=7, fontSize=12, color=INK).encode(
        x=alt.X("right:Q", scale=x), text="text:N", color=alt.value(INK)
    )
    return Chart(
        "waterfall",
        f"{d.benchmark}, from {d.a.name} to {d.b.name}: what adds time and what takes it away",
        listed(f"{row['row']} {row['text']} {unit}" for row in rows),
        plain(bars + totals + words, height=30 * len(rows), rows=rows),
        wide=True,
    )


def _rows(d: Decomposition, per_minute: float) -> list[dict[str, Any]]:
    """Each cause as the interval that it moves the running mean through; the sides first and last."""
    reached = list(accumulate((c.minutes for c in d.causes), initial=d.a.mean.minutes))
    steps = [
        (c.name, c.factor_of, before, after, f"{(after - before) * per_minute:+,.3f}".replace("-", "−"))
        for c, before, after in zip(d.causes, reached, reached[1:], strict=False)
    ]
    ends = [
        (s.name, "time", s.mean.minutes, s.mean.minutes, f"{s.mean.minutes * per_minute:,.3f}")
        for s in (d.a, d.b)
    ]
    return [
        {
            "row": name,
            "belongs": belongs,
            "from": before * per_minute,
            "to": after * per_minute,
            "right": max(before, after) * per_minute,
            "text": text,
        }
        for name, belongs, before, after, text in (ends[0], *steps, ends[1])
    ]
