"""Which class an evaluation predicts for each true class, as shares of the true class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.analyse.confusion import Misclassification, PointConfusion, cells, evaluated
from assay.records import ConfusionMatrix, Result
from assay.report import figures
from assay.report.charts.chart import Chart, listed
from assay.report.charts.heat import heat_map
from assay.report.sentences.confusion import most_confused
from assay.units import counted

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
