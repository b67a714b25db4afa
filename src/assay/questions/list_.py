"""Runs and imported sets, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.errors import InputError, UnreadableError
from assay.questions.evidence import catch_up, ready, runs_directory, warn_of_lost_files

if TYPE_CHECKING:
    from os import PathLike
    from pathlib import Path

    from assay.errors import Problem
    from assay.store import Filter


@dataclass(frozen=True)
class RunListing:
    """The result of `list_`.

    rows        newest first, as the index has them
    changed     runs that changed since the index was made, if it can't be written: shown as they were
    unreadable  files that the machine can't read now: their runs are not in the rows
    """

    rows: list[dict[str, Any]]
    changed: list[str]
    unreadable: tuple[Problem, ...] = ()

    def _repr_html_(self) -> str:
        from assay.view import html
        from assay.view.blocks import Table, TableBody, TableRow

        columns: tuple[str, ...] = ("reference", "finished", "failed", "open", "benchmarks")
        if self.rows and "reference" not in self.rows[0]:
            columns = ("id", "state", "benchmark", "system", "cause")
        rows = tuple(TableRow(tuple(_as_text(row.get(name)) for name in columns)) for row in self.rows)
        return html.table(Table("Runs", columns, (TableBody("", rows),), frozenset()))


def _as_text(value: Any) -> str:
    if value is None:
        return "–"
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def list_(
    only: Filter | None = None,
    *,
    limit: int = 40,
    trials: bool = False,
    runs: str | PathLike[str] | None = None,
) -> RunListing:
    """Sessions by system, like `assay list`; fast with 100,000 runs, because only changes are read.

    only    a filter; None: all
    limit   maximum number of rows
    trials  one row per run instead of one per session and system

    Raises InputError if there are no runs, or if the limit is below 1.
    """
    if limit < 1:
        raise InputError(f"limit: found {limit}; expected 1 or more")
    from assay.run.index import answered
    from assay.store import Filter

    directory = runs_directory(runs)
    ready(directory)
    chosen = only or Filter()
    listing = answered(directory, lambda: _listing(directory, chosen, limit, trials=trials))
    warn_of_lost_files(directory, lambda session: chosen.suite in (None, session.partition("/")[0]))
    return listing


def _listing(runs_dir: Path, only: Filter, limit: int, *, trials: bool) -> RunListing:
    from assay.run.index import outdated
    from assay.store import indexed_sessions, listed_runs, listed_sets

    listed = listed_runs if trials else listed_sets
    rows = listed(runs_dir, only, limit)
    shown = {f"{row['suite']}/{row['session']}" for row in rows}
    indexed = indexed_sessions(runs_dir)
    changed = outdated(runs_dir, lambda session: session in shown or session not in indexed)
    try:
        if catch_up(runs_dir, changed):
            return RunListing(listed(runs_dir, only, limit), [])
    except UnreadableError as error:  # the others are listed
        return RunListing(listed(runs_dir, only, limit), [], error.problems)
    return RunListing(rows, changed)
