"""Shares from 0 to 1 as bars, each with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assay.report import figures
from assay.report.charts.chart import INK, Chart, listed, plain, tooltip

_ROW = 24  # pixels of height


@dataclass(frozen=True)
class NamedShare:
    """A share and its 95 % interval, None if it has none."""

    name: str
    value: float
    low: float | None = None
    high: float | None = None

    def words(self) -> str:
        """`12.3 % (10.1 % to 14.9 %)`."""
        if self.low is None or self.high is None:
            return figures.percent(self.value)
        low, high = figures.percent(self.low), figures.percent(self.high)
        return f"{figures.percent(self.value)} ({low} to {high})"


def share_bars(kind: str, caption: str, title: str, shares: Sequence[NamedShare]) -> Chart:
    """Bars in the given order, from the top; `title` is the axis's."""
    import altair as alt

    names = [share.name for share in shares]
    rows = [
        {
            "row": share.name,
            "value": share.value,
            "low": share.low,
            "high": share.high,
            "share": share.words(),
        }
        for share in shares
    ]
    scale = alt.Scale(domain=[0, 1])
    axis = alt.Axis(format="%")
    base = alt.Chart(alt.NamedData("rows")).encode(
        y=alt.Y("row:N", sort=names, title=None, axis=alt.Axis(labelLimit=220, labelOverlap=False)),
        tooltip=tooltip("row", "share"),
    )
    bars = base.mark_bar(color="var(--series-1)", opacity=0.6).encode(
        x=alt.X("value:Q", scale=scale, title=title, axis=axis)
    )
    intervals = base.transform_filter("isValid(datum.low)").mark_rule(color=INK, strokeWidth=2)
    spec = plain(
        bars + intervals.encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        height=_ROW * len(shares),
        rows=rows,
    )
    return Chart(kind, caption, listed(f"{share.name} {share.words()}" for share in shares), spec, wide=True)
