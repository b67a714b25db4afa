"""Writing the index: next to the old one, then renamed."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.durable import locked, make_directory, sync, writing
from assay.store.layout import (
    SCHEMA,
    MissingIndexError,
    index_directory,
    index_path,
    reading,
    trouble,
    writing_at,
)
from assay.version import __version__

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from assay.records import Provenance, Result

CHUNK = 1000  # results held in memory at a time
LONGEST_WAIT_S = 600.0  # for another writer: a rebuild of 100,000 runs takes minutes


@dataclass(frozen=True)
class Update:
    """What an update changed in the index.

    written  runs that were new or changed
    removed  runs whose directory is gone
    rebuilt  why it was rebuilt from scratch, as text; "" if it was not
    """

    written: int
    removed: int
    rebuilt: str


def known(root: Path, sessions: Collection[str] | None = None) -> dict[str, str]:
    """Stamp of every indexed run by its id; empty if there is no readable index.

    sessions  only runs of these, by `suite/session`; None: all
    """
    if trouble(root) is not None:
        return {}
    query, values = "SELECT id, stamp FROM runs", []
    if sessions is not None:
        query += " WHERE suite || '/' || session IN (SELECT unnest(?::VARCHAR[]))"
        values = [list(sessions)]
    with reading(root) as connection:
        return dict(connection.execute(query, values).fetchall())


def indexed_sessions(root: Path) -> dict[str, bool]:
    """Every indexed session by `suite/session`, and whether all its runs have ended; empty if no index."""
    if trouble(root) is not None:
        return {}
    query = """
        SELECT suite || '/' || session, bool_and(state IN ('finished', 'failed')) FROM runs
        GROUP BY suite, session"""
    with reading(root) as connection:
        return dict(connection.execute(query).fetchall())


def update(
    root: Path,
    results: Iterable[Result],
    gone: Iterable[str] = (),
    stamps: Mapping[str, str] | None = None,
    *,
    rebuild: bool = False,
) -> Update:
    """Put results into the index, replacing those with the same ids, and remove those that are gone.

    results  read one after the other; they need not fit into memory
    gone     ids of runs whose directory no longer exists
    stamps   by run id, what shows that a run has changed; returned by `known`. May be filled while
             `results` is read: a result's stamp is looked up after it
    rebuild  start with an empty index

    Raises HostError if there is no space or no permission; the old index is kept. Raises BusyError if
    another writer does not finish, DamagedIndexError if the old index has damaged content.
    """
    make_directory(root)
    path, directory = index_path(root), index_directory(root)
    new_path = directory / ".index.duckdb.new"
    with locked(directory / ".index.lock", f"the index of {root}", wait_s=LONGEST_WAIT_S):
        rebuilt = "requested" if rebuild else trouble(root) or ""
        first, results = _peeked(results)
        dropped = list(gone)
        if first is None and not dropped and not rebuilt:
            return Update(0, 0, "")
        with writing(new_path):
            _remove_files(new_path)  # left by a killed writer
            try:
                if not rebuilt:
                    shutil.copyfile(path, new_path)
            except FileNotFoundError as error:
                raise MissingIndexError(path) from error
            except OSError:
                _remove_files(new_path)  # half a copy would fill a full disk further
                raise
        with writing_at(new_path) as connection:
            if rebuilt:
                connection.execute("INSERT INTO about VALUES (?, ?)", [SCHEMA, __version__])
            removed = 0 if rebuilt else _remove(connection, dropped)
            written = _insert(connection, results, stamps or {}, replace=not rebuilt)
            connection.execute(
                "DELETE FROM provenances WHERE digest NOT IN "
                "(SELECT provenance_digest FROM runs WHERE provenance_digest IS NOT NULL)"
            )
        with writing(path):
            sync(new_path)
            try:
                new_path.replace(path)
            except OSError:
                _remove_files(new_path)  # in a shared directory, only its owner can
                raise
    return Update(written, removed, rebuilt)


def _remove_files(index: Path) -> None:
    for left in (index, index.with_name(f"{index.name}.wal")):
        left.unlink(missing_ok=True)


def _peeked(results: Iterable[Result]) -> tuple[Result | None, Iterable[Result]]:
    """The first result, and an iterator over all of them."""
    rest = iter(results)
    first = next(rest, None)
    return first, rest if first is None else chain([first], rest)


def _remove(connection: DuckDBPyConnection, ids: list[str]) -> int:
    if not ids:
        return 0
    connection.execute("DELETE FROM measurements WHERE run_id IN (SELECT unnest(?))", [ids])
    row = connection.execute("DELETE FROM runs WHERE id IN (SELECT unnest(?))", [ids]).fetchone()
    return int(row[0]) if row else 0


def _insert(
    connection: DuckDBPyConnection, results: Iterable[Result], stamps: Mapping[str, str], *, replace: bool
) -> int:
    """Insert rows as one list per column: a hundred times faster than row by row, without dependencies."""
    written = 0
    known = {digest for (digest,) in connection.execute("SELECT digest FROM provenances").fetchall()}
    for chunk in _chunks(results):
        if replace:
            _remove(connection, [result.run.id for result in chunk])
        provenances: dict[str, str] = {}
        runs = []
        for result in chunk:
            digest = None
            if result.provenance is not None:
                digest, text = _digested(result.provenance)
                if digest not in known:
                    provenances[digest] = text
            runs.append(_run_row(result, stamps, digest))
        measurements = [row for result in chunk for row in _measurement_rows(result)]
        known.update(provenances)
        _append(connection, "provenances", list(provenances.items()))
        _append(connection, "runs", runs)
        _append(connection, "measurements", measurements)
        written += len(chunk)
    return written


def _chunks(results: Iterable[Result]) -> Iterator[list[Result]]:
    rest = iter(results)
    while chunk := list(islice(rest, CHUNK)):
        yield chunk


def _append(connection: DuckDBPyConnection, table: str, rows: list[tuple[Any, ...]]) -> None:
    if not rows:
        return
    columns = [list(column) for column in zip(*rows, strict=True)]
    values = ", ".join(["unnest(?)"] * len(columns))
    connection.execute(f"INSERT INTO {table} SELECT {values}", columns)


def _digested(provenance: Provenance) -> tuple[str, str]:
    """A table's digest, under which the index has it once, and its text."""
    from assay.records import to_compact_json

    text = to_compact_json(provenance)
    return hashlib.sha256(text.encode()).hexdigest()[:16], text


def _run_row(result: Result, stamps: Mapping[str, str], provenance_digest: str | None) -> tuple[Any, ...]:
    from assay.records import to_compact_json

    run, trial = result.run, result.run.trial
    ended = run.started_at is not None and run.ended_at is not None
    return (
        run.id,
        run.suite,
        run.session,
        run.suite_digest,
        run.plan_digest,
        trial.id,
        trial.benchmark,
        trial.workload,
        trial.system,
        str(trial.shape),
        trial.shape.workers,
        trial.shape.accelerators,
        trial.block,
        run.attempt,
        run.state.value,
        run.cause or "; ".join(result.reading.problems),
        run.source is not None,
        run.created_at,
        (run.ended_at or 0.0) - (run.started_at or 0.0) if ended else None,
        provenance_digest,
        stamps.get(run.id, ""),
        to_compact_json(run),
        to_compact_json(result.reading),
    )


def _measurement_rows(result: Result) -> Iterator[tuple[Any, ...]]:
    for m in result.reading.measurements:
        labels = json.dumps({**result.run.trial.varied, **m.labels}, sort_keys=True)
        yield result.run.id, m.metric, m.value, m.unit, labels, m.file, m.line
