"""Where a step's time goes by operator, from a profile; the longest first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.records import Point
from assay.report import figures
from assay.report.contents.summary import Summary
from assay.report.figures import NONE
from assay.report.tables import OPERATOR, gathered
from assay.view.blocks import Table, TableBody, TableRow


def tables(summaries: Sequence[Summary], sides: Sequence[str]) -> list[Table]:
    """One table of all profiles, a column per side; empty if nothing was profiled."""
    profiled = [s for s in summaries if OPERATOR in s.point.labels]
    bodies = [_body(group, sides) for group in gathered(profiled, lambda s: _place(s.point))]
    caption = (
        f"Operators that take the most time of a step, each by itself (mean); {NONE}: not among the longest"
    )
    return [Table(caption, ("", *sides), tuple(bodies))] if bodies else []


def _body(group: Sequence[Summary], sides: Sequence[str]) -> TableBody:
    means = {(str(s.point.labels[OPERATOR]), s.side): s.estimate.value for s in group}
    unit, rows = by_operator(means, sides, group[0].point.unit)
    title = _place(group[0].point)
    return TableBody(f"{title} ({unit})" if unit else title, tuple(TableRow(row) for row in rows))


def _place(point: Point) -> str:
    return ", ".join(filter(None, (f"{point.benchmark} on {figures.shape(point.shape)}", setting(point))))


def setting(point: Point) -> str:
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
