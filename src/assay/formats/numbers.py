"""A spreadsheet of benchmark figures as CSV: one row per figure, columns by name.

`system`, `metric`, `run`, and `value` are required. `workload`, `shape`, `unit`, `session`, `better`, and
`started_at` are known; every other column is a label that distinguishes a figure from its siblings, except
those that describe how the run was made (`FACTS`). A table from `assay export` is
recognized by its columns (`exported`). The separator is a comma, semicolon, or tab, whichever is most
frequent in the header.

A row of `assay export` uses other names for the same figure: what a spreadsheet calls workload is the
benchmark here; labels are one cell of JSON; and `suite`, `file`, and `line` say where a figure came from, not
what it measures.

Imported figures are read, never run. A run's log is its rows of the sheet.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeVar, cast

from pydantic import Field

from assay.errors import InputError, Problem
from assay.formats.figures import LARGEST_FIGURE
from assay.formats.reader import Params, Reader
from assay.inputs import read_whole
from assay.records import (
    LATEST_TIME,
    Better,
    Measurement,
    Metric,
    NodeCounts,
    Reading,
    Scalar,
    Shape,
    from_json,
)
from assay.units import factor

# Names with an undisputed direction. Others need a declared direction, or there is no verdict of faster or
# slower. The third value says whether the metric ideally grows (a time: shrinks) with the ranks.
_KNOWN: tuple[tuple[str, Better, bool], ...] = (
    ("time_to_train", "lower", True),
    ("time_per_epoch", "lower", True),
    ("epoch_time", "lower", True),
    ("throughput", "higher", True),
    ("images_per_s", "higher", True),
    ("images_per_second", "higher", True),
    ("samples_per_s", "higher", True),
    ("samples_per_second", "higher", True),
    ("tokens_per_s", "higher", True),
    ("tokens_per_second", "higher", True),
    ("queries_per_s", "higher", True),
    ("qps", "higher", True),
    ("flop_rate", "higher", True),
    ("runtime", "lower", True),
    ("wall_time", "lower", True),
    ("duration", "lower", True),
    ("step_time", "lower", False),
    ("busbw", "higher", False),
    ("algbw", "higher", False),
    ("bandwidth", "higher", False),
    ("latency", "lower", False),
    ("mfu", "higher", False),
    ("accuracy", "higher", False),
    ("top1", "higher", False),
    ("loss", "lower", False),
)

# Columns that describe how the run was made. Assay's programs state the same facts; doubts are based on them.
FACTS = ("device", "device_name", "precision", "global_batch_size")


class NumbersParams(Params):
    """What the sheet says about its metrics."""

    better: Mapping[str, Better] = Field(
        default_factory=dict, description="Better direction by metric name, from the column `better`."
    )


def direction(metric: str, stated: Mapping[str, Better]) -> Better | None:
    """Which direction is better: from the sheet, otherwise from the name; None if neither says."""
    return stated.get(metric) or next((better for name, better, _ in _KNOWN if name == metric), None)


def _metrics(params: NumbersParams) -> tuple[Metric, ...]:
    """Metrics with a direction; each figure carries its unit."""
    known = {name: (better, scales) for name, better, scales in _KNOWN}
    stated = {name: (better, known.get(name, ("", True))[1]) for name, better in params.better.items()}
    return tuple(
        Metric(name, "", better, "as in the spreadsheet", scales)
        for name, (better, scales) in {
            **stated,
            **{n: entry for n, entry in known.items() if n not in stated},
        }.items()
    )


def _read(logs: Mapping[str, Path], _params: NumbersParams) -> Reading:
    [(name, path), *more] = logs.items()
    if more:
        return Reading(problems=(f"found {len(logs)} sheets of one run; expected one",))
    table, problems = parse(read_whole(path).decode(errors="replace"), name)
    if problems:
        return Reading(problems=tuple(map(str, problems)))
    stated = {column: row.labels[column] for row in table.rows for column in FACTS if column in row.labels}
    if any(row.labels.get(column, fact) != fact for row in table.rows for column, fact in stated.items()):
        return Reading(problems=(f"its rows contradict each other in {', '.join(stated)}",))
    measurements = tuple(
        Measurement(row.metric, row.value, row.unit, _without_facts(row.labels), name, row.line)
        for row in table.rows
        if row.value is not None
    )
    reason = () if measurements else ("the sheet has no value for this run",)
    return Reading(measurements, facts=stated, problems=reason)


def _without_facts(labels: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    return {name: value for name, value in labels.items() if name not in FACTS}


NUMBERS = Reader(
    name="numbers",
    params=NumbersParams,
    metrics=_metrics,
    read=_read,
    version=2,
)


T = TypeVar("T")
_OWN: Final = ("benchmark", "suite", "block", "labels", "file", "line")
_ALL: Final = (
    *("system", "benchmark", "workload", "shape", "metric", "unit", "run", "suite", "session", "block"),
    *("value", "labels", "file", "line", "better", "started_at", "conditions"),
)

_KEPT_AS_TEXT = re.compile(r"\A'(?='*[-=+@\t\r\n])")  # so that no spreadsheet takes it for a formula


@dataclass(frozen=True)
class Conditions:
    """What an interval and doubts need of how a run was made; fields as in `Run`."""

    interleaved: bool = False
    outside_block: bool = False
    looks: tuple[int, ...] = ()
    nodes: tuple[NodeCounts, ...] = ()


@dataclass(frozen=True)
class ExportedRun:
    """Of which run a row is: its block, and how it was made."""

    block: int
    conditions: Conditions


def is_export(header: Collection[str]) -> bool:
    """Whether a table's columns are those that `assay export` writes; it may have others, too."""
    return set(_OWN) <= set(header)


def as_sheet(cells: Mapping[str, str]) -> tuple[dict[str, str], dict[str, Scalar], ExportedRun]:
    """The row's cells by spreadsheet column, its labels, and the facts of its run.

    Raises ValueError, with the column's name, if a cell is not one that `assay export` writes.
    """
    cells = {name: _KEPT_AS_TEXT.sub("", text) for name, text in cells.items()}
    sheet_cells = {name: text for name, text in cells.items() if name not in _ALL}
    sheet_cells |= {name: cells[name] for name in ("system", "shape", "metric", "unit", "session", "value")}
    sheet_cells |= {name: cells.get(name, "") for name in ("better", "started_at")}
    sheet_cells["workload"] = cells["benchmark"]
    sheet_cells["run"] = _number(cells)
    if not cells["block"].isdecimal():
        raise ValueError(f"block: {cells['block']!r} is no number")
    labels = _record(dict[str, Scalar], cells["labels"], "labels")
    conditions = _record(Conditions, cells.get("conditions", ""), "conditions")
    return sheet_cells, labels, ExportedRun(int(cells["block"]), conditions)


def _number(cells: Mapping[str, str]) -> str:
    """A run's number among those of its point; of a swept point, its trial's whole name."""
    trial = cells["run"].rpartition("/")[2]
    stems = (f"{cells['benchmark']}-{cells['shape']}{system}-r" for system in (f"-{cells['system']}", ""))
    return next(
        (trial[len(s) :] for s in stems if trial.startswith(s) and trial[len(s) :].isdecimal()), trial
    )


def _record(kind: type[T], text: str, column: str) -> T:
    try:
        return from_json(kind, text or "{}")
    except ValueError:
        raise ValueError(f"{column}: {text!r} is none that `assay export` writes") from None


NEEDED: Final = ("system", "metric", "run", "value")
DEFAULTS: Final[Mapping[str, str]] = {
    "workload": "numbers",
    "shape": "1x1",
    "unit": "",
    "session": "1",
    "better": "",
    "started_at": "",
}
_COLUMNS: Final = (*NEEDED, *DEFAULTS)
_SEPARATORS: Final = (",", ";", "\t")
_EXCELS_LINE: Final = re.compile(r"\Asep=[,;\t](?=\r?\n)", re.IGNORECASE)  # tells Excel what the header shows
_MOST_PROBLEMS: Final = 100


@dataclass(frozen=True)
class SheetRow:
    """One figure.

    line    in the file, from 1
    text    unchanged from the file, including its end of line
    value   None if the cell is empty: the run gave none
    better  as the row says; None if it says nothing
    started_at  when the run started, seconds since the epoch; None if the row doesn't say
    labels  the nonempty cells of the other columns; whole and plain decimal numbers as numbers
    exported  for a row from `assay export`; None for any other
    """

    line: int
    text: str
    system: str
    workload: str
    shape: Shape
    metric: str
    unit: str
    run: str
    session: str
    value: float | None
    better: Better | None
    started_at: float | None
    labels: Mapping[str, Scalar]
    exported: ExportedRun | None = None


@dataclass(frozen=True)
class Sheet:
    """The rows of a file and its unchanged header line."""

    header: str
    rows: tuple[SheetRow, ...]


def load(path: Path) -> Sheet:
    """The table in a file. Raises InputError with every problem, each with its line."""
    try:
        text = read_whole(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text ({error.reason}); save it as CSV in UTF-8") from error
    table, problems = parse(text, str(path))
    if problems:
        more = len(problems) - _MOST_PROBLEMS
        shown = problems[:_MOST_PROBLEMS]
        if more > 0:
            shown.append(Problem(str(path), f"and {more} more problems like these"))
        raise InputError(shown)
    return table


def parse(text: str, where: str) -> tuple[Sheet, list[Problem]]:
    """The valid rows, and what is wrong with the others or with the rows together.

    where  the file as problems name it
    """
    text = _EXCELS_LINE.sub("", text)
    separator = _separator(text)
    records, problems = _records(text, separator, where)
    if not records:
        problem = Problem(
            where, f"not a table; the first line must name the columns, like {','.join(_COLUMNS)}"
        )
        return Sheet("", ()), problems or [problem]
    (line, header_text, cells), *body = records
    header = [cell.strip().lower() for cell in cells]
    wrong = _header_problems(header, f"{where}:{line}")
    if wrong:
        return Sheet(header_text, ()), problems + wrong
    rows: list[SheetRow] = []
    for line, record, values in body:
        if not any(value.strip() for value in values):
            continue
        row, row_problems = _row(line, record, values, header, separator, f"{where}:{line}")
        problems += row_problems
        if row is not None:
            rows.append(row)
    if not rows and not problems:
        problems.append(Problem(where, "the table has no rows"))
    return Sheet(header_text, tuple(rows)), problems + _together(rows, where)


def _separator(text: str) -> str:
    first = text.lstrip().partition("\n")[0]
    return max(_SEPARATORS, key=first.count)


def _records(text: str, separator: str, where: str) -> tuple[list[tuple[int, str, list[str]]], list[Problem]]:
    """Each record with its first line's number and its own text; a quoted cell may contain line ends."""
    lines = list(io.StringIO(text, newline=""))
    reader = csv.reader(lines, delimiter=separator, strict=True)
    records: list[tuple[int, str, list[str]]] = []
    before = 0
    try:
        for cells in reader:
            if cells:
                records.append((before + 1, "".join(lines[before : reader.line_num]), cells))
            before = reader.line_num
    except csv.Error as error:
        return records, [Problem(f"{where}:{before + 1}", f"not CSV ({error}); check for an unclosed quote")]
    return records, []


def _header_problems(header: Sequence[str], where: str) -> list[Problem]:
    twice = sorted({name for name in header if header.count(name) > 1})
    problems = [Problem(where, f"two columns are called {name!r}; rename one") for name in twice]
    strangers = [name for name in header if name not in _COLUMNS]
    for name in _COLUMNS:
        if name in header:
            continue
        near = get_close_matches(name, strangers, n=1, cutoff=0.8)
        if near:
            problems.append(Problem(where, f"column {near[0]!r}: did you mean {name}? If not, rename it"))
        elif name in NEEDED:
            problems.append(Problem(where, f"no column {name}; it has {', '.join(header)}"))
    return problems


def _row(
    line: int, text: str, cells: Sequence[str], header: Sequence[str], separator: str, where: str
) -> tuple[SheetRow | None, list[Problem]]:
    if len(cells) != len(header):
        return None, [Problem(where, f"{len(cells)} cells, but the header has {len(header)}")]
    by_column = dict(zip(header, (cell.strip() for cell in cells), strict=True))
    exported_labels, exported = dict[str, Scalar](), None
    if is_export(header):
        try:
            by_column, exported_labels, exported = as_sheet(by_column)
        except ValueError as error:
            return None, [Problem(where, str(error))]
    cell = {name: by_column.get(name) or default for name, default in DEFAULTS.items()}
    cell |= {name: by_column[name] for name in NEEDED}
    problems = [
        Problem(where, f"{name} is empty; write what the figure measures")
        for name in NEEDED
        if name != "value" and not cell[name]
    ]
    shape, value, started_at, better = Shape(1, 1), None, None, cell["better"].lower()
    try:
        shape = Shape.parse(cell["shape"])
    except ValueError as error:
        problems.append(Problem(where, f"shape: {error}"))
    try:
        value = _value(cell["value"], separator)
    except ValueError as error:
        problems.append(Problem(where, f"value: {error}"))
    try:
        started_at = _time(cell["started_at"])
    except ValueError as error:
        problems.append(Problem(where, f"started_at: {error}"))
    if better not in ("higher", "lower", ""):
        problems.append(
            Problem(where, f"better: {cell['better']!r}; write higher or lower, or leave it empty")
        )
    if problems:
        return None, problems
    row = SheetRow(
        line=line,
        text=text,
        system=cell["system"],
        workload=cell["workload"],
        shape=shape,
        metric=cell["metric"],
        unit=cell["unit"],
        run=cell["run"],
        session=cell["session"],
        value=value,
        better=cast("Better", better) if better else None,
        started_at=started_at,
        labels=exported_labels
        | {name: _scalar(text) for name, text in by_column.items() if name not in _COLUMNS and text},
        exported=exported,
    )
    return row, []


def _value(text: str, separator: str) -> float | None:
    if not text:
        return None
    try:
        value = float(text.replace("_", "x"))  # Python's 1_000 is not a number in a spreadsheet
    except ValueError:
        hint = " with a point, not a comma" if "," in text and separator != "," else ""
        raise ValueError(f"{text!r} is not a number; write it{hint} like 1234.5, without its unit") from None
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a result; leave the cell empty if a run has none")
    return value


def _time(text: str) -> float | None:
    if not text:
        return None
    try:
        when = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time; write it like 2026-11-22T09:30:00, or leave it empty"
        ) from None
    seconds = (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    if not 0 <= seconds <= LATEST_TIME:
        raise ValueError(f"{text!r} is not a time from 1970 to 9998")
    return seconds


def _scalar(text: str) -> Scalar:
    """A cell as a number, if writing the number gives the same text."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        if str(number) == text and -LARGEST_FIGURE <= number <= LARGEST_FIGURE:
            return number
    return text


def _together(rows: Sequence[SheetRow], where: str) -> list[Problem]:
    """What only several rows show: the same figure twice, units or directions that contradict each other."""
    return sorted(
        (*_twice(rows, where), *_contradictions(rows, where)),
        key=lambda problem: int(problem.where.rpartition(":")[2]),
    )


def _twice(rows: Sequence[SheetRow], where: str) -> Iterator[Problem]:
    first: dict[tuple[object, ...], int] = {}
    for row in rows:
        labels = tuple(sorted((name, str(value)) for name, value in row.labels.items()))
        key = (row.session, row.system, row.workload, row.shape, row.run, row.metric, labels)
        line = first.setdefault(key, row.line)
        if line != row.line:
            yield Problem(
                f"{where}:{row.line}",
                f"run {row.run} of {row.system} already has {row.metric} in line {line}; give each run its "
                "own number, or add columns that distinguish the two",
            )


def _contradictions(rows: Sequence[SheetRow], where: str) -> Iterator[Problem]:
    units: dict[tuple[str, str], SheetRow] = {}
    directions: dict[tuple[str, str], SheetRow] = {}
    for row in rows:
        metric, place = (row.workload, row.metric), f"{where}:{row.line}"
        before = units.setdefault(metric, row)
        if factor(before.unit)[1] != factor(row.unit)[1]:
            yield Problem(
                place,
                f"{row.metric} is in {row.unit or 'no unit'!r} here and in {before.unit or 'no unit'!r} in "
                f"line {before.line}: they can't be compared; use one unit, or give the metrics different "
                "names",
            )
        if row.better is None:
            continue
        before = directions.setdefault(metric, row)
        if before.better != row.better:
            yield Problem(
                place,
                f"{row.metric} is better {row.better} here and better {before.better} in line {before.line}",
            )
