"""A site's own tags, from a CSV file, as columns of frames.

    label,weather                      by frame: the catalog's label, or its image
    scene,from,to,weather,road_class   by time, microseconds as the frames state them or ISO 8601 with a zone,
                                       `to` excluded; scene and camera narrow it, and may do without times

Every other column is a tag: a number if all of its values are numbers, else text. An empty value is unknown.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from assay.data.catalog import Catalog
from assay.data.classes import query_words
from assay.data.frames import Column
from assay.errors import InputError, Problem
from assay.inputs import read_whole

FRAME_KEYS: Final = ("label", "image")
PLACE_KEYS: Final = ("scene", "camera")
TIME_KEYS: Final = ("from", "to")
MOST_BYTES: Final = 2 << 30
MOST_SHOWN: Final = 20  # problems
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class TagJoin:
    """What tags met.

    rows              of the file
    unmatched_rows    that no frame belongs to; first_unmatched: lines of the first of them
    frames            that got tags
    unmatched_frames  that no row belongs to
    """

    columns: tuple[str, ...]
    rows: int
    unmatched_rows: int
    first_unmatched: tuple[int, ...]
    frames: int
    unmatched_frames: int


@dataclass
class _Table:
    """A file of tags, checked: the line of each row, and the values of its keys and tags by column."""

    path: Path
    keys: tuple[str, ...]
    lines: list[int] = field(default_factory=list)
    key_values: list[tuple[Any, ...]] = field(default_factory=list)
    tags: dict[str, list[str]] = field(default_factory=dict)


def join_tags(catalog: Catalog, path: Path) -> TagJoin:
    """Replace the tags of a catalog's frames by those of a file.

    Raises InputError with everything that is wrong with it: a row that makes no sense, a frame with two rows,
    intervals that overlap, a tag named like a column that there is, or times that no frame is from.
    """
    import numpy as np

    table = _parsed(path)
    columns = [_column(name, values) for name, values in table.tags.items()]
    _check_names(catalog, path, list(table.tags), columns)
    _check_overlaps(table)
    arrays: dict[str, Any] = {"line": np.array(table.lines, dtype=np.int64)}
    for number, key in enumerate(table.keys):
        values = [row[number] for row in table.key_values]
        arrays[f"key_{key}"] = np.array(values, dtype=np.int64 if key in TIME_KEYS else object)
    for column, values in zip(columns, table.tags.values(), strict=True):
        arrays[column.name] = _array(column, values)
    on = _on(table.keys)
    counts = _counts(catalog, arrays, on, path, table)
    catalog.join("tags", columns, arrays, on)
    return TagJoin(tuple(column.name for column in columns), len(table.lines), *counts)


def _parsed(path: Path) -> _Table:
    try:
        text = read_whole(path, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError([Problem(str(path), f"is not UTF-8 text: byte {error.start}")]) from None
    rows = _rows(path, text)
    try:
        _, header = next(rows)
    except StopIteration:
        raise InputError(
            [Problem(str(path), "is empty; expected a line with the names of its columns")]
        ) from None
    names = [name.strip() for name in header]
    table = _Table(path, _keys(path, names))
    places = {name: index for index, name in enumerate(names)}
    table.tags = {name: [] for name in names if name not in table.keys}
    problems: list[Problem] = []
    for line, row in rows:
        if len(row) != len(names):
            problems.append(Problem(f"{path}:{line}", f"has {len(row)} values; expected {len(names)}"))
            continue
        try:
            keys = tuple(_key(key, row[places[key]].strip()) for key in table.keys)
        except ValueError as error:
            problems.append(Problem(f"{path}:{line}", str(error)))
            continue
        table.lines.append(line)
        table.key_values.append(keys)
        for name, values in table.tags.items():
            values.append(row[places[name]].strip())
    _raise(problems)
    return table


def _rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Number of the line and values of each row that isn't empty."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    before = 0
    try:
        for row in reader:
            line, before = before + 1, reader.line_num
            if row:
                yield line, row
    except csv.Error as error:
        raise InputError([Problem(f"{path}:{reader.line_num}", f"is not CSV: {error}")]) from None


def _keys(path: Path, names: Sequence[str]) -> tuple[str, ...]:
    problems = [Problem(f"{path}:1", "has a column without a name")] if "" in names else []
    twice = sorted({name for name in names if names.count(name) > 1})
    problems += [Problem(f"{path}:1", f"has two columns {name!r}") for name in twice]
    keys = tuple(name for name in (*FRAME_KEYS, *PLACE_KEYS, *TIME_KEYS) if name in names)
    by_frame = [key for key in keys if key in FRAME_KEYS]
    if by_frame:
        keys = (by_frame[0],)
    elif not keys or ("from" in keys) != ("to" in keys):
        expected = "label or image, or scene, camera, or both from and to"
        problems.append(
            Problem(f"{path}:1", f"has the columns {', '.join(names)[:200]}; expected {expected}")
        )
    if len(keys) == len(names):
        problems.append(Problem(f"{path}:1", "has no tags beside the columns that say which frames"))
    _raise(problems)
    return keys


def _key(key: str, value: str) -> Any:
    """A key's value. Raises ValueError that says what is wrong."""
    if not value:
        raise ValueError(f"{key} is empty")
    if key not in TIME_KEYS:
        return value
    if value.lstrip("-").isdecimal():
        number = int(value)
    else:
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            expected = "microseconds since 1970, or a time with a zone like 2018-08-07T14:50:28Z"
            raise ValueError(f"{key} is {value[:40]!r}; expected {expected}")
        since = moment - _EPOCH
        number = (since.days * 86400 + since.seconds) * 10**6 + since.microseconds
    if not -(2**62) < number < 2**62:
        raise ValueError(f"{key} is {value[:40]!r}: too large for microseconds")
    return number


def _column(name: str, values: Sequence[str]) -> Column:
    stated = [value for value in values if value]
    number = bool(stated) and all(map(_is_number, stated))
    return Column(query_words([name])[0], "number" if number else "text", "tags")


def _is_number(value: str) -> bool:
    try:
        return math.isfinite(float(value)) and "_" not in value
    except ValueError:
        return False


def _array(column: Column, values: Sequence[str]) -> Any:
    """With an unknown value masked, which DuckDB takes for NULL."""
    import numpy as np

    unknown = [not value for value in values]
    if column.kind == "number":
        return np.ma.array([float(value or 0) for value in values], mask=unknown, dtype=np.float64)
    texts = np.empty(len(values), dtype=object)
    texts[:] = [value or None for value in values]
    return texts


def _check_names(catalog: Catalog, path: Path, named: Sequence[str], columns: Sequence[Column]) -> None:
    there = set(catalog.columns) - {column.name for column in catalog.about.extra if column.source == "tags"}
    problems = []
    seen: set[str] = set()
    for name, column in zip(named, columns, strict=True):
        if column.name in there:
            problems.append(
                Problem(f"{path}:1", f"the tag {name!r} has the name of a column of frames; rename it")
            )
        elif column.name in seen:
            problems.append(
                Problem(f"{path}:1", f"two tags become the column {column.name}; rename {name!r}")
            )
        seen.add(column.name)
    _raise(problems)


def _check_overlaps(table: _Table) -> None:
    """Raises InputError where two rows are of the same frames."""
    timed = "from" in table.keys
    order = sorted(range(len(table.lines)), key=lambda n: table.key_values[n])
    problems = []
    last: int | None = None  # of the same place, the row that ends last
    for number in order:
        *place, begin, end = table.key_values[number] if timed else (*table.key_values[number], 0, 1)
        where = f"{table.path}:{table.lines[number]}"
        if end <= begin:
            problems.append(Problem(where, "ends before it begins: expected `to` later than `from`"))
            continue
        if last is not None:
            *before, _, last_end = table.key_values[last] if timed else (*table.key_values[last], 0, 1)
            if before == place and begin < last_end:
                what = "overlaps the interval" if timed else "is of the same frames as the row"
                problems.append(Problem(where, f"{what} in line {table.lines[last]}"))
            if before == place and last_end >= end:
                continue
        last = number
    _raise(problems)


def _on(keys: Sequence[str]) -> str:
    conditions = [f"f.{key} = t.key_{key}" for key in keys if key not in TIME_KEYS]
    if "from" in keys:
        conditions.append("f.taken_us >= t.key_from AND f.taken_us < t.key_to")
    return " AND ".join(conditions)


def _counts(
    catalog: Catalog, arrays: dict[str, Any], on: str, path: Path, table: _Table
) -> tuple[int, tuple[int, ...], int, int]:
    """Rows without frames, the first of their lines, frames with and without a row."""
    connection = catalog.connection
    connection.register(
        "joined", {name: arrays[name] for name in arrays if name == "line" or name[:4] == "key_"}
    )
    lone = [
        line
        for (line,) in connection.execute(
            f"SELECT line FROM joined t WHERE NOT EXISTS (FROM frames f WHERE {on}) ORDER BY line"  # noqa: S608
        ).fetchall()
    ]
    (row,) = connection.execute(f"SELECT count(*) FROM frames f JOIN joined t ON {on}").fetchall()  # noqa: S608
    connection.unregister("joined")
    (times,) = connection.execute("SELECT count(*), min(taken_us), max(taken_us) FROM frames").fetchall()
    if "from" in table.keys and table.lines and not row[0] and times[1] is not None:
        first, last = (table.keys.index(key) for key in TIME_KEYS)
        begin, end = (
            min(keys[first] for keys in table.key_values),
            max(keys[last] for keys in table.key_values),
        )
        apart = max(begin - times[2], times[1] - end, 0) / 1e6
        raise InputError(
            [
                Problem(
                    str(path),
                    f"no frame was taken in its times, {_time(begin)} to {_time(end)}; the frames are from "
                    f"{_time(times[1])} to {_time(times[2])}"
                    + (f", {apart:,.0f} s apart" if apart else "")
                    + ": do the clocks agree?",
                )
            ]
        )
    return len(lone), tuple(lone[:5]), row[0], times[0] - row[0]


def _time(us: int) -> str:
    try:
        return datetime.fromtimestamp(us // 10**6, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return f"{us} µs"


def _raise(problems: Sequence[Problem]) -> None:
    if not problems:
        return
    more = len(problems) - MOST_SHOWN
    rest = [Problem("", f"and {more:,} more like these")] if more > 0 else []
    raise InputError([*problems[:MOST_SHOWN], *rest])
