"""Results for a notebook: a sentence, the report's tables, the doubts; no script, no style."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from assay.analyse.comparison.sides import OpenQuestion
from assay.analyse.mlperf.convergence import Convergence
from assay.analyse.mlperf.decompose import Decomposition
from assay.analyse.mlperf.rules import NOT_VERIFIED
from assay.analyse.mlperf.score import ScoredSet
from assay.analyse.scaling.study import Study
from assay.records import Comparison, Doubt
from assay.report import figures
from assay.report.sentences import scaling as scaling_words
from assay.report.sentences import split
from assay.report.sentences.recommendation import advised
from assay.report.sentences.sentences import headline, questions
from assay.report.tables import Table, TableBody, TableRow, comparison, gathered, scaling

if TYPE_CHECKING:
    from assay.analyse.comparison.gate import GateVerdict

_MINUTES = ".3f"


def comparisons(
    found: Sequence[Comparison],
    splits: Sequence[Decomposition] = (),
    convergences: Sequence[Convergence] = (),
    open_questions: Sequence[OpenQuestion] = (),
) -> str:
    """What to do; each pair of sides as a sentence and a table; the doubts; then times to train, split."""
    parts = []
    if found or open_questions:
        first = advised(found, open_questions=open_questions)
        parts.append(lead_html(f"{first.action}. {first.sentence}"))
    for of_pair in gathered(found, lambda c: (c.a, c.b)):
        parts += [lead_html(headline(questions(of_pair))), table_html(comparison(of_pair))]
    parts.append(_doubts(doubt for doubt, _ in figures.distinct_doubts(found)))
    for d in splits:
        parts += [
            lead_html(split.sentence(d)),
            *map(table_html, split.tables([d])),
            f"<p>{escape(d.likeness.claim)}</p>",
        ]
    parts += [f"<p>{escape(split.told(one))}</p>" for one in convergences]
    return "".join(parts)


def studies(found: Sequence[Study]) -> str:
    """Value, speed-up and efficiency over sizes, what follows from each curve, then the doubts."""
    parts = [table_html(scaling([study.curve for study in found]))]
    for study in found:
        items = (f"<li>{escape(name)}: {escape(text)}</li>" for name, text in scaling_words.words(study))
        parts += [lead_html(scaling_words.heading(study)), f"<ul>{''.join(items)}</ul>"]
    of_points = (doubt for study in found for point in study.curve.points for doubt in point.doubts)
    return "".join(parts) + _doubts((*of_points, *(doubt for study in found for doubt in study.doubts)))


def lead_html(sentence: str) -> str:
    """The sentence that a result begins with."""
    return f"<p><strong>{escape(sentence)}</strong></p>"


def scores(found: Sequence[ScoredSet]) -> str:
    """One row per set of training logs, then MLCommons' label and the doubts."""
    columns = ("", "benchmark", "round", "score, min", "scaled, min", "mean, min", "std, min", "runs")
    table = Table("Scores", columns, (TableBody("", tuple(map(_score_row, found))),), frozenset({0, 1, 2}))
    doubts = _doubts(doubt for scored in found for doubt in scored.doubts)
    return f"{table_html(table)}<p>{NOT_VERIFIED}</p>{doubts}"


def _score_row(scored: ScoredSet) -> TableRow:
    score = scored.score
    minutes = (score.minutes, score.scaled, score.mean, score.std)
    written = (figures.NONE if value is None else format(value, _MINUTES) for value in minutes)
    converged = f"{score.converged} of {score.runs}"
    words = (scored.name, scored.benchmark or figures.NONE, scored.round or figures.NONE)
    return TableRow((*words, *written, converged))


def table_html(table: Table) -> str:
    """A table with its caption."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    rows = []
    for body in table.bodies:
        if body.title:
            rows.append(f'<tr><th colspan="{len(table.columns)}">{escape(body.title)}</th></tr>')
        rows += [_row(row) for row in body.rows]
    caption = f"<caption>{escape(table.caption)}</caption>"
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _row(row: TableRow) -> str:
    first, *rest = map(escape, row.cells)
    return f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'


def _doubts(found: Iterable[Doubt]) -> str:
    """Each doubt once by its code, with the first evidence."""
    by_code: dict[str, Doubt] = {}
    for doubt in found:
        by_code.setdefault(doubt.code, doubt)
    if not by_code:
        return ""
    items = (
        f"<li><code>{escape(d.code)}</code>: {escape(d.evidence)}. {escape(d.remedy)}.</li>"
        for d in by_code.values()
    )
    return f"<p>Doubts:</p><ul>{''.join(items)}</ul>"


def gate(answer: str, judged: Sequence[GateVerdict], missing: Sequence[tuple[str, str]]) -> str:
    """The answer, then each comparison with its own, and what one side lacks."""
    columns = ("benchmark", "metric", "on", "ratio", "answer", "reason")
    rows = [
        TableRow(
            (
                one.comparison.point.benchmark,
                figures.metric(one.comparison.point.metric),
                figures.where(one.comparison.point),
                figures.compared(one.comparison),
                one.answer,
                one.reason,
            )
        )
        for one in judged
    ]
    table = Table("Compared with the baseline", columns, (TableBody("", tuple(rows)),), frozenset())
    lacking = "".join(f"<li>{escape(place)}: {escape(why)}</li>" for place, why in missing)
    doubts = _doubts(doubt for one in judged for doubt in one.comparison.doubts)
    return f"{lead_html(answer)}{table_html(table)}<ul>{lacking}</ul>{doubts}"


def rows(caption: str, found: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> str:
    """Rows of the index, with the columns that people read."""
    body = tuple(TableRow(tuple(_cell(row.get(name)) for name in columns)) for row in found)
    return table_html(Table(caption, tuple(columns), (TableBody("", body),), frozenset()))


def points(found: Sequence[tuple[str, str, str, str, str]], doubts: Iterable[Doubt]) -> str:
    """System, benchmark, place, metric and value with its interval; then the doubts."""
    columns = ("system", "benchmark", "on", "metric", "value")
    table = Table("Numbers", columns, (TableBody("", tuple(map(TableRow, found))),), frozenset())
    return table_html(table) + _doubts(doubts)


def _cell(value: Any) -> str:
    if value is None:
        return figures.NONE
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
