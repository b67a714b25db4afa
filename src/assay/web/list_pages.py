"""Home, and the list of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from litestar import Response, get

from assay.questions.attention import attention
from assay.questions.browsing import filters, newest_sessions
from assay.web.queries import ListQuestion, page_links
from assay.web.rendering import page, with_query
from assay.web.site import Site

NEWEST = 15  # sessions on the home page
KNOWN_WITHIN_S = 0.15  # or else the page comes without what needs attention, which is loaded after it
SET_HEADS = (
    ("reference", "reference"),
    ("finished", "ok"),
    ("failed", "failed"),
    ("open", "open"),
    ("created_at", "when (UTC)"),
)
RUN_HEADS = (
    ("reference", "run"),
    ("state", "state"),
    ("benchmark", "benchmark"),
    ("duration_s", "took"),
    ("created_at", "when (UTC)"),
)


@get("/", sync_to_thread=True, include_in_schema=False)
def home(site: Site) -> Response[str]:
    """What needs attention, and the newest sessions."""
    if site.is_empty:
        return _no_runs(site, "/")
    site.refresh()
    newest = newest_sessions(NEWEST, runs=site.runs)
    return page(
        "home.html",
        here="/",
        title="What needs attention",
        newest=newest,
        attention=site.attention(KNOWN_WITHIN_S),
        is_open=any(session.open for session in newest),
        trouble=site.trouble,
    )


@get("/attention", sync_to_thread=True, include_in_schema=False)
def attention_part(site: Site) -> Response[str]:
    """The part of the home page that takes longer, also as a page without a frame."""
    return page("attention.html", attention=attention(runs=site.runs))


@get("/runs", sync_to_thread=True, include_in_schema=False)
def runs(site: Site, question: ListQuestion) -> Response[str]:
    """Sets or runs, filtered and sorted; every choice is in the address."""
    if site.is_empty:
        return _no_runs(site, "/runs")
    site.refresh()
    criteria, order = question.criteria, question.order
    rows = question.rows(site.runs)
    known = filters(runs=site.runs)
    return page(
        "runs.html",
        here="/runs",
        title="Runs",
        found=rows,
        trials=question.trials,
        asked=criteria,
        narrowed=any(value for name, value in criteria.items() if name not in ("q", "limit")),
        fields=[(name, known[name], criteria[name] or "") for name in known],
        heads=[
            _head(column, heading, criteria, order.column, descending=order.descending)
            for column, heading in _heads(trials=question.trials)
        ],
        pages=page_links(rows.number, rows.pages, lambda number: question.page_address("/runs", number)),
        trouble=site.trouble,
    )


def _no_runs(site: Site, here: str) -> Response[str]:
    return page("no_runs.html", here=here, title="No runs yet", runs=site.runs.name)


def _heads(*, trials: bool) -> tuple[tuple[str, str], ...]:
    return RUN_HEADS if trials else SET_HEADS


def _head(
    column: str, heading: str, criteria: Mapping[str, Any], sorted_by: str, *, descending: bool
) -> dict[str, str]:
    """A column's heading: how it is sorted now, and the address that sorts by it, or turns the order."""
    is_sorted = column == sorted_by
    turned = f"{'' if is_sorted and descending else '-'}{column}"
    state = ("descending" if descending else "ascending") if is_sorted else ""
    return {
        "words": heading,
        "sorted": state,
        "url": with_query("/runs", **criteria, sort=turned),
        "column": column,
    }
