"""Results for a notebook: a sentence, the report's tables, the doubts; no script, no style."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from assay.analyse.scaling.study import Study
from assay.records import Doubt
from assay.report import figures
from assay.report.sentences import scaling as scaling_words
from assay.report.tables import scaling
from assay.view import html
from assay.view.blocks import Lead, Table, TableBody, TableRow

if TYPE_CHECKING:
    pass


def studies(studies: Sequence[Study]) -> str:
    """Value, speed-up and efficiency over sizes, what follows from each curve, then the doubts."""
    parts = [html.table(scaling([study.curve for study in studies]))]
    for study in studies:
        items = (
            f"<li>{escape(name)}: {escape(text)}</li>" for name, text in scaling_words.list_conclusions(study)
        )
        parts += [html.fragment([Lead(scaling_words.heading(study))]), f"<ul>{''.join(items)}</ul>"]
    of_points = (doubt for study in studies for point in study.curve.points for doubt in point.doubts)
    return "".join(parts) + _doubts((*of_points, *(doubt for study in studies for doubt in study.doubts)))


def _doubts(doubts: Iterable[Doubt]) -> str:
    """Each doubt once by its code, with the first evidence."""
    by_code: dict[str, Doubt] = {}
    for doubt in doubts:
        by_code.setdefault(doubt.code, doubt)
    if not by_code:
        return ""
    items = (
        f"<li><code>{escape(d.code)}</code>: {escape(d.evidence)}. {escape(d.remedy)}.</li>"
        for d in by_code.values()
    )
    return f"<p>Doubts:</p><ul>{''.join(items)}</ul>"


def rows(caption: str, records: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Rows of the index, with the columns that people read."""
    body = tuple(TableRow(tuple(_cell(row.get(name)) for name in columns)) for row in records)
    return html.table(Table(caption, tuple(columns), (TableBody("", body),), frozenset()))


def points(numbers: Sequence[tuple[str, str, str, str, str]], doubts: Iterable[Doubt]) -> str:
    """System, benchmark, place, metric and value with its interval; then the doubts."""
    columns = ("system", "benchmark", "on", "metric", "value")
    table = Table("Numbers", columns, (TableBody("", tuple(map(TableRow, numbers))),), frozenset())
    return html.table(table) + _doubts(doubts)


def _cell(value: Any) -> str:
    if value is None:
        return figures.NONE
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
