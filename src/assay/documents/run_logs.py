"""A run's logs, as the JSON API answers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.records import to_plain

if TYPE_CHECKING:
    from assay.questions.run_logs import RunLogs
    from assay.rundir.log_pages import LogMatches, LogPage


def logs_document(logs: RunLogs) -> dict[str, Any]:
    """Which logs there are."""
    return {"schema": "assay.logs/1", **to_plain(logs)}


def page_document(page: LogPage) -> dict[str, Any]:
    """Lines of a log; `next` is the line after them, null at the end."""
    last = page.lines[-1].number if page.lines else 0
    following = last + 1 if last < page.total else None
    return {"schema": "assay.log/1", **to_plain(page), "next": following}


def matches_document(matches: LogMatches) -> dict[str, Any]:
    """Lines that match; `next` continues the search, null at the end."""
    lines = [to_plain(line) for line in matches.lines]
    return {"schema": "assay.log-search/1", "lines": lines, "next": matches.next_line}
