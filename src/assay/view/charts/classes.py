"""Classes of labelled data: which one is predicted for each true one, and shares from 0 to 1 as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assay.analyse.confusion import Misclassification, PointConfusion, cells, evaluated
from assay.records import ConfusionMatrix, Result
from assay.units import counted
from assay.view import figures
from assay.view.blocks import Chart
from assay.view.charts.chart import INK, heat_map, listed, plain, tooltip
from assay.view.sentences.run_details import most_confused

_NARROW = 6  # classes that fit in half the page's width


def confusion(sides: Mapping[str, Sequence[Result]]) -> list[Chart]:
    """A heat map for each side and point whose runs print a confusion matrix."""
    return [_matrix(side, point) for side, results in sides.items() for point in evaluated(results)]


def _matrix(side: str, point: PointConfusion) -> Chart:
    place = ", ".join(
        filter(None, (side, figures.shape(str(point.trial.shape)), figures.labels(point.trial.varied)))
    )
    caption = f"{point.trial.benchmark} evaluated, {place}: predicted class for each true class, in %"
    if point.runs > 1:
        caption += f"; {counted(point.runs, 'run')} combined"
    return matrix_chart(point.matrix, caption)


def matrix_chart(matrix: ConfusionMatrix, caption: str) -> Chart:
    """True classes as rows, predicted ones as columns; classes that never occur are left out."""
    every = cells(matrix)
    true = list(dict.fromkeys(cell.true for cell in every))
    met = {*true, *(cell.predicted for cell in every if cell.count)}
    predicted = [name for name in matrix.classes if name in met]
    spec = heat_map(
        [_cell(cell) for cell in every if cell.predicted in met],
        down=true,
        across=predicted,
        titles=("true class", "predicted class"),
        tooltip_fields=("true class", "predicted class", "share", "count"),
    )
    if absent := len(matrix.classes) - len(true):
        caption += f"; {absent} of {len(matrix.classes)} classes did not occur"
    return Chart("confusion", caption, listed(most_confused(matrix)), spec, wide=len(predicted) > _NARROW)


def _cell(cell: Misclassification) -> dict[str, Any]:
    return {
        "row": cell.true,
        "column": cell.predicted,
        "level": cell.share,
        "text": f"{cell.share * 100:.0f}" if cell.share >= 0.005 else "",
        "true class": cell.true,
        "predicted class": cell.predicted,
        "share": figures.percent(cell.share),
        "count": f"{cell.count:,} of {cell.of:,}",
    }


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
