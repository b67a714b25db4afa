"""What the sampler prints (`assay_payloads/sampling/sampler.py` describes it), as records and as tables.

DuckDB reads an attempt's lines, so that days of samples need no memory.
"""

# ruff: noqa: S608 - queries contain our own words, checked names, and quoted paths

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from assay.errors import InputError
from assay.inputs import open_plain

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MARK: Final = ":::ASSAY-TELEMETRY "
VERSION: Final = 1
COUNTER: Final = "_total"  # ends the name of a value that counts since some earlier time


@dataclass(frozen=True)
class TelemetryHeader:
    """The first line.

    started_at  time of day, seconds since 1970, to which the times of all samples are added
    period_s    between samples
    node, gpu   names of the values in a sample; [] for GPUs: this node has none
    gpus        index, as far as known `uuid` and `name`; `measures_power` is false if another one measures it
    """

    started_at: float
    period_s: float
    node: tuple[str, ...]
    gpu: tuple[str, ...]
    gpus: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class TelemetrySample:
    """The values of a node, or of one of its GPUs, at one time; one that is unknown is absent.

    at_s  since the start, monotonic
    gpu   its index; None: the node
    """

    at_s: float
    values: Mapping[str, float]
    gpu: int | None = None


@dataclass(frozen=True)
class TelemetryEvent:
    """Something that happened: the code of an Xid, or a note in words."""

    at_s: float
    words: str
    gpu: int | None = None
    xid: int | None = None


@dataclass
class Telemetry:
    """Takes in lines in their order.

    torn  lines that are not whole, or not the sampler's: a kill, a full disk
    """

    header: TelemetryHeader | None = None
    torn: int = 0

    def read(self, lines: Iterable[str]) -> Iterator[TelemetrySample | TelemetryEvent]:
        """What these lines say. Raises InputError for samples of a newer Assay."""
        for line in lines:
            entry = self._line(line)
            if entry is not None:
                yield entry

    def _line(self, line: str) -> TelemetrySample | TelemetryEvent | None:
        if line.startswith(MARK):
            self.header = _header(line)
            self.torn += self.header is None
            return None
        letter, _, rest = line.partition(" ")
        entry = None if self.header is None else _KINDS.get(letter, _nothing)(self.header, rest.split())
        self.torn += entry is None and bool(line.strip())
        return entry


def _header(line: str) -> TelemetryHeader | None:
    try:
        document = json.loads(line.removeprefix(MARK))
        version = document["version"]
        node, gpu = (tuple(map(str, document[name])) for name in ("node", "gpu"))
        gpus = tuple({**gpu_entry, "index": int(gpu_entry["index"])} for gpu_entry in document["gpus"])
        header = TelemetryHeader(float(document["started_at"]), float(document["period_s"]), node, gpu, gpus)
    except (ValueError, KeyError, TypeError):
        return None
    if version != VERSION:
        raise InputError(f"telemetry of version {version}; this Assay reads version {VERSION}: update it")
    return header


def _node(header: TelemetryHeader, fields: list[str]) -> TelemetrySample | None:
    return _sample(header.node, fields)


def _gpu(header: TelemetryHeader, fields: list[str]) -> TelemetrySample | None:
    if len(fields) < 2 or not fields[1].isdecimal():
        return None
    return _sample(header.gpu, [fields[0], *fields[2:]], int(fields[1]))


def _sample(names: tuple[str, ...], fields: list[str], gpu: int | None = None) -> TelemetrySample | None:
    if not fields or fields[-1] != ".":
        return None
    numbers = [_number(word) for word in fields[:-1]]
    if len(numbers) != len(names) + 1 or numbers[0] is None or math.inf in numbers:
        return None
    known = {name: value for name, value in zip(names, numbers[1:], strict=True) if value is not None}
    return TelemetrySample(numbers[0], known, gpu)


def _xid(_header: TelemetryHeader, fields: list[str]) -> TelemetryEvent | None:
    if len(fields) != 4 or fields[3] != "." or not (fields[1].isdecimal() and fields[2].isdecimal()):
        return None
    at_s = _number(fields[0])
    if at_s is None or at_s == math.inf:
        return None
    return TelemetryEvent(at_s, f"Xid {fields[2]}", int(fields[1]), int(fields[2]))


def _note(_header: TelemetryHeader, fields: list[str]) -> TelemetryEvent | None:
    at_s = _number(fields[0]) if len(fields) > 1 else None
    return None if at_s is None or at_s == math.inf else TelemetryEvent(at_s, " ".join(fields[1:]))


def _nothing(_header: TelemetryHeader, _words: list[str]) -> None:
    return None


def _number(word: str) -> float | None:
    """None for an unknown value, infinity for what is no number."""
    if word == "-":
        return None
    try:
        value = float(word)
    except ValueError:
        return math.inf
    return value if math.isfinite(value) else math.inf


_KINDS: Final = {"n": _node, "g": _gpu, "x": _xid, "!": _note}


def rates(before: TelemetrySample, after: TelemetrySample) -> dict[str, float]:
    """Counters as change per second, by name without `_total`; a counter that was reset has none."""
    passed_s = after.at_s - before.at_s
    return {
        name.removesuffix(COUNTER): (value - before.values[name]) / passed_s
        for name, value in after.values.items()
        if name.endswith(COUNTER) and passed_s > 0 and value >= before.values.get(name, math.inf)
    }


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
        f'{_sql_number(f"w[{skip + n}]")} AS "{column}"' for n, column in enumerate(getattr(header, name), 1)
    ]
    index = ["w[3]::INTEGER AS gpu"] if name == "gpu" else []
    columns = [f"{node.node} AS node", *index, f"{header.started_at!r} + w[2]::DOUBLE AS unix_s", *values]
    where = f"w[1] = '{name[0]}' AND {_whole(name, header)}"
    return f"SELECT {', '.join(columns)} FROM {_split_lines(path)} WHERE {where}"


def _whole(name: str, header: TelemetryHeader) -> str:
    """SQL: whether the words `w` of a line are a complete sample, including the end mark."""
    word_count = len(getattr(header, name)) + (3 if name == "node" else 4)
    index = " AND TRY_CAST(w[3] AS UINTEGER) IS NOT NULL" if name == "gpu" else ""
    return f"(len(w) = {word_count} AND w[{word_count}] = '.' AND {_sql_number('w[2]')} IS NOT NULL{index})"


def _sql_number(word: str) -> str:
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
