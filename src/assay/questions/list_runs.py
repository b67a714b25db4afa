"""Runs and imported sets, newest first; fast with 100,000 runs, because only changes are read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from assay.errors import InputError, UnreadableError
from assay.questions.evidence import catch_up, ready, runs_directory, warn_of_lost_files
from assay.questions.question import (
    RUNS,
    Answer,
    Count,
    Moment,
    Question,
    Reference,
    function,
    option,
    question,
)
from assay.units import human_seconds, moment
from assay.view.blocks import Paragraph, Table, TableBody, TableRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from assay.errors import Problem
    from assay.store import Filter
    from assay.view.blocks import Block


@question
class ListRuns(Question):
    """Sessions by system and imported sets, or single runs, newest first, like `assay show` without a RUN."""

    suite: str | None = option("Only runs of this suite or imported set.", default=None)
    system: str | None = option("Only runs on this system.", default=None)
    workload: str | None = option("Only runs of this workload.", default=None)
    benchmark: str | None = option("Only runs of this benchmark.", default=None)
    state: Literal["submitting", "running", "finished", "failed"] | None = option(
        "Only runs in this state.", default=None
    )
    since: Moment | None = option("Only newer runs: 2026-03-01 (UTC), 7d, 12h.", default=None)
    trials: bool = option("One line per run instead of one per session and system.", default=False)
    limit: Count = option("Maximum number of lines.", default=40)
    runs: Reference | None = option(RUNS, default=None, local=True)

    def answer(self) -> Answer:
        """The list."""
        return self.listing()

    def listing(self) -> RunListing:
        """The newest of them. Raises InputError if there are no runs, or if the limit is below 1."""
        from assay.run.index import answered
        from assay.store import Filter

        if self.limit < 1:
            raise InputError(f"limit: found {self.limit}; expected 1 or more")
        begin = None if self.since is None else moment(self.since)
        only = Filter(self.suite, self.system, self.workload, self.benchmark, self.state, begin)
        directory = runs_directory(self.runs)
        ready(directory)
        listing = answered(directory, lambda: self._listing(directory, only))
        warn_of_lost_files(directory, lambda session: self.suite in (None, session.partition("/")[0]))
        return listing

    def _listing(self, runs_dir: Path, only: Filter) -> RunListing:
        from assay.run.index import outdated
        from assay.store import Filter, indexed_sessions, listed_runs, listed_sets

        listed = listed_runs if self.trials else listed_sets

        def listing(changed: list[str], unreadable: tuple[Problem, ...] = ()) -> RunListing:
            rows = listed(runs_dir, only, self.limit)
            return RunListing(rows, changed, unreadable, self.trials, self.limit, only != Filter())

        before = listing([])
        shown = {f"{row['suite']}/{row['session']}" for row in before.rows}
        indexed = indexed_sessions(runs_dir)
        changed = outdated(runs_dir, lambda session: session in shown or session not in indexed)
        try:
            if catch_up(runs_dir, changed):
                return listing([])
        except UnreadableError as error:  # the others are listed
            return listing([], error.problems)
        return replace(before, changed=changed)


list_runs = function(ListRuns, ListRuns.listing)


@dataclass(frozen=True)
class RunListing(Answer):
    """The result of `list_runs`.

    rows         newest first, as the index has them
    changed      runs that changed since the index was made, if it can't be written: shown as they were
    unreadable   files that the machine can't read now: their runs are not in the rows
    trials       whether a row is a run instead of a session's runs on one system
    limit        maximum number of rows
    is_filtered  whether only some were asked for
    """

    rows: list[dict[str, Any]]
    changed: list[str]
    unreadable: tuple[Problem, ...]
    trials: bool
    limit: int
    is_filtered: bool

    @property
    def notes(self) -> tuple[str, ...]:
        """Whether there may be more."""
        is_full = len(self.rows) == self.limit
        return (f"Showing the newest {self.limit}; --limit shows more.",) if is_full else ()

    def view(self) -> Iterator[Block]:
        """Lines that begin with what `show` and `compare` accept."""
        if self.rows:
            columns, cells = (_RUN, _run) if self.trials else (_SET, _set)
            rows = tuple(TableRow(cells(row)) for row in self.rows)
            text_columns = frozenset(range(len(columns)))
            yield Table("", columns, (TableBody("", rows),), text_columns, listing=True)
        elif not self.unreadable:
            none = "No runs yet. To make some, run `assay run SUITE`."
            yield Paragraph("No matching runs." if self.is_filtered else none)

    def document(self) -> dict[str, Any]:
        """The document `assay.list/1`."""
        kind = "runs" if self.trials else "sets"
        return {"schema": "assay.list/1", kind: self.rows, "changed_since": self.changed}


_SET = ("reference", "ok", "failed", "open", "when (UTC)", "benchmarks")
_RUN = ("run", "state", "shape", "took", "when (UTC)", "why")


def _set(row: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (str(row["finished"]), str(row["failed"] or "·"), str(row["open"] or "·"))
    return (row["reference"], *counts, _format_time(row["created_at"]), " ".join(row["benchmarks"]))


def _run(row: Mapping[str, Any]) -> tuple[str, ...]:
    took = "·" if row["duration_s"] is None else human_seconds(row["duration_s"])
    when, cause = _format_time(row["created_at"]), row["cause"].split("\n")[0]
    return (row["id"], row["state"], row["shape"], took, when, cause)


def _format_time(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M")
