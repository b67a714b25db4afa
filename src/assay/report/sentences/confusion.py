"""A confusion matrix in words: what is taken for what most."""

from __future__ import annotations

from collections.abc import Iterator

from assay.analyse import confusion
from assay.records import ConfusionMatrix
from assay.report import figures

MOST_TOLD = 5


def most_confused(matrix: ConfusionMatrix) -> Iterator[str]:
    """The worst pairs, `12 % of Sky taken for Car`."""
    worst = confusion.most_confused(matrix, MOST_TOLD)
    if not worst:
        yield "every class was told from every other"
    for pair in worst:
        yield f"{figures.percent(pair.share)} of {pair.true} taken for {pair.predicted}"
