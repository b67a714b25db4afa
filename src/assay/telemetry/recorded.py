"""The samples of a run's nodes, in its directory: as the sampler printed them, and from its end on as tables.

    logs/telemetry-N.log    lines of node N's sampler, as long as the run is not settled
    telemetry/node.parquet  a row per sample of a node: `node`, `unix_s` (seconds since 1970), its values
    telemetry/gpu.parquet   the same per sample of a GPU, with its index as `gpu`
    telemetry/about.json    each node's header, events, and counts of samples and of torn lines

Both forms are read in the same way, through DuckDB, so that days of samples need no memory.
"""

# ruff: noqa: S608 - queries contain our own words, checked names, and quoted paths

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay.durable import sync, write_lasting, writing
from assay.errors import HostError, InputError
from assay.inputs import open_plain, read_whole
from assay.records import from_json, to_json
from assay.telemetry.samples import Telemetry, TelemetryEvent, TelemetryHeader

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

STREAM: Final = "telemetry-"  # begins the name of a sampler's stream
TABLES: Final = ("node", "gpu")
_LATE: Final = 2.5  # periods between two samples, from which on something is missing in between
_COLUMN: Final = re.compile(r"[a-z][a-z0-9_]{0,60}")


@dataclass(frozen=True)
class NodeTelemetry:
    """What a node's sampler said, apart from the samples.

    node     the node's number within the job, from 0
    events   Xids and notes, in their order
    samples  of the node; torn: lines that are not whole
    """

    node: int
    header: TelemetryHeader
    events: tuple[TelemetryEvent, ...] = ()
    samples: int = 0
    torn: int = 0


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
    logs = _logs(directory)
    if not logs:
        return
    made = directory / ".telemetry.new"
    with writing(directory):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir()
        nodes = _nodes_of(logs)
        if any(node.samples for node in nodes):
            with _reading_lines(logs, nodes) as tables:
                for name in TABLES:
                    _copy(tables, name, made / f"{name}.parquet")
            write_lasting(made / "about.json", to_json(_About(1, nodes)).encode())
            sync(*(made / f"{name}.parquet" for name in TABLES), made)
            shutil.rmtree(directory / "telemetry", ignore_errors=True)
            made.rename(directory / "telemetry")
        else:
            made.rmdir()
        for path in logs.values():
            path.unlink()


def nodes(directory: Path) -> tuple[NodeTelemetry, ...]:
    """Each node of an attempt that was sampled. Raises InputError if what describes the tables is damaged."""
    about = directory / "telemetry" / "about.json"
    if logs := _logs(directory):
        return tuple(node for node in _nodes_of(logs) if node.samples)
    if not about.is_file():
        return ()
    try:
        found = from_json(_About, read_whole(about)).nodes
    except ValueError as error:
        raise InputError(f"{about}: damaged ({error}); the run counts, its telemetry does not") from error
    if not all(_is_sound(node.header) for node in found):
        raise InputError(f"{about}: damaged (names or GPUs of a node are not the sampler's); the run counts")
    return found


def gpus_once(of: Sequence[NodeTelemetry]) -> set[tuple[int, int]]:
    """(node, index) of every GPU, each once: pods of one machine may all have sampled the same ones."""
    found: dict[object, tuple[int, int]] = {}
    for node in of:
        for gpu in node.header.gpus:
            place = (node.node, gpu["index"])
            found.setdefault(gpu.get("uuid") or place, place)
    return set(found.values())


@contextmanager
def tables(directory: Path) -> Iterator[DuckDBPyConnection]:
    """A connection with the views `node` and `gpu`, whose rows are in no order; empty if nothing was sampled.

    Raises InputError if a table is damaged.
    """
    import duckdb

    logs = _logs(directory)
    if logs:
        with _reading_lines(logs, _nodes_of(logs)) as connection:
            yield connection
        return
    with _connected() as connection:
        try:
            for name in TABLES:
                path = directory / "telemetry" / f"{name}.parquet"
                source = f"read_parquet('{_quoted(path)}')" if path.is_file() else _nothing(name)
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {source}")
            yield connection
        except duckdb.Error as error:
            words = str(error).splitlines()[0]
            raise InputError(f"{directory / 'telemetry'}: damaged ({words}); the run counts") from error


def gaps(connection: DuckDBPyConnection, of: Sequence[NodeTelemetry]) -> list[TelemetryGap]:
    """Times without samples, between the first and the last of the same node or GPU."""
    periods = {node.node: node.header.period_s for node in of}
    found = []
    for name, gpu in (("node", "NULL"), ("gpu", "gpu")):
        query = f"""
            SELECT node, {gpu}, before, unix_s FROM (
                SELECT *, lag(unix_s) OVER (PARTITION BY node, {gpu} ORDER BY unix_s) AS before FROM {name})
            WHERE unix_s - before > {_LATE} * CAST(? AS MAP(INTEGER, DOUBLE))[node] ORDER BY ALL"""
        rows = connection.execute(query, [periods]).fetchall() if periods else []
        found += [TelemetryGap(*row) for row in rows]
    return found


def columns(connection: DuckDBPyConnection, table: str) -> frozenset[str]:
    """Names of a table's columns."""
    return frozenset(row[0] for row in connection.execute(f"DESCRIBE {table}").fetchall())


# Lines ---------------------------------------------------------------------------------------------------


def _logs(directory: Path) -> dict[int, Path]:
    """The samplers' lines, by node."""
    paths = (directory / "logs").glob(f"{STREAM}*.log")
    numbers = {path.stem.removeprefix(STREAM): path for path in paths}
    return {int(number): path for number, path in sorted(numbers.items()) if number.isdecimal()}


def _nodes_of(logs: Mapping[int, Path]) -> tuple[NodeTelemetry, ...]:
    """Everything but the samples, which are only counted."""
    found = []
    for number, path in logs.items():
        telemetry, events = Telemetry(), []
        with open_plain(path) as log:
            lines = (line.decode(errors="replace") for line in log)
            for one in telemetry.read(line for line in lines if not line.startswith(("n ", "g "))):
                assert isinstance(one, TelemetryEvent)
                events.append(one)
        if telemetry.header is not None and _is_sound(telemetry.header):
            counts = _counts(path, telemetry.header)
            found.append(NodeTelemetry(number, telemetry.header, tuple(events), *counts))
    return tuple(found)


def _is_sound(header: TelemetryHeader) -> bool:
    """Whether its names can be columns: the lines may have come from a machine that nobody knows."""
    names = (*header.node, *header.gpu)
    numbered = all(isinstance(gpu.get("index"), int) for gpu in header.gpus)
    return numbered and all(map(_COLUMN.fullmatch, names)) and not {"node", "gpu", "unix_s"} & set(names)


def _counts(path: Path, header: TelemetryHeader) -> tuple[int, int]:
    """Samples of the node, and lines that look like samples of node or GPU and are none."""
    query = f"""
        SELECT count(*) FILTER (node), count(*) FILTER (NOT coalesce(node OR gpu, false)) FROM (
            SELECT w[1] = 'n' AND {_whole("node", header)} AS node,
                w[1] = 'g' AND {_whole("gpu", header)} AS gpu
            FROM {_lines(path)} WHERE w[1] IN ('n', 'g'))"""
    with _connected() as connection:
        samples, torn = connection.execute(query).fetchall()[0]
    return samples, torn


@contextmanager
def _reading_lines(logs: Mapping[int, Path], of: Sequence[NodeTelemetry]) -> Iterator[DuckDBPyConnection]:
    with _connected() as connection:
        for name in TABLES:
            parts = [_rows(name, node, logs[node.node]) for node in of] or [f"SELECT * FROM {_nothing(name)}"]
            connection.execute(f"CREATE VIEW {name} AS {' UNION ALL BY NAME '.join(parts)}")
        yield connection


def _rows(name: str, node: NodeTelemetry, path: Path) -> str:
    """A query for the samples of one node's log, as rows of a table."""
    header, skip = node.header, 2 if name == "node" else 3  # letter, time, and a GPU's index
    values = [
        f'{_number(f"w[{skip + n}]")} AS "{column}"' for n, column in enumerate(getattr(header, name), 1)
    ]
    index = ["w[3]::INTEGER AS gpu"] if name == "gpu" else []
    columns = [f"{node.node} AS node", *index, f"{header.started_at!r} + w[2]::DOUBLE AS unix_s", *values]
    where = f"w[1] = '{name[0]}' AND {_whole(name, header)}"
    return f"SELECT {', '.join(columns)} FROM {_lines(path)} WHERE {where}"


def _whole(name: str, header: TelemetryHeader) -> str:
    """A condition: the words are a whole sample, to its last one."""
    words = len(getattr(header, name)) + (3 if name == "node" else 4)
    index = " AND TRY_CAST(w[3] AS UINTEGER) IS NOT NULL" if name == "gpu" else ""
    return f"(len(w) = {words} AND w[{words}] = '.' AND {_number('w[2]')} IS NOT NULL{index})"


def _number(word: str) -> str:
    """A word as a finite number, otherwise NULL."""
    return f"CASE WHEN isfinite(TRY_CAST({word} AS DOUBLE)) THEN {word}::DOUBLE END"


def _lines(path: Path) -> str:
    """A relation with the words `w` of each line."""
    return (
        f"(SELECT string_split(line, ' ') AS w FROM read_csv('{_quoted(path)}', "
        "columns = {'line': 'VARCHAR'}, header = false, auto_detect = false, delim = '\x1f', quote = '', "
        "escape = '', ignore_errors = true, null_padding = true, max_line_size = 1000000))"
    )


def _nothing(name: str) -> str:
    gpu = ", NULL::INTEGER AS gpu" if name == "gpu" else ""
    return f"(SELECT NULL::INTEGER AS node{gpu}, NULL::DOUBLE AS unix_s WHERE false)"


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


@contextmanager
def _connected() -> Iterator[DuckDBPyConnection]:
    import duckdb

    connection = duckdb.connect(":memory:", config={"memory_limit": "1GB"})
    try:
        yield connection
    finally:
        connection.close()


def _copy(connection: DuckDBPyConnection, name: str, path: Path) -> None:
    import duckdb

    try:
        connection.execute(f"COPY {name} TO '{_quoted(path)}' (FORMAT parquet, COMPRESSION zstd)")
    except duckdb.Error as error:
        raise HostError(f"{path}: can't be written ({str(error).splitlines()[0]})") from error
