"""What happened during runs: profiles as tables, series as spark lines, confusions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from assay.analyse.confusion import evaluated
from assay.analyse.points.groups import place_of
from assay.records import Point, Result, Series
from assay.units import human
from assay.view import figures
from assay.view.blocks import Table, TableBody, TableRow
from assay.view.sentences.run_details import most_confused
from assay.view.tables import OPERATOR, by_operator, gathered, operator_setting

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 32  # characters of a spark line


def operators(means: Iterable[tuple[Point, float]]) -> Iterator[Table]:
    """For each profiled benchmark, its operators in rows and its shapes in columns."""
    profiled = [(point, mean) for point, mean in means if OPERATOR in point.labels]
    for group in gathered(profiled, lambda pair: pair[0].benchmark):
        columns = list(dict.fromkeys(_shape(point) for point, _ in group))
        figures_of = {(str(point.labels[OPERATOR]), _shape(point)): mean for point, mean in group}
        unit, rows = by_operator(figures_of, columns, group[0][0].unit)
        caption = f"{group[0][0].benchmark}, each operator's own time in one step{unit and f', {unit}'}:"
        yield Table(caption, ("", *columns), (TableBody("", tuple(map(TableRow, rows))),))


def _shape(point: Point) -> str:
    return f"{point.shape} {operator_setting(point)}".strip()


def series(results: Sequence[Result]) -> Iterator[str]:
    """The newest run's series for every benchmark and shape."""
    newest = {place_of(r.run): r for r in results if r.counts}
    for place, result in sorted(newest.items()):
        for curve in result.reading.series:
            if curve.y:
                yield f"  {place.benchmark} {place.shape} {figures.metric(curve.name)}: {spark(curve)}"


def spark(curve: Series) -> str:
    """First value, spark line and last value; a single value is shown as is."""
    if len(curve.y) == 1:
        return f"{human(curve.y[0], curve.unit)}  ({curve.x_name} {curve.x[0]:g})"
    y = thinned(curve.y)
    low, high = min(y), max(y)
    height = (high - low) or 1.0
    bars = "".join(_BARS[round((value - low) / height * (len(_BARS) - 1))] for value in y)
    x = f"{curve.x_name} {curve.x[0]:g} to {curve.x[-1]:g}"
    return f"{human(curve.y[0], curve.unit)} {bars} {human(curve.y[-1], curve.unit)}  ({x})"


def thinned(y: Sequence[float]) -> list[float]:
    """At most as many values as a spark line has characters: means of equal stretches."""
    if len(y) <= _WIDTH:
        return list(y)
    edges = [len(y) * i // _WIDTH for i in range(_WIDTH + 1)]
    return [math.fsum(y[a:b]) / (b - a) for a, b in pairwise(edges)]


def confusions(results: Sequence[Result]) -> Iterator[str]:
    """The most frequent confusions in evaluations, for every benchmark, shape and setting."""
    for evaluation in evaluated(results):
        trial = evaluation.trial
        place = f"{trial.benchmark} {trial.shape} {figures.labels(trial.varied)}".strip()
        yield f"  {place} most confused: {'; '.join(most_confused(evaluation.matrix))}"
