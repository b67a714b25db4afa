"""A confusion matrix as text: the most frequent confusions."""

from __future__ import annotations

from collections.abc import Iterator

from assay.analyse import confusion
from assay.records import ConfusionMatrix
from assay.report import figures

MOST_TOLD = 5


def most_confused(matrix: ConfusionMatrix) -> Iterator[str]:
    """The most frequent confusions, as `12 % of Sky predicted as Car`."""
    worst = confusion.most_confused(matrix, MOST_TOLD)
    if not worst:
        yield "no class was confused with another"
    for pair in worst:
        yield f"{figures.percent(pair.share)} of {pair.true} predicted as {pair.predicted}"
