"""Runs and imported sets in pages: filtered, sorted and counted by the index."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.questions.evidence import ready, runs_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from pathlib import Path

    from assay.store import Filter, SessionCounts, SortOrder

MOST_ROWS = 1000  # of a page
_MAKING_S = 60.0  # that an index may take to be made, and what is new meanwhile may be missing in it
RUN_COLUMNS = ("created_at", "reference", "state", "duration_s", "benchmark")
SET_COLUMNS = ("created_at", "reference", "finished", "failed", "open")


@dataclass(frozen=True)
class RowPage:
    """The result of `browse`.

    rows    as the index has them
    total   rows of all pages
    number  of this page, from 1
    pages   at least 1
    """

    rows: Sequence[Mapping[str, Any]]
    total: int
    number: int
    pages: int


def browse(
    only: Filter | None = None,
    *,
    order: SortOrder | None = None,
    number: int = 1,
    limit: int = 50,
    trials: bool = False,
    runs: str | PathLike[str] | None = None,
) -> RowPage:
    """One page of sets, or of runs, as the index has them: nothing else is read, so 100,000 runs are fast.

    only    a filter; None: all
    order   by one of SET_COLUMNS, or of RUN_COLUMNS for trials; None: the newest first
    number  of the page, from 1; a later one than the last is the last
    limit   rows of a page
    trials  one row per run instead of one per session and system
    runs    directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if there are no runs, or for a limit or a column that does not exist.
    """
    from assay import store
    from assay.run.index import answered

    columns = RUN_COLUMNS if trials else SET_COLUMNS
    chosen, by = only or store.Filter(), order or store.SortOrder()
    if not 1 <= limit <= MOST_ROWS:
        raise InputError(f"limit: found {limit}; expected 1 to {MOST_ROWS}")
    if by.column not in columns:
        raise InputError(f"sort: found {by.column!r}; expected {', '.join(columns)}")
    directory = runs_directory(runs)
    ready(directory)
    listed = store.listed_runs if trials else store.listed_sets

    def question() -> RowPage:
        total = store.counted(directory, chosen, sets=not trials)
        pages = max(1, -(-total // limit))
        page = min(max(1, number), pages)
        return RowPage(listed(directory, chosen, limit, by, (page - 1) * limit), total, page, pages)

    return answered(directory, question)


def has_runs(*, runs: str | PathLike[str] | None = None) -> bool:
    """Whether the directory has a session, or an index: if not, other questions raise InputError.

    runs  directory of the runs; None means $ASSAY_RUNS, or else `runs` here
    """
    from assay import store
    from assay.rundir.session import sessions

    directory = runs_directory(runs)
    return store.index_path(directory).exists() or next(sessions(directory), None) is not None


def newest_sessions(
    limit: int,
    *,
    one_per_suite: bool = False,
    until: float = math.inf,
    runs: str | PathLike[str] | None = None,
) -> Sequence[SessionCounts]:
    """The newest sessions, or each suite's newest, as the index has them; the newest first.

    until  only those whose newest run is of this time or before, seconds since the epoch

    Raises InputError if there are no runs.
    """
    from assay import store
    from assay.run.index import answered

    directory = runs_directory(runs)
    ready(directory)
    return answered(
        directory, lambda: store.newest_sessions(directory, limit, one_per_suite=one_per_suite, until=until)
    )


def filters(*, runs: str | PathLike[str] | None = None) -> Mapping[str, Sequence[str]]:
    """What `browse` can choose from: names of suites, systems, workloads, benchmarks and states, sorted.

    Raises InputError if there are no runs.
    """
    from assay import store
    from assay.run.index import answered

    directory = runs_directory(runs)
    ready(directory)
    return answered(directory, lambda: store.chosen_from(directory))


def metric_names(*, runs: str | PathLike[str] | None = None) -> Sequence[str]:
    """Every metric that a run reports, sorted: what `history` can be asked about.

    Raises InputError if there are no runs.
    """
    from assay import store
    from assay.run.index import answered

    directory = runs_directory(runs)
    ready(directory)
    return answered(directory, lambda: store.metric_names(directory))


def refresh(*, whole: bool = True, runs: str | PathLike[str] | None = None) -> None:
    """Take what changed since the index was made into it, and log what is wrong with it.

    whole  look at every run; else only at sessions that are new, have not ended or got a new trial, which
           takes a hundredth of the time

    Raises InputError if there are no runs; for runs that no file describes, once the others are taken in.
    """
    from assay import store
    from assay.questions.evidence import bring_up_to_date

    directory = runs_directory(runs)
    ready(directory)
    has_ended = {} if whole else store.indexed_sessions(directory)
    made_at = store.index_path(directory).stat().st_mtime - _MAKING_S

    def concerned(session: str) -> bool:
        return not has_ended.get(session, False) or _changed_since(directory / session, made_at)

    unknown = bring_up_to_date(directory, concerned, level=logging.DEBUG)  # asked all the time
    if unknown:
        raise InputError(unknown)


def _changed_since(session: Path, moment: float) -> bool:
    """Whether a session's directory changed; one that vanished did."""
    try:
        return session.stat().st_mtime >= moment
    except FileNotFoundError:
        return True
