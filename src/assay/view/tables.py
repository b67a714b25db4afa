"""The tables of a report as rows of text, independent of the output format."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from assay.analyse.times import Times, mean_times
from assay.records import Comparison, Point, Requirement, Result, Scalar, Scaling, ScalingPoint
from assay.view import figures
from assay.view.blocks import Table, TableBody, TableRow
from assay.view.contents import Contents
from assay.view.figures import NONE
from assay.view.sentences.sentences import REQUIREMENT_SYMBOLS, SYMBOLS, verdict_word, visible
from assay.view.summaries import Summary

T = TypeVar("T")
Labels = Mapping[str, Scalar]
OPERATOR = "operator"  # measurements with this label have a separate table, in operators.py


def tables(contents: Contents) -> tuple[Table, ...]:
    """Every table that these contents fill, in reading order."""
    all_tables = [comparison(group) for group in gathered(contents.comparisons, lambda c: (c.a, c.b))]
    if contents.requirements:
        all_tables.append(requirements(contents.requirements))
    if contents.curves:
        all_tables.append(scaling(contents.curves))
    if times := trial_times(contents.sides):
        all_tables.append(times)
    all_tables.append(summaries([s for s in contents.summaries if OPERATOR not in s.point.labels]))
    return tuple(all_tables)


def comparison(comparisons: Sequence[Comparison]) -> Table:
    """Every metric and point of one pair of sides."""
    a, b = comparisons[0].a, comparisons[0].b
    margin = figures.percent(comparisons[0].margin)
    bodies = []
    for group in gathered(comparisons, lambda c: (c.point.benchmark, c.point.metric)):
        unit, texts = figures.means(group)
        shared = figures.shared_labels([c.point.labels for c in group])
        rows = tuple(
            _comparison_row(c, left, right, shared)
            for c, left, right in zip(group, texts[::2], texts[1::2], strict=True)
        )
        bodies.append(TableBody(_title(group[0].point, unit, shared), rows))
    columns: tuple[str, ...] = ("", a, b, "ratio", "95 % interval", "n", "detectable", "method", "verdict")
    own = _own_doubts(comparisons)
    if any(own):
        doubts_of_rows = iter(own)
        columns = (*columns, "specific doubts")
        bodies = [
            TableBody(
                body.title,
                tuple(TableRow((*row.cells, next(doubts_of_rows)), row.verdict) for row in body.rows),
            )
            for body in bodies
        ]
    return Table(f"{b} compared with {a}, margin ±{margin}", columns, tuple(bodies), frozenset({0, 7, 8, 9}))


def _own_doubts(comparisons: Sequence[Comparison]) -> list[str]:
    """Each row's doubts, in the rows' order, without those that all rows share."""
    ordered = [c for g in gathered(comparisons, lambda c: (c.point.benchmark, c.point.metric)) for c in g]
    codes = [[doubt.code for doubt in c.doubts] for c in ordered]
    return [", ".join(code for code in own if not all(code in each for each in codes)) for own in codes]


def _comparison_row(c: Comparison, left: str, right: str, shared: Labels) -> TableRow:
    shown = visible([c])
    difference = figures.percent(shown[0]) if shown else NONE
    n = f"{c.n[0]} + {c.n[1]}"
    verdict = f"{SYMBOLS[c.verdict]} {verdict_word(c)}"
    ratio = (figures.ratio_value(c.deciding), figures.deciding_interval(c))
    cells = (figures.where(c.point, shared), left, right, *ratio, n, difference)
    return TableRow((*cells, c.method or NONE, verdict), c.verdict)


def requirements(held: Sequence[Requirement]) -> Table:
    """Each absolute requirement, the measurement, and whether it holds."""
    bodies = [
        TableBody(
            _title(group[0].point, "", {}, subject=group[0].expectation.written),
            tuple(map(_requirement_row, group, figures.measured_together([r.estimate for r in group]))),
        )
        for group in gathered(held, lambda r: (r.point.benchmark, r.point.metric, r.expectation.written))
    ]
    return Table(
        "Requirements",
        ("", "measured", "95 % bounds", "n", "verdict"),
        tuple(bodies),
        frozenset({0, 4}),
    )


def _requirement_row(r: Requirement, measured: tuple[str, str, str]) -> TableRow:
    value, interval, n = measured
    place = f"{r.system}, {figures.where(r.point)}"
    return TableRow((place, value, interval, n, f"{REQUIREMENT_SYMBOLS[r.verdict]} {r.verdict}"), r.verdict)


def scaling(curves: Sequence[Scaling]) -> Table:
    """Value, speed-up and efficiency over sizes."""
    bodies = []
    for group in gathered(curves, lambda c: (c.benchmark, c.metric)):
        placed = [(c, p) for c in group for p in c.points]
        halves = [figures.half_width(p.value) for _, p in placed]
        unit, texts = figures.column([p.value.value for _, p in placed], group[0].unit, halves)
        heading = Point(group[0].benchmark, "", group[0].metric, unit, group[0].better, {})
        shared = figures.shared_labels([c.labels for c in group])
        rows = tuple(_scaling_row(c, p, text, shared) for (c, p), text in zip(placed, texts, strict=True))
        bodies.append(TableBody(_title(heading, unit, shared), rows))
    columns = ("", "system", "ranks", "value", "speed-up", "95 % interval", "efficiency", "n")
    return Table("Scaling, relative to the smallest size", columns, tuple(bodies), frozenset({0, 1}))


def _scaling_row(curve: Scaling, point: ScalingPoint, value: str, shared: Labels) -> TableRow:
    speedup, interval = figures.ratio_value(point.speedup), figures.interval(point.speedup)
    share = f"{point.efficiency.value * 100:.0f} %"
    own = figures.labels(figures.own_labels(curve.labels, shared))
    place = ", ".join(filter(None, (own, figures.shape(point.shape))))
    ranks, n = str(point.ranks), str(point.value.n)
    return TableRow((place, curve.system, ranks, value, speedup, interval, share, n))


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
        bodies.append(TableBody(_title(group[0].point, unit, shared), tuple(rows)))
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


def _title(point: Point, unit: str, shared: Labels, subject: str = "") -> str:
    better = "lower is better" if point.better == "lower" else ""
    notes = ", ".join(filter(None, (figures.labels(shared), unit, better)))
    heading = " ".join(filter(None, (point.benchmark, figures.metric(point.metric), subject)))
    return f"{heading} ({notes})" if notes else heading


def trial_times(sides: Mapping[str, Sequence[Result]]) -> Table | None:
    """Where the time of a trial went: each side's mean at every place; None if no run has times."""
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
    if not bodies:
        return None
    caption = (
        "Where the time of a trial went, mean seconds; measurements cover only the time while the ranks ran"
    )
    return Table(caption, ("", "queue", "pull", "start", "run", "collect", "whole", "n"), tuple(bodies))


def _times_row(side: str, t: Times, n: int) -> TableRow:
    parts = (t.queue, t.pull, t.start, t.run, t.collect, t.whole)
    return TableRow((side, *(NONE if part is None else f"{part:.2f}" for part in parts), str(n)))


def gathered(items: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Items grouped by equal keys, in the order of their first occurrence."""
    groups: dict[Hashable, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return list(groups.values())


def operator_tables(summaries: Sequence[Summary], sides: Sequence[str]) -> list[Table]:
    """One table of all profiles, a column per side; empty if nothing was profiled."""
    profiled = [s for s in summaries if OPERATOR in s.point.labels]
    bodies = [
        _operator_body(group, sides) for group in gathered(profiled, lambda s: _operator_place(s.point))
    ]
    caption = (
        f"Operators that take the most time of a step, each by itself (mean); {NONE}: not among the longest"
    )
    return [Table(caption, ("", *sides), tuple(bodies))] if bodies else []


def _operator_body(group: Sequence[Summary], sides: Sequence[str]) -> TableBody:
    means = {(str(s.point.labels[OPERATOR]), s.side): s.estimate.value for s in group}
    unit, rows = by_operator(means, sides, group[0].point.unit)
    title = _operator_place(group[0].point)
    return TableBody(f"{title} ({unit})" if unit else title, tuple(TableRow(row) for row in rows))


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
