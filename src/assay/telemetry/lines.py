"""The sampler's lines of an attempt as tables, through DuckDB, so that days of samples need no memory."""

# ruff: noqa: S608 - queries contain our own words, checked names, and quoted paths

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assay.inputs import open_plain
from assay.telemetry.samples import Telemetry, TelemetryEvent, TelemetryHeader

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

STREAM: Final = "telemetry-"  # begins the name of a sampler's stream
TABLES: Final = ("node", "gpu")
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


def sampler_logs(directory: Path) -> dict[int, Path]:
    """The samplers' lines, by node."""
    paths = (directory / "logs").glob(f"{STREAM}*.log")
    numbers = {path.stem.removeprefix(STREAM): path for path in paths}
    return {int(number): path for number, path in sorted(numbers.items()) if number.isdecimal()}


def nodes_of(logs: Mapping[int, Path]) -> tuple[NodeTelemetry, ...]:
    """Everything but the samples, which are only counted."""
    node_telemetry = []
    for number, path in logs.items():
        telemetry, events = Telemetry(), []
        with open_plain(path) as log:
            lines = (line.decode(errors="replace") for line in log)
            for event in telemetry.read(line for line in lines if not line.startswith(("n ", "g "))):
                assert isinstance(event, TelemetryEvent)
                events.append(event)
        if telemetry.header is not None and is_sound(telemetry.header):
            counts = _counts(path, telemetry.header)
            node_telemetry.append(NodeTelemetry(number, telemetry.header, tuple(events), *counts))
    return tuple(node_telemetry)


def is_sound(header: TelemetryHeader) -> bool:
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
            FROM {_split_lines(path)} WHERE w[1] IN ('n', 'g'))"""
    with connected() as connection:
        samples, torn = connection.execute(query).fetchall()[0]
    return samples, torn


@contextmanager
def reading_lines(logs: Mapping[int, Path], nodes: Sequence[NodeTelemetry]) -> Iterator[DuckDBPyConnection]:
    """A connection with the views `node` and `gpu` of these logs."""
    with connected() as connection:
        for name in TABLES:
            parts = [_rows(name, node, logs[node.node]) for node in nodes] or [
                f"SELECT * FROM {no_rows(name)}"
            ]
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
    return f"SELECT {', '.join(columns)} FROM {_split_lines(path)} WHERE {where}"


def _whole(name: str, header: TelemetryHeader) -> str:
    """SQL: whether the words `w` of a line are a complete sample, including the end mark."""
    word_count = len(getattr(header, name)) + (3 if name == "node" else 4)
    index = " AND TRY_CAST(w[3] AS UINTEGER) IS NOT NULL" if name == "gpu" else ""
    return f"(len(w) = {word_count} AND w[{word_count}] = '.' AND {_number('w[2]')} IS NOT NULL{index})"


def _number(word: str) -> str:
    """A word as a finite number, otherwise NULL."""
    return f"CASE WHEN isfinite(TRY_CAST({word} AS DOUBLE)) THEN {word}::DOUBLE END"


def _split_lines(path: Path) -> str:
    """A relation with the words `w` of each line."""
    return (
        f"(SELECT string_split(line, ' ') AS w FROM read_csv('{quoted(path)}', "
        "columns = {'line': 'VARCHAR'}, header = false, auto_detect = false, delim = '\x1f', quote = '', "
        "escape = '', ignore_errors = true, null_padding = true, max_line_size = 1000000))"
    )


def no_rows(name: str) -> str:
    """A relation of a table's own columns, without rows."""
    gpu = ", NULL::INTEGER AS gpu" if name == "gpu" else ""
    return f"(SELECT NULL::INTEGER AS node{gpu}, NULL::DOUBLE AS unix_s WHERE false)"


def quoted(path: Path) -> str:
    """A path for a string of SQL."""
    return str(path).replace("'", "''")


@contextmanager
def connected() -> Iterator[DuckDBPyConnection]:
    """A connection of its own, with bounded memory."""
    import duckdb

    connection = duckdb.connect(":memory:", config={"memory_limit": "1GB"})
    connection.execute("SET enable_progress_bar = false")  # it is drawn on standard output
    try:
        yield connection
    finally:
        connection.close()
