"""A self-contained HTML page about runs and their sides, ready to send to someone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.report.charts import CHARTS, charts
from assay.report.contents import costs
from assay.report.contents.answers import answers
from assay.report.contents.contents import Contents, ReportedFact
from assay.report.page import doubts
from assay.report.page import scaling as scaling_section
from assay.report.page.document import document, numbered
from assay.report.sentences import exchange as exchange_words
from assay.report.sentences import ranking as ranking_words
from assay.report.sentences import run_times as run_time_words
from assay.report.sentences import split
from assay.report.sentences import transports as transport_words
from assay.report.sentences.lead import about, lead, together
from assay.report.sentences.recommendation import recommendation
from assay.report.tables import gathered, tables
from assay.report.terminal import operators

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
        **doubts.values(contents.doubts),
        "charts": _charts(contents),
        "rankings": [(ranking_words.headline(r), ranking_words.table(r)) for r in contents.rankings],
        "ranking_note": ranking_words.how_to_read(contents.rankings),
        "tables": (
            *tables(contents),
            *costs.tables(contents),
            *operators.tables(contents.summaries, tuple(contents.sides)),
            *split.tables(contents.splits),
            *scaling_section.tables(contents.studies),
            *exchange_words.tables(contents.exchanges),
            *transport_words.tables(contents.sides),
            *run_time_words.tables(contents.run_times),
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
