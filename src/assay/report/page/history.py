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
    charts = numbered(chart(one.history) for one in drawn)
    return {
        "kicker": "Assay history",
        "title": figures.metric(histories[0].history.point.metric),
        "lead": history.lead(ordered),
        "about": _about(ordered),
        "sections": [("histories", "Histories"), ("numbers", "Numbers")],
        "false_alarms": history.false_alarms(ordered),
        "charts": charts,
        "histories": [_section(one, figure) for one, figure in zip(drawn, charts, strict=True)],
        "left_out": len(ordered) - len(drawn),
        "overview": _overview(ordered),
    }


def _gravity(one: AnnotatedHistory) -> tuple[int, float]:
    """Histories with the worst steps first; those without steps keep their order at the end."""
    return min(map(history.gravity, one.history.steps), default=(3, 0.0))


def _about(histories: Sequence[AnnotatedHistory]) -> list[tuple[str, str]]:
    entries = [entry for one in histories for entry in one.history.entries]
    dates = [entry.at for entry in entries if entry.dated]
    span = f"{history.when(min(dates))} to {history.when(max(dates))} UTC" if dates else "not known"
    sessions = {(one.history.suite, entry.session) for one in histories for entry in one.history.entries}
    systems = dict.fromkeys(one.history.system for one in histories)
    return [
        ("Suite", ", ".join(dict.fromkeys(one.history.suite for one in histories))),
        ("Systems" if len(systems) > 1 else "System", ", ".join(systems)),
        ("Sessions", str(len(sessions))),
        ("When", span),
    ]


def _section(one: AnnotatedHistory, figure: dict[str, Any]) -> dict[str, Any]:
    told = one.history
    return {
        "title": f"{told.suite} · {told.system}",
        "notes": [
            _sentence(note)
            for note in (
                *history.swept(one),
                history.order_unknown(told),
                history.spread(told),
                history.dropped(told),
            )
            if note
        ],
        "chart": figure,
        "steps": [_step(told, step, changes) for step, changes in zip(told.steps, one.changes, strict=True)],
        "sessions": _sessions(told),
    }


def _step(told: History, step: LevelShift, changes: Sequence[FactChange]) -> dict[str, Any]:
    old, new = history.around(told, step)
    return {
        "kind": _KINDS[step.better],
        "symbol": _SYMBOLS[step.better],
        "verdict": history.size_alone(step),
        "sentence": f"It {history.changed_by(step)}, {history.at(told, step)}.",
        "began": _sentence(history.began(told, step)),
        "between": f"{old.session} to {new.session}",
        "changes": changes,
    }


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}." if words else ""


def _sessions(told: History) -> Table:
    unit, texts = figures.column([entry.value for entry in told.entries], told.point.unit)
    rows = tuple(
        TableRow((entry.session, history.made(entry), text, str(len(entry.results))))
        for entry, text in zip(told.entries, texts, strict=True)
    )
    value = ", ".join(filter(None, (figures.metric(told.point.metric), unit)))
    columns = ("", "first run, UTC", value, "runs")
    return Table(
        f"{history.place(told)}, {told.system}: its sessions",
        columns,
        (TableBody("", rows),),
        frozenset({0, 1}),
    )


def _overview(histories: Sequence[AnnotatedHistory]) -> Table:
    columns = ("", "suite", "system", "sessions", "steps", "newest level", "between sessions")
    rows = tuple(_overview_row(one.history) for one in histories)
    return Table("Every history", columns, (TableBody("", rows),), frozenset({0, 1, 2}))


def _overview_row(told: History) -> TableRow:
    level = told.levels[-1][0] if told.levels else told.entries[-1].value
    unit, (text,) = figures.column([level], told.point.unit)
    spread = figures.NONE if told.spread is None else figures.percent(told.spread)
    steps = ", ".join(history.size_alone(step) for step in told.steps) or figures.NONE
    cells = (history.place(told), told.suite, told.system, str(len(told.entries)), steps)
    return TableRow((*cells, f"{text} {unit}".strip(), spread))
