"""The HTML page of a metric over sessions: its steps, how certain they are, and what else changed there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.analyse.history import History
from assay.analyse.statistics.level_shifts import LevelShift
from assay.report import figures
from assay.report.charts.history import history as chart
from assay.report.page.document import document, numbered
from assay.report.sentences import history
from assay.report.sentences.history import AnnotatedHistory, FactChange
from assay.view.blocks import Table, TableBody, TableRow

TEMPLATE = "history.html"
MOST_CHARTS = 24  # of histories, those with the worst steps first; the table lists every one
_SYMBOLS = {True: "▲", False: "▼", None: "◆"}
_KINDS = {True: "faster", False: "slower", None: "undecided"}  # colors in the style sheet


def html(histories: Sequence[AnnotatedHistory], command: str) -> str:
    """The complete page.

    histories  of one metric, at least one
    command    as typed, to make the page again
    """
    shown = values(histories)
    shown["sections"].append(("reproduce", "How to reproduce"))
    return document(TEMPLATE, **shown, typed=command)


def values(histories: Sequence[AnnotatedHistory]) -> dict[str, Any]:
    """What the template shows."""
    ordered = sorted(histories, key=_gravity)
    drawn = ordered[:MOST_CHARTS]
    charts = numbered(chart(annotated.history) for annotated in drawn)
    return {
        "kicker": "Assay history",
        "title": figures.metric(histories[0].history.point.metric),
        "lead": history.lead(ordered),
        "about": _about(ordered),
        "sections": [("histories", "Histories"), ("numbers", "Numbers")],
        "false_alarms": history.false_alarms(ordered),
        "charts": charts,
        "histories": [_section(annotated, figure) for annotated, figure in zip(drawn, charts, strict=True)],
        "left_out": len(ordered) - len(drawn),
        "overview": _overview(ordered),
    }


def _gravity(annotated: AnnotatedHistory) -> tuple[int, float]:
    """Histories with the worst steps first; those without steps keep their order at the end."""
    return min(map(history.gravity, annotated.history.steps), default=(3, 0.0))


def _about(histories: Sequence[AnnotatedHistory]) -> list[tuple[str, str]]:
    entries = [entry for annotated in histories for entry in annotated.history.entries]
    dates = [entry.at for entry in entries if entry.dated]
    span = f"{history.when(min(dates))} to {history.when(max(dates))} UTC" if dates else "not known"
    sessions = {
        (annotated.history.suite, entry.session)
        for annotated in histories
        for entry in annotated.history.entries
    }
    systems = dict.fromkeys(annotated.history.system for annotated in histories)
    return [
        ("Suite", ", ".join(dict.fromkeys(annotated.history.suite for annotated in histories))),
        ("Systems" if len(systems) > 1 else "System", ", ".join(systems)),
        ("Sessions", str(len(sessions))),
        ("When", span),
    ]


def _section(annotated: AnnotatedHistory, figure: dict[str, Any]) -> dict[str, Any]:
    past = annotated.history
    return {
        "title": f"{past.suite} · {past.system}",
        "notes": [
            _sentence(note)
            for note in (
                *history.swept(annotated),
                history.order_unknown(past),
                history.spread(past),
                history.dropped(past),
            )
            if note
        ],
        "chart": figure,
        "steps": [
            _step(past, step, changes) for step, changes in zip(past.steps, annotated.changes, strict=True)
        ],
        "sessions": _sessions(past),
    }


def _step(past: History, step: LevelShift, changes: Sequence[FactChange]) -> dict[str, Any]:
    old, new = history.around(past, step)
    return {
        "kind": _KINDS[step.better],
        "symbol": _SYMBOLS[step.better],
        "verdict": history.size_alone(step),
        "sentence": f"It {history.changed_by(step)}, {history.locate_step(past, step)}.",
        "began": _sentence(history.began(past, step)),
        "between": f"{old.session} to {new.session}",
        "changes": changes,
    }


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _sessions(past: History) -> Table:
    unit, texts = figures.column([entry.value for entry in past.entries], past.point.unit)
    rows = tuple(
        TableRow((entry.session, history.describe_date(entry), text, str(len(entry.results))))
        for entry, text in zip(past.entries, texts, strict=True)
    )
    value = ", ".join(filter(None, (figures.metric(past.point.metric), unit)))
    columns = ("", "first run, UTC", value, "runs")
    return Table(
        f"{history.place(past)}, {past.system}: its sessions",
        columns,
        (TableBody("", rows),),
        frozenset({0, 1}),
    )


def _overview(histories: Sequence[AnnotatedHistory]) -> Table:
    columns = ("", "suite", "system", "sessions", "steps", "newest level", "between sessions")
    rows = tuple(_overview_row(annotated.history) for annotated in histories)
    return Table("Every history", columns, (TableBody("", rows),), frozenset({0, 1, 2}))


def _overview_row(past: History) -> TableRow:
    level = past.levels[-1][0] if past.levels else past.entries[-1].value
    unit, (text,) = figures.column([level], past.point.unit)
    spread = figures.NONE if past.spread is None else figures.percent(past.spread)
    steps = ", ".join(history.size_alone(step) for step in past.steps) or figures.NONE
    cells = (history.place(past), past.suite, past.system, str(len(past.entries)), steps)
    return TableRow((*cells, f"{text} {unit}".strip(), spread))
