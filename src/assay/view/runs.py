"""What was measured in single runs, and what happened during them, as tables and lines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from assay.analyse.confusion import evaluated
from assay.analyse.points.groups import place_of
from assay.analyse.times import Times, mean_times
from assay.records import Point, Result, Scalar, Series
from assay.units import human
from assay.view import figures
from assay.view.blocks import Table, TableBody, TableRow
from assay.view.figures import NONE, gathered
from assay.view.sentences.run_details import most_confused

if TYPE_CHECKING:
    from assay.view.contents import Summary

Labels = Mapping[str, Scalar]
OPERATOR = "operator"  # measurements with this label have a separate table
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 32  # characters of a spark line


def summaries(summarized: Sequence[Summary]) -> Table:
    """Each side's runs at every point: n, geometric mean, interval, minimum and maximum."""
    bodies = []
    for group in gathered(summarized, lambda s: (s.point.benchmark, s.point.metric)):
        ordered = [s for at_place in gathered(group, lambda s: figures.where(s.point)) for s in at_place]
        halves = [figures.half_width(s.estimate) for s in ordered for _ in _ends(s)]
        unit, texts = figures.column([v for s in ordered for v in _ends(s)], group[0].point.unit, halves)
        shared = figures.shared_labels([s.point.labels for s in group])
        rows, position = [], 0
        for s in ordered:
            count = len(_ends(s))
            rows.append(_summary_row(s, texts[position : position + count], shared))
            position += count
        point = group[0].point
        title = f"{point.benchmark} {figures.metric(point.metric)}"
        bodies.append(TableBody(title, tuple(rows), figures.notes(unit, point.better, shared)))
    columns = ("", "system", "n", "geometric mean", "95 % interval", "minimum", "maximum")
    return Table("All runs", columns, tuple(bodies), frozenset({0, 1}))


def _ends(s: Summary) -> list[float]:
    e = s.estimate
    interval = [] if e.low is None or e.high is None else [e.low, e.high]
    return [e.value, min(s.values), max(s.values), *interval]


def _summary_row(s: Summary, texts: Sequence[str], shared: Labels) -> TableRow:
    mean, least, most, *ends = texts
    mean += " (arithmetic)" * (min(s.values) <= 0)
    interval = " to ".join(ends) or NONE
    return TableRow((figures.where(s.point, shared), s.side, str(s.estimate.n), mean, interval, least, most))


def trial_times(sides: Mapping[str, Sequence[Result]]) -> Iterator[Table]:
    """Where the time of a trial went: each side's mean at every place; none if no run has times."""
    runs = [(name, r) for name, results in sides.items() for r in results if r.counts]
    bodies = []
    for at_place in gathered(
        runs, lambda named_run: (named_run[1].run.trial.benchmark, str(named_run[1].run.trial.shape))
    ):
        trial = at_place[0][1].run.trial
        rows = [
            _times_row(group[0][0], *means)
            for group in gathered(at_place, lambda named_run: named_run[0])
            if (means := mean_times(result for _, result in group)) is not None
        ]
        if rows:
            bodies.append(TableBody(f"{trial.benchmark} on {figures.shape(str(trial.shape))}", tuple(rows)))
    if bodies:
        caption = "Where the time of a trial went, mean seconds; measurements cover only the time while the "
        columns = ("", "queue", "pull", "start", "run", "collect", "whole", "n")
        yield Table(f"{caption}ranks ran", columns, tuple(bodies))


def _times_row(side: str, t: Times, n: int) -> TableRow:
    parts = (t.queue, t.pull, t.start, t.run, t.collect, t.whole)
    return TableRow((side, *(NONE if part is None else f"{part:.2f}" for part in parts), str(n)))


def operator_tables(summaries: Sequence[Summary], sides: Sequence[str]) -> Iterator[Table]:
    """One table of all profiles, a column per side; none if nothing was profiled."""
    profiled = [s for s in summaries if OPERATOR in s.point.labels]
    bodies = [
        _operator_body(group, sides) for group in gathered(profiled, lambda s: _operator_place(s.point))
    ]
    caption = (
        f"Operators that take the most time of a step, each by itself (mean); {NONE}: not among the longest"
    )
    if bodies:
        yield Table(caption, ("", *sides), tuple(bodies))


def _operator_body(group: Sequence[Summary], sides: Sequence[str]) -> TableBody:
    means = {(str(s.point.labels[OPERATOR]), s.side): s.estimate.value for s in group}
    unit, rows = by_operator(means, sides, group[0].point.unit)
    title = _operator_place(group[0].point)
    return TableBody(title, tuple(map(TableRow, rows)), unit)


def _operator_place(point: Point) -> str:
    return ", ".join(
        filter(None, (f"{point.benchmark} on {figures.shape(point.shape)}", operator_setting(point)))
    )


def operator_setting(point: Point) -> str:
    """What distinguishes a profile from others of its benchmark and shape, as text."""
    return figures.labels({name: value for name, value in point.labels.items() if name != OPERATOR})


def by_operator(
    means: Mapping[tuple[str, str], float], columns: Sequence[str], unit: str
) -> tuple[str, list[tuple[str, ...]]]:
    """The displayed unit, and a row per operator: its name, then its time in each column.

    means  (operator, column) → seconds; absent if an operator is not among a column's longest
    """
    shown, texts = figures.column(list(means.values()), unit)
    text_of = dict(zip(means, texts, strict=True))
    longest: dict[str, float] = {}
    for (operator, _), seconds in means.items():
        longest[operator] = max(seconds, longest.get(operator, 0.0))
    ordered = sorted(longest, key=lambda operator: longest[operator], reverse=True)
    return shown, [(name, *(text_of.get((name, column), NONE) for column in columns)) for name in ordered]


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
