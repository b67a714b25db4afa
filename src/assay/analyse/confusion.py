"""Confusion matrices: which class an evaluation predicts for each true class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from assay.analyse.points.groups import place_of
from assay.records import ConfusionMatrix, Result, Trial


@dataclass(frozen=True)
class Misclassification:
    """One true class predicted as another: `count` of the `of` that are truly `true`."""

    true: str
    predicted: str
    count: int
    of: int

    @property
    def share(self) -> float:
        """Share of the true class, 0 to 1."""
        return self.count / self.of


class PointConfusion(NamedTuple):
    """The runs at one point: one of their trials, their number, and the sum of their matrices."""

    trial: Trial
    runs: int
    matrix: ConfusionMatrix


def evaluated(results: Iterable[Result]) -> list[PointConfusion]:
    """The matrices of the runs that count, added up by point (and by classes, if those differ)."""
    alike = defaultdict(list)
    for result in results:
        matrix = result.reading.confusion
        if result.counts and matrix is not None:
            alike[place_of(result.run), matrix.classes].append((result.run.trial, matrix))
    return [
        PointConfusion(group[0][0], len(group), _sum([matrix for _, matrix in group]))
        for group in alike.values()
    ]


def _sum(matrices: list[ConfusionMatrix]) -> ConfusionMatrix:
    tables = zip(*(matrix.counts for matrix in matrices), strict=True)
    rows = tuple(tuple(map(sum, zip(*row, strict=True))) for row in tables)
    return ConfusionMatrix(matrices[0].classes, rows)


def cells(matrix: ConfusionMatrix) -> list[Misclassification]:
    """Every pair of an evaluated class and a predicted one, including correct predictions.

    >>> [(c.true, c.predicted, c.share) for c in cells(ConfusionMatrix(("car", "sky"), ((3, 1), (0, 0))))]
    [('car', 'car', 0.75), ('car', 'sky', 0.25)]
    """
    return [
        Misclassification(true, predicted, count, sum(row))
        for true, row in zip(matrix.classes, matrix.counts, strict=True)
        for predicted, count in zip(matrix.classes, row, strict=True)
        if sum(row)
    ]


def most_confused(matrix: ConfusionMatrix, most: int) -> list[Misclassification]:
    """The pairs of different classes with the largest share of their true class, the worst first."""
    wrong = [cell for cell in cells(matrix) if cell.true != cell.predicted and cell.count]
    return sorted(wrong, key=lambda cell: cell.share, reverse=True)[:most]
