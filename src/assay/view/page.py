"""A self-contained HTML page about runs and their sides, ready to send to someone.

It has the doubts by code, conclusions from the scaling curves, and stalls, gaps and events of runs as tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from assay.analyse.doubts import KINDS, rank
from assay.analyse.scaling.study import Study
from assay.records import SEVERITIES, Doubt
from assay.units import human_seconds
from assay.view import costs
from assay.view.answers import answers
from assay.view.blocks import Table, TableBody, TableRow
from assay.view.charts import CHARTS, charts
from assay.view.contents import Contents, ReportedFact
from assay.view.document import document, numbered
from assay.view.sentences import exchange as exchange_words
from assay.view.sentences import ranking as ranking_words
from assay.view.sentences import scaling as scaling_words
from assay.view.sentences import split
from assay.view.sentences.exchange import transport_tables
from assay.view.sentences.recommendation import about, lead, recommendation, together
from assay.view.summaries import RunTime
from assay.view.tables import gathered, operator_tables, tables

TEMPLATE = "page.html"


def html(contents: Contents) -> str:
    """The complete page."""
    return document(TEMPLATE, contents.hide, **values(contents))


def values(contents: Contents) -> dict[str, Any]:
    """What the template shows."""
    return {
        "kicker": "Assay report",
        "title": contents.title,
        "c": contents,
        "lead": lead(contents),
        "recommendation": recommendation(contents),
        "costs": costs.sentence(contents),
        "left_out": contents.left_out,
        "about": about(contents),
        "together": together(contents),
        "sections": _sections(contents),
        "answers": answers(contents),
        **doubt_values(contents.doubts),
        "charts": _charts(contents),
        "rankings": [(ranking_words.headline(r), ranking_words.table(r)) for r in contents.rankings],
        "ranking_note": ranking_words.how_to_read(contents.rankings),
        "tables": (
            *tables(contents),
            *costs.tables(contents),
            *operator_tables(contents.summaries, tuple(contents.sides)),
            *split.tables(contents.splits),
            *scaling_tables(contents.studies),
            *exchange_words.tables(contents.exchanges),
            *transport_tables(contents.sides),
            *run_time_tables(contents.run_times),
        ),
        "facts": _by_group(contents.facts),
        "differing": _by_group([fact for fact in contents.facts if fact.matters]),
    }


def _sections(contents: Contents) -> list[tuple[str, str]]:
    present = {
        "verdicts": ("Verdicts", True),
        "doubts": ("Doubts", bool(contents.doubts)),
        "charts": ("Charts", not contents.rankings),
        "numbers": ("Numbers", True),
        "failures": ("Failures", bool(contents.failures)),
        "provenance": ("Provenance", bool(contents.facts)),
        "logs": ("Logs", bool(contents.logs)),
        "reproduce": ("How to reproduce", bool(contents.recipes)),
    }
    return [(name, title) for name, (title, there) in present.items() if there]


def _by_group(facts: Sequence[ReportedFact]) -> list[tuple[str, list[ReportedFact]]]:
    return [(group[0].group, group) for group in gathered(facts, lambda fact: fact.group)]


def _charts(contents: Contents) -> list[tuple[str, list[dict[str, Any]]]]:
    """Charts of one kind under their title."""
    by_kind = gathered(numbered(charts(contents), contents.hide), lambda chart: chart["kind"])
    return [(CHARTS[group[0]["kind"]].title, group) for group in by_kind]


MOST_EVIDENCE = 1  # items shown per doubt; the rest is collapsed
MOST_PLACES = 2  # named per item of evidence; more are only counted


DoubtPlaces = Sequence[tuple[Doubt, Sequence[str]]]


def doubt_values(doubted: DoubtPlaces) -> dict[str, Any]:
    """What `doubts_section` of parts.html shows: doubts with the places that they concern."""
    return {"doubts": _doubts_by_code(doubted), "severities": SEVERITIES}


def _doubts_by_code(doubted: DoubtPlaces) -> list[dict[str, Any]]:
    """Each code, the gravest first, with the most frequent evidence first and its places."""
    groups = []
    by_code = gathered(doubted, lambda pair: pair[0].code)
    for group in sorted(by_code, key=lambda group: rank(group[0][0].code)):
        ordered = sorted(group, key=lambda pair: -len(pair[1]))
        entries = [
            {"evidence": doubt.evidence, "reach": _reach(places), "many": len(places) > MOST_PLACES}
            for doubt, places in ordered
        ]
        groups.append(
            {
                "code": ordered[0][0].code,
                "severity": KINDS[ordered[0][0].code].severity,
                "remedy": ordered[0][0].remedy,
                "first": entries[:MOST_EVIDENCE],
                "more": entries[MOST_EVIDENCE:],
            }
        )
    return groups


def _reach(places: Sequence[str]) -> str:
    return "; ".join(places) if len(places) <= MOST_PLACES else f"{len(places)} results"


def scaling_tables(studies: Sequence[Study]) -> tuple[Table, ...]:
    """One table of text: each curve in short, then its kind, limit, costs, predictions and laws."""
    if not studies:
        return ()
    bodies = tuple(TableBody(scaling_words.heading(study), _scaling_rows(study)) for study in studies)
    return (Table("What follows from the scaling", ("", "conclusion"), bodies, frozenset({0, 1})),)


def _scaling_rows(study: Study) -> tuple[TableRow, ...]:
    in_short = ("in short", scaling_words.lead(study))
    return tuple(TableRow(cells) for cells in (in_short, *scaling_words.list_conclusions(study)))


MOST_ROWS = 40  # of one table
UNEXPLAINED = "unknown"


def run_time_tables(times: Sequence[RunTime]) -> tuple[Table, ...]:
    """The stalls with their likely causes, and what is missing or happened in the telemetry."""
    sections = (
        ("Stalls", ("system", "run", "at", "lost", "likely cause", "evidence"), [*_stall_rows(times)]),
        ("Events and gaps in the telemetry", ("system", "run", "at", "what"), [*_event_rows(times)]),
    )
    return tuple(
        Table(
            _run_time_title(title, rows),
            columns,
            (TableBody("", tuple(rows[:MOST_ROWS])),),
            frozenset(range(6)),
        )
        for title, columns, rows in sections
        if rows
    )


def _run_time_title(title: str, rows: Sequence[TableRow]) -> str:
    return title if len(rows) <= MOST_ROWS else f"{title}, the first {MOST_ROWS} of {len(rows)}"


def _stall_rows(times: Sequence[RunTime]) -> Iterator[TableRow]:
    for time in times:
        for stall in time.stalls:
            yield TableRow(
                (
                    time.side,
                    time.trial,
                    human_seconds(stall.begin_at - time.begin_at),
                    human_seconds(stall.lost_s),
                    stall.cause or UNEXPLAINED,
                    stall.evidence or "nothing in the telemetry shows a cause",
                )
            )


def _event_rows(times: Sequence[RunTime]) -> Iterator[TableRow]:
    for time in times:
        if time.problem:
            yield TableRow((time.side, time.trial, "", time.problem))
        if time.telemetry is None:
            continue
        for moment, node, event in time.telemetry.events:
            place = f"node {node}" if event.gpu is None else f"node {node}, GPU {event.gpu}"
            yield TableRow(
                (time.side, time.trial, human_seconds(moment - time.begin_at), f"{place}: {event.words}")
            )
        for gap in time.telemetry.gaps:
            place = f"node {gap.node}" if gap.gpu is None else f"node {gap.node}, GPU {gap.gpu}"
            missing = human_seconds(gap.end_at - gap.begin_at)
            begin = human_seconds(gap.begin_at - time.begin_at)
            yield TableRow((time.side, time.trial, begin, f"{place}: no sample for {missing}"))
