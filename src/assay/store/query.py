"""Queries on the index: lists of runs and sets, and measurements written as tables."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

from assay.durable import delivering
from assay.errors import HostError
from assay.store.layout import FileStamp, file_stamp, index_path, reading

Format = Literal["csv", "parquet", "json"]

_RUN_COLUMNS = (
    "id", "suite", "session", "trial", "benchmark", "workload", "system", "shape", "block", "attempt",
    "state", "cause", "created_at", "duration_s",
)  # fmt: skip
_SEARCHED = ("system", "benchmark", "cause", "id")  # those with few values first: they decide faster
_COUNTS = "state = 'finished' AND cause = ''"  # what counts as a replicate in the analysis


# Facts of a run, as `logs/export_rows.py` reads them.
_CONDITIONS = ("interleaved", "outside_block", "looks", "nodes")
_TEXTS = (
    *("system", "benchmark", "workload", "shape", "metric", "unit", "run", "suite", "session"),
    *("labels", "file", "better", "started_at", "conditions"),
)
# A text that a spreadsheet would take for a formula gets an apostrophe, and so does a text that already has
# one, so that `logs/export_rows.py` restores each text. https://owasp.org/www-community/attacks/CSV_Injection
_AS_TEXT = r"CASE WHEN regexp_matches({0}, '^''*[-=+@\t\r\n]') THEN '''' || {0} ELSE {0} END AS {0}"
_DECLARED = """
    CREATE TEMP TABLE declared AS
    SELECT unnest(?::VARCHAR[]) AS suite, unnest(?::VARCHAR[]) AS session, unnest(?::VARCHAR[]) AS benchmark,
        unnest(?::VARCHAR[]) AS metric, unnest(?::VARCHAR[]) AS better, unnest(?::INTEGER[]) AS rank"""


# What a list of runs or sets can be sorted by → its expression, and that of a set.
_RUN_ORDERS = {
    "created_at": "created_at", "reference": "id", "state": "state", "duration_s": "duration_s",
    "benchmark": "benchmark",
}  # fmt: skip
_SET_ORDERS = {
    "created_at": "max(created_at)",
    "reference": "suite || '/' || session || ':' || system",
    "finished": f"count(*) FILTER ({_COUNTS})",
    "failed": f"count(*) FILTER (state IN ('finished', 'failed') AND NOT ({_COUNTS}))",
    "open": "count(*) FILTER (state NOT IN ('finished', 'failed'))",
}


@dataclass(frozen=True)
class SortOrder:
    """A column to sort by, the newest or largest first if `descending`; then by name."""

    column: str = "created_at"
    descending: bool = True


NEWEST = SortOrder()


@dataclass(frozen=True)
class Filter:
    """A filter on runs; None selects all.

    since  seconds since the epoch
    words  a part of a run's id, system, benchmark or cause, whatever its case
    """

    suite: str | None = None
    system: str | None = None
    workload: str | None = None
    benchmark: str | None = None
    state: str | None = None
    since: float | None = None
    words: str | None = None

    def sql(self) -> tuple[str, list[Any]]:
        """A WHERE clause and its parameters."""
        conditions = {
            "suite = ?": self.suite,
            "system = ?": self.system,
            "workload = ?": self.workload,
            "benchmark = ?": self.benchmark,
            "state = ?": self.state,
            "created_at >= ?": self.since,
        }
        applied = {test: value for test, value in conditions.items() if value is not None}
        tests, values = ["true", *applied], list(applied.values())
        if self.words is not None:
            tests.append(f"({' OR '.join(f'contains(lower({column}), ?)' for column in _SEARCHED)})")
            values += [self.words.lower()] * len(_SEARCHED)
        return " AND ".join(tests), values


def _rows(root: Path, query: str, values: Sequence[Any] = ()) -> tuple[tuple[Any, ...], ...]:
    """The answer to a query; a server asks the same again and again."""
    try:
        stamp = file_stamp(index_path(root))
    except OSError:  # reading it says what to do
        stamp = None
    return _rows_of(root, stamp, query, tuple(values))


@lru_cache(maxsize=64)
def _rows_of(
    root: Path,
    stamp: FileStamp | None,  # noqa: ARG001 - what the answer depends on
    query: str,
    values: tuple[Any, ...],
) -> tuple[tuple[Any, ...], ...]:
    with reading(root) as index:
        return tuple(index.execute(query, list(values)).fetchall())


def listed_runs(
    root: Path, only: Filter, limit: int, order: SortOrder = NEWEST, offset: int = 0
) -> list[dict[str, Any]]:
    """Runs as plain columns; `cause` is why a run gave no result, "" if it gave one."""
    where, values = only.sql()
    columns = ", ".join(_RUN_COLUMNS)
    by = f"{_RUN_ORDERS[order.column]} {_direction(order)} NULLS LAST, id DESC"
    query = f"SELECT {columns} FROM runs WHERE {where} ORDER BY {by} LIMIT ? OFFSET ?"  # noqa: S608 - our own columns
    rows = _rows(root, query, [*values, limit, offset])
    return [dict(zip(_RUN_COLUMNS, row, strict=True)) for row in rows]


def counted(root: Path, only: Filter, *, sets: bool) -> int:
    """How many sets there are, or runs."""
    where, values = only.sql()
    what = "count(DISTINCT (suite, session, system))" if sets else "count(*)"
    [[count]] = _rows(root, f"SELECT {what} FROM runs WHERE {where}", values)  # noqa: S608 - our own tests
    return int(count)


def chosen_from(root: Path) -> dict[str, list[str]]:
    """What a filter can choose from: the sorted names of suites, systems, workloads and benchmarks."""
    columns = ("suite", "system", "workload", "benchmark", "state")
    lists = ", ".join(f"list_sort(list(DISTINCT {column}))" for column in columns)
    [row] = _rows(root, f"SELECT {lists} FROM runs")  # noqa: S608 - our own columns
    return {column: [*(names or ())] for column, names in zip(columns, row, strict=True)}


def unreadable_runs(root: Path, mark: str) -> dict[str, str]:
    """The runs whose stamp ends with a mark, by id, and why each gave no result."""
    return dict(_rows(root, "SELECT id, cause FROM runs WHERE ends_with(stamp, ?) ORDER BY id", [mark]))


def metric_names(root: Path) -> tuple[str, ...]:
    """Every metric that a run reports, sorted."""
    rows = _rows(root, "SELECT DISTINCT metric FROM measurements ORDER BY metric")
    return tuple(name for (name,) in rows)


def _direction(order: SortOrder) -> str:
    return "DESC" if order.descending else "ASC"


def listed_sets(
    root: Path, only: Filter, limit: int, order: SortOrder = NEWEST, offset: int = 0
) -> list[dict[str, Any]]:
    """What can be compared: the runs of one system in one session.

    reference   as the other commands take it
    finished    runs that count; failed: that ended without a result; open: not finished
    benchmarks  sorted names
    """
    where, values = only.sql()
    columns = _SET_ORDERS
    query = f"""
        SELECT {columns["reference"]}, suite, session, system,
            {columns["finished"]}, {columns["failed"]}, {columns["open"]},
            list_sort(list(DISTINCT benchmark)), {columns["created_at"]}
        FROM runs WHERE {where} GROUP BY suite, session, system
        ORDER BY {columns[order.column]} {_direction(order)}, suite, session, system LIMIT ? OFFSET ?"""  # noqa: S608 - our own tests
    names = (
        "reference", "suite", "session", "system", "finished", "failed", "open", "benchmarks", "created_at",
    )  # fmt: skip
    rows = _rows(root, query, [*values, limit, offset])
    return [dict(zip(names, row, strict=True)) for row in rows]


@dataclass(frozen=True)
class SessionCounts:
    """A session with its runs counted.

    finished    runs that count; failed: that ended without a result; open: not finished
    systems     sorted names; measured: those with a run that counts
    benchmarks  sorted names
    created_at  of its newest run, seconds since the epoch
    """

    suite: str
    session: str
    finished: int
    failed: int
    open: int
    systems: tuple[str, ...]
    measured: tuple[str, ...]
    benchmarks: tuple[str, ...]
    created_at: float

    @property
    def reference(self) -> str:
        """`suite/session`."""
        return f"{self.suite}/{self.session}"


def newest_sessions(
    root: Path, limit: int, *, one_per_suite: bool = False, until: float = math.inf
) -> list[SessionCounts]:
    """The newest sessions, or each suite's newest, the newest first; `until`: of this time or before."""
    columns = _SET_ORDERS
    newest_only = (
        "QUALIFY row_number() OVER (PARTITION BY suite ORDER BY session DESC) = 1" if one_per_suite else ""
    )
    query = f"""
        SELECT suite, session, {columns["finished"]}, {columns["failed"]}, {columns["open"]},
            list_sort(list(DISTINCT system)), list_sort(list(DISTINCT system) FILTER ({_COUNTS})),
            list_sort(list(DISTINCT benchmark)), {columns["created_at"]} AS newest
        FROM runs GROUP BY suite, session HAVING newest <= ? {newest_only}
        ORDER BY newest DESC, suite, session LIMIT ?"""  # noqa: S608 - our own tests
    rows = _rows(root, query, [until, limit])
    return [
        SessionCounts(
            suite, session, finished, failed, unfinished,
            tuple(systems), tuple(measured or ()), tuple(benchmarks), newest,
        )
        for suite, session, finished, failed, unfinished, systems, measured, benchmarks, newest in rows
    ]  # fmt: skip


class DeclaredMetric(NamedTuple):
    """A metric of a session's benchmark; `rank`: 0 for the primary one."""

    suite: str
    session: str
    benchmark: str
    metric: str
    better: str | None
    rank: int


def export(
    root: Path, ids: Sequence[str], path: Path, form: Format, declared: Collection[DeclaredMetric] = ()
) -> int:
    """Write the measurements of these runs to a file, one row each, and return their number.

    declared  what the workloads declare for the metrics, each once

    In CSV, a text that a spreadsheet would take for a formula begins with an apostrophe. Runs that did not
    give a result have no rows. Raises HostError if the file can't be written.
    """
    import duckdb

    options = {"csv": "FORMAT csv, HEADER", "parquet": "FORMAT parquet", "json": "FORMAT json, ARRAY true"}
    began = "to_timestamp((run_json->>'started_at')::DOUBLE) AT TIME ZONE 'UTC'"
    conditions = ", ".join(f"'{name}', run_json->'{name}'" for name in _CONDITIONS)
    as_json = "::JSON" if form == "json" else ""
    query = f"""
        SELECT system, benchmark, workload, shape, metric, unit, id AS run, suite, session, block, value,
            labels{as_json} AS labels, file, line, better,
            strftime({began}, '%Y-%m-%dT%H:%M:%S.%fZ') AS started_at,
            json_object({conditions})::VARCHAR{as_json} AS conditions
        FROM measurements JOIN runs ON run_id = id
            LEFT JOIN declared USING (suite, session, benchmark, metric)
        WHERE {_COUNTS} AND id IN (SELECT unnest(?))
        ORDER BY suite, session, benchmark, shape, system, block, rank, metric, line"""  # noqa: S608 - our own tests
    quoted = str(path).replace("'", "''")
    with delivering(path, option="-o"):
        if not path.exists() or path.is_file():  # a pipe can be opened only once
            path.open("ab").close()
    with reading(root) as index:
        index.execute(_DECLARED, [list(column) for column in zip(*declared, strict=True)] or [[]] * 6)
        index.execute(f"CREATE TEMP TABLE exported AS {query}", [list(ids)])
        row = index.execute("SELECT count(*) FROM exported").fetchone()
        try:
            index.execute(f"COPY ({_content(form)}) TO '{quoted}' ({options[form]})")
        except duckdb.IOException as error:
            reason = str(error).splitlines()[0]
            raise HostError(f"{path}: can't be written ({reason}); name another file with -o") from error
    return int(row[0]) if row else 0


def _content(form: Format) -> str:
    """The rows in this file format."""
    if form != "csv":
        return "FROM exported"
    texts = ", ".join(_AS_TEXT.format(name) for name in _TEXTS)
    return f"SELECT * REPLACE ({texts}) FROM exported"  # noqa: S608 - our own columns
