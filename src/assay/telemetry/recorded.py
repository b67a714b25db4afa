"""The samples of a run's nodes, in its directory: as the sampler printed them, and from its end on as tables.

    logs/telemetry-N.log    lines of node N's sampler, as long as the run is not settled
    telemetry/node.parquet  a row per sample of a node: `node`, `unix_s` (seconds since 1970), its values
    telemetry/gpu.parquet   the same per sample of a GPU, with its index as `gpu`
    telemetry/about.json    each node's header, events, and counts of samples and of torn lines
    telemetry-prometheus/   the same three files from a Prometheus, and source.json: whose, and what it lacks

Lines and tables are read in the same way, through DuckDB, so that days of samples need no memory.
"""

# ruff: noqa: S608 - queries contain our own words, checked names, and quoted paths

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from assay.durable import sync, write_lasting, writing
from assay.errors import HostError, InputError
from assay.inputs import read_whole
from assay.records import LATEST_TIME, from_json, to_json
from assay.telemetry.samples import (
    TABLES,
    NodeTelemetry,
    connected,
    is_sound,
    no_rows,
    nodes_of,
    quoted,
    reading_lines,
    sampler_logs,
)
from assay.units import human_seconds

if TYPE_CHECKING:
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

FOLDERS: Final = {"sampler": "telemetry", "prometheus": "telemetry-prometheus"}
Recorder = Literal["sampler", "prometheus"]
MOST_ROWS: Final = 1_000_000  # of a table, and for each of its bytes:
MOST_ROWS_PER_BYTE: Final = 4  # samples of 8 GPUs that do nothing take 0.9 bytes each
MOST_COLUMNS: Final = 500
_KINDS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE")
COVERED: Final = 0.8  # share of a run that a node's samples cover if none is missing: a busy node's are late
_LATE: Final = 2.5  # periods between two samples, from which on something is missing in between
_NOTICED_S: Final = 5.0  # after a job's end, which a batch system or a cluster reports late


@dataclass(frozen=True)
class TelemetryGap:
    """A time without samples of a node, or of one of its GPUs; seconds since 1970."""

    node: int
    gpu: int | None
    begin_at: float
    end_at: float


@dataclass(frozen=True)
class _About:
    version: int
    nodes: tuple[NodeTelemetry, ...]


def store(directory: Path) -> None:
    """Turn the samplers' lines of an attempt into tables, and remove the lines.

    If it is interrupted, the same call completes it. Raises HostError if the disk is full: the lines stay.
    """
    logs = sampler_logs(directory)
    if not logs:
        return
    unfinished = directory / ".telemetry.new"
    with writing(directory):
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        nodes = nodes_of(logs)
        if any(node.samples for node in nodes):
            with reading_lines(logs, nodes) as tables:
                for name in TABLES:
                    _copy(tables, name, unfinished / f"{name}.parquet")
            write_lasting(unfinished / "about.json", to_json(_About(1, nodes)).encode())
            sync(*(unfinished / f"{name}.parquet" for name in TABLES), unfinished)
            shutil.rmtree(directory / "telemetry", ignore_errors=True)
            unfinished.rename(directory / "telemetry")
        else:
            unfinished.rmdir()
        for path in logs.values():
            path.unlink()


def store_tables(
    directory: Path,
    arrays: Mapping[str, Mapping[str, NDArray[np.generic]]],
    nodes: Sequence[NodeTelemetry],
    source: Mapping[str, object],
) -> None:
    """Store an attempt's telemetry from a Prometheus as a whole, in place of what was there.

    arrays  table → column → values, NaN where unknown
    source  plain data about where it is from

    Raises HostError if it can't be written; what was there stays.
    """
    import duckdb

    unfinished, final = directory / ".telemetry-prometheus.new", directory / FOLDERS["prometheus"]
    with writing(directory):
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir()
        with connected() as connection:
            for name in TABLES:
                columns = arrays.get(name)
                if columns is None:
                    connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {no_rows(name)}")
                else:
                    connection.register(f"{name}_given", dict(columns))
                    known = ", ".join(
                        f'CASE WHEN isfinite("{column}") THEN "{column}" END AS "{column}"'
                        if values.dtype.kind == "f" and column != "unix_s"
                        else f'"{column}"'
                        for column, values in columns.items()
                    )
                    connection.execute(f"CREATE VIEW {name} AS SELECT {known} FROM {name}_given")
                try:
                    _copy(connection, name, unfinished / f"{name}.parquet")
                except duckdb.Error as error:
                    raise HostError(
                        f"{unfinished}: can't be written ({str(error).splitlines()[0]})"
                    ) from error
        write_lasting(unfinished / "about.json", to_json(_About(1, tuple(nodes))).encode())
        write_lasting(unfinished / "source.json", json.dumps(dict(source), indent=1).encode())
        sync(*(unfinished / f"{name}.parquet" for name in TABLES), unfinished)
        shutil.rmtree(final, ignore_errors=True)
        unfinished.rename(final)


def nodes(directory: Path, recorder: Recorder | None = None) -> tuple[NodeTelemetry, ...]:
    """Each node of an attempt that was sampled.

    recorder  None: the sampler, or else a Prometheus

    Raises InputError if what describes the tables is damaged.
    """
    if recorder is None:
        return nodes(directory, "sampler") or nodes(directory, "prometheus")
    about = directory / FOLDERS[recorder] / "about.json"
    if recorder == "sampler" and (logs := sampler_logs(directory)):
        return tuple(node for node in nodes_of(logs) if node.samples)
    if not about.is_file():
        return ()
    try:
        node_telemetry = from_json(_About, read_whole(about)).nodes
    except ValueError as error:
        raise InputError(f"{about}: damaged ({error}); the run counts, its telemetry does not") from error
    if not all(is_sound(node.header) for node in node_telemetry):
        raise InputError(f"{about}: damaged (names or GPUs of a node are not the sampler's); the run counts")
    return node_telemetry


def uncovered(directory: Path, duration_s: float, node_count: int) -> tuple[str, ...]:
    """Each node whose sampler covered less than 80 % of a run, as text; empty if no node was sampled.

    duration_s  from the start of the ranks to the end

    Raises InputError if what describes the tables is damaged.
    """
    sampled = nodes(directory, "sampler")
    if not sampled:
        return ()
    period_s = max(node.header.period_s for node in sampled)
    covered_s = dict.fromkeys(range(node_count), 0.0) | {
        node.node: node.samples * node.header.period_s for node in sampled
    }
    enough_s = min(COVERED * duration_s, duration_s - _LATE * period_s)
    return tuple(
        f"node {node}: {human_seconds(covered)} of {human_seconds(duration_s)}"
        for node, covered in sorted(covered_s.items())
        if covered < enough_s
    )


def gpus_once(nodes: Sequence[NodeTelemetry]) -> set[tuple[int, int]]:
    """(node, index) of every GPU, each once: pods of one machine may all have sampled the same ones."""
    first_places: dict[object, tuple[int, int]] = {}
    for node in nodes:
        for gpu in node.header.gpus:
            place = (node.node, gpu["index"])
            first_places.setdefault(gpu.get("uuid") or place, place)
    return set(first_places.values())


@contextmanager
def tables(directory: Path, recorder: Recorder | None = None) -> Iterator[DuckDBPyConnection]:
    """A connection with the views `node` and `gpu`, whose rows are in no order; empty if nothing was sampled.

    recorder  as for `nodes`

    Raises InputError if a table is damaged.
    """
    import duckdb

    if recorder is None:
        recorder = "sampler" if nodes(directory, "sampler") else "prometheus"
    logs = sampler_logs(directory) if recorder == "sampler" else {}
    if logs:
        with reading_lines(logs, nodes_of(logs)) as connection:
            yield connection
        return
    folder = directory / FOLDERS[recorder]
    with connected() as connection:
        try:
            for name in TABLES:
                path = folder / f"{name}.parquet"
                if path.is_file():
                    _check_bounds(connection, path)
                source = f"read_parquet('{quoted(path)}')" if path.is_file() else no_rows(name)
                is_time = f"unix_s BETWEEN 0 AND {LATEST_TIME}"
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {source} WHERE {is_time}")
            yield connection
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{folder}: damaged ({reason}); the run counts") from error


def _check_bounds(connection: DuckDBPyConnection, path: Path) -> None:
    """Raises InputError for a table that is small and holds more than any sampler writes: it was imported."""
    most = MOST_ROWS + MOST_ROWS_PER_BYTE * path.stat().st_size
    [[rows]] = connection.execute(
        "SELECT sum(num_rows) FROM parquet_file_metadata(?)", [str(path)]
    ).fetchall()
    described = connection.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
    wrong = [f"column {name} is not of numbers" for name, kind, *_ in described if kind not in _KINDS]
    if rows > most:
        wrong = [f"{rows:,} rows; expected at most {most:,}"]
    if len(described) > MOST_COLUMNS:
        wrong = [f"{len(described):,} columns; expected at most {MOST_COLUMNS}"]
    if wrong:
        raise InputError(f"{path}: damaged ({wrong[0]}); the run counts")


def gaps(
    connection: DuckDBPyConnection, nodes: Sequence[NodeTelemetry], until: float | None = None
) -> list[TelemetryGap]:
    """Times without samples of a node or GPU, from its first to its last, and from there to the run's end.

    until  the run's end, seconds since 1970; None if it is unknown
    """
    periods = {node.node: node.header.period_s for node in nodes}
    all_gaps = []
    for name, gpu in (("node", "NULL"), ("gpu", "gpu")):
        query = f"""
            SELECT node, {gpu}, before, unix_s FROM (
                SELECT *, lag(unix_s) OVER (PARTITION BY node, {gpu} ORDER BY unix_s) AS before FROM {name})
            WHERE unix_s - before > {_LATE} * CAST(? AS MAP(INTEGER, DOUBLE))[node] ORDER BY ALL"""
        rows = connection.execute(query, [periods]).fetchall() if periods else []
        all_gaps += [TelemetryGap(*row) for row in rows]
        ends = connection.execute(f"SELECT node, {gpu}, max(unix_s) FROM {name} GROUP BY ALL").fetchall()
        all_gaps += [
            TelemetryGap(node, of_gpu, last, until)
            for node, of_gpu, last in ends
            if until is not None and until - last > _LATE * periods[node] + _NOTICED_S
        ]
    return all_gaps


def columns(connection: DuckDBPyConnection, table: str) -> frozenset[str]:
    """Names of a table's columns."""
    return frozenset(row[0] for row in connection.execute(f"DESCRIBE {table}").fetchall())


def _copy(connection: DuckDBPyConnection, name: str, path: Path) -> None:
    import duckdb

    try:
        connection.execute(f"COPY {name} TO '{quoted(path)}' (FORMAT parquet, COMPRESSION zstd)")
    except duckdb.Error as error:
        raise HostError(f"{path}: can't be written ({str(error).splitlines()[0]})") from error
