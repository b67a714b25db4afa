"""What nccl-tests (and rccl-tests) print → one `NcclTest`: the table of any version since 2017, or its JSON.

    #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw …
    #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s) …
        33554432       8388608     float     sum      -1    195.4  171.72  300.51      0    195.4  171.73 …

Columns are named by the header. Launchers put words before lines, and NCCL's own lines can fall between rows
or into one: a row whose size, time and bandwidth do not agree is not taken, and counted.

Figures are rounded where they are printed, the bandwidth of a small message to nothing at all. So it is made
again from size and time, where these are the sharper, and bus bandwidth is the part of it that the table's
clearest row shows.

Source: NVIDIA/nccl-tests, src/common.cu and src/util.cu, doc/PERFORMANCE.md.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Final, NamedTuple

from assay.errors import InputError, Problem
from assay.records import Scalar

LONGEST_LINE: Final = 2000  # characters
_HEADER = re.compile(r"#\s+(?:size|bytes)\s.*\balgbw\b.*\bbusbw\b")
_UNITS = re.compile(r"#\s+\(B\)\s")
_ROW = re.compile(r"(?:^|\s|[:>])(\d+)\s+(\d+)\s+([a-z]\w*)(?=\s)(.*)")
_DEVICE = re.compile(
    r"#\s+Rank\s+(\d+) (?:Group\s+\d+ )?Pid\s+\d+ on\s+(\S+) device\s+(\d+) \[(\w[\w:.]*)\] (.+)"
)
_OUT_OF_BOUNDS = re.compile(r"# Out of bounds values : (\d+) (OK|FAILED)")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s+: (\S+)")
_STARTING = re.compile(r"# Collective test starting: (\w+?)(?:_perf)?\s*$")
_VERSION = re.compile(r"# nccl-tests version (\S+) nccl-headers=(\d+) nccl-library=(\d+)")
_FAILED = re.compile(r"Test (?:NCCL|CUDA) failure .*|: Test failure common\.\S+.*")
_GB = 1e9
_SLACK = 1e-6  # of floating point


@dataclass(frozen=True)
class Timing:
    """One way of one row.

    time_s        of one operation
    algbw, busbw  bytes a second, as nccl-tests defines them
    wrong         elements that were not as expected; None where that was not checked or not counted
    """

    time_s: float
    algbw: float
    busbw: float
    wrong: int | None


@dataclass(frozen=True)
class Row:
    """One size.

    size_bytes  as printed: of the whole exchange
    redop       `sum`, `none`; "" where the version does not print it
    """

    size_bytes: int
    dtype: str
    redop: str
    out_of_place: Timing | None
    in_place: Timing | None
    line: int


@dataclass(frozen=True)
class Device:
    """A rank's place, as the test lists it."""

    rank: int
    host: str
    device: int
    name: str


@dataclass(frozen=True)
class NcclTest:
    """A run of one of the tests.

    operation  `all_reduce`; "" where the version does not print it
    average    bus bandwidth over all rows, bytes a second, as printed
    problem    why it is no result; "" where it is one
    skipped    lines that begin as a row does and are none
    """

    operation: str
    rows: tuple[Row, ...]
    devices: tuple[Device, ...]
    average: float | None
    facts: Mapping[str, Scalar]
    problem: str
    skipped: int


def nccl_test(path: Path) -> NcclTest:
    """What a log or JSON report says. Raises InputError where it can't be read."""
    try:
        with path.open("rb") as log:
            if log.read(1) == b"{":
                return _of_json(path)
            log.seek(0)
            return _of_table(raw[:LONGEST_LINE].decode("latin-1").rstrip("\r\n") for raw in log)
    except OSError as error:
        raise InputError([Problem(str(path), f"can't be read: {error.strerror or error}")]) from error


def is_nccl_test(path: Path) -> bool:
    """Whether a file holds a table of the program. Raises InputError where it can't be read."""
    found = nccl_test(path)
    return bool(found.rows or found.operation)


# The table -----------------------------------------------------------------------------------------------


def _columns(names: Sequence[str]) -> Sequence[str]:
    """None where another line fell into the header."""
    starts = [place for place, name in enumerate(names) if name == "time"]
    whole = all(list(names[place : place + 3]) == ["time", "algbw", "busbw"] for place in starts)
    return names if starts and whole else ()


@dataclass
class _Table:
    """Columns as the last header has them; `scale` makes seconds of a time, 2017's was in ms."""

    columns: Sequence[str] = ()
    scale: float = 1e-3


def _of_table(lines: Iterable[str]) -> NcclTest:
    rows: list[_Printed] = []
    devices: dict[int, Device] = {}
    facts: dict[str, Scalar] = {}
    table, operation, skipped, average, failures = _Table(), "", 0, None, []
    bounds: tuple[int, bool] | None = None
    for number, line in enumerate(lines, 1):
        if found := _HEADER.search(line):
            table = _Table(_columns(line[found.start() + 1 :].split()))
        elif _UNITS.search(line):
            table.scale = 1e-6 if "(us)" in line else table.scale
        elif found := _DEVICE.search(line):
            devices[int(found[1])] = Device(int(found[1]), found[2], int(found[3]), found[5].strip())
        elif found := _OUT_OF_BOUNDS.search(line):
            bounds = int(found[1]), found[2] == "OK"
        elif found := _AVERAGE.search(line):
            average = _bandwidth(found[1])
        elif found := _STARTING.search(line):
            operation = found[1]
        elif found := _VERSION.search(line):
            facts = {"nccl_tests_version": found[1], "nccl_version": _version(int(found[3]))}
        elif found := _FAILED.search(line):
            failures.append(found[0].strip(" :"))
        elif table.columns and (found := _ROW.search(line)) and "#" not in line:
            row = _row(found, table, number)
            skipped += row is None
            rows += [row] if row else []
    whole = list(_agreeing(rows))
    skipped += len(rows) - len(whole)
    facts |= {"ranks": len(devices)} if devices else {}
    return NcclTest(
        operation, tuple(whole), tuple(devices.values()), average,
        facts, _problem(whole, bounds, failures), skipped,
    )  # fmt: skip


class _Figure(NamedTuple):
    """A number as printed, and half of its last digit."""

    value: float
    half: float

    def times(self, scale: float) -> _Figure:
        """In another unit."""
        return _Figure(self.value * scale, self.half * scale)

    @property
    def blur(self) -> float:
        """How much of it is rounding, at most."""
        return self.half / self.value if self.value else math.inf


@dataclass(frozen=True)
class _Way:
    """One way of a row: time in s, bandwidths in bytes a second."""

    time: _Figure
    algbw: _Figure
    busbw: _Figure
    wrong: int | None

    def fits(self, size_bytes: int) -> bool:
        """Whether bandwidth is size over time, as far as both were printed."""
        shortest, longest = self.time.value - self.time.half, self.time.value + self.time.half
        if shortest < 0 or longest == 0:
            return False
        fastest = size_bytes / shortest if shortest else math.inf
        low, high = self.algbw.value - self.algbw.half, self.algbw.value + self.algbw.half
        return size_bytes / longest <= high * (1 + _SLACK) and fastest >= low * (1 - _SLACK)

    def timing(self, size_bytes: int, bus: float) -> Timing:
        """What was measured; `bus`: bus bandwidth over algorithmic."""
        algbw = self.algbw.value if self.algbw.blur < self.time.blur else size_bytes / self.time.value
        return Timing(self.time.value, algbw, algbw * bus, self.wrong)


@dataclass(frozen=True)
class _Printed:
    """A row as printed."""

    size_bytes: int
    dtype: str
    redop: str
    ways: tuple[_Way | None, ...]
    line: int


def _row(found: re.Match[str], table: _Table, line: int) -> _Printed | None:
    """None where a figure is missing or can't be read."""
    names, values = list(table.columns), [found[1], found[2], found[3], *found[4].split()]
    if len(values) < len(names):
        return None
    starts = [place for place, name in enumerate(names) if name == "time"]
    head = dict(zip(names[: starts[0]], values, strict=False))
    ways = []
    for start, end in zip(starts, [*starts[1:], len(names)], strict=True):
        texts = dict(zip(names[start:end], values[start:end], strict=True))
        figures = {name: _figure(text) for name, text in texts.items()}
        if any(figures[name] is None and text != "N/A" for name, text in texts.items()):
            return None  # torn by another line
        time, algbw, busbw = (figures[name] for name in ("time", "algbw", "busbw"))
        if time is None or algbw is None or busbw is None:
            return None
        wrong = figures.get("#wrong")
        ways.append(
            _Way(
                time.times(table.scale),
                algbw.times(_GB),
                busbw.times(_GB),
                None if wrong is None else int(wrong.value),
            )
        )
    return _Printed(int(found[1]), found[3], head.get("redop", head.get("op", "")), tuple(ways), line)


def _agreeing(rows: Sequence[_Printed]) -> Iterator[Row]:
    """Rows that are one exchange each, and took time."""
    ways = [way for row in rows for way in row.ways if way and way.algbw.value > 0]
    clearest = min(ways, key=lambda way: way.algbw.blur, default=None)
    bus = clearest.busbw.value / clearest.algbw.value if clearest else 0.0
    for row in rows:
        if all(way is None or (way.time.value > 0 and way.fits(row.size_bytes)) for way in row.ways):
            timings = [way.timing(row.size_bytes, bus) if way else None for way in row.ways]
            both = [*timings, None][:2]
            yield Row(row.size_bytes, row.dtype, row.redop, both[0], both[1], row.line)


# The JSON ------------------------------------------------------------------------------------------------


def _of_json(path: Path) -> NcclTest:
    """A report of `-J`. Its list of environment variables is not looked at."""
    try:
        told = json.loads(path.read_bytes())
        rows = [_json_row(one, line) for line, one in enumerate(told["results"], 1)]
        whole = list(_agreeing(rows))
        devices = [
            Device(one["rank"], one["hostname"], one["device"], one["device_info"]) for one in told["devices"]
        ] if "devices" in told else []  # fmt: skip
        bounds = told.get("out_of_bounds")
        average = _bandwidth(str(told.get("average_bus_bandwidth", {}).get("bandwidth")))
        operation = Path(told["args"][0]).name.removesuffix("_perf").removesuffix("_perf_mpi")
        version = _version(told["nccl_version"])
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise InputError(
            [Problem(str(path), f"is no whole report of nccl-tests' -J: {error}; was the test cut off?")]
        ) from error
    facts: dict[str, Scalar] = {"nccl_version": version}
    facts |= {"ranks": len(devices)} if devices else {}
    out = None if bounds is None else (int(bounds["count"]), str(bounds["okay"]).lower() == "true")
    failures = [str(error) for error in told.get("errors") or ()]
    return NcclTest(
        operation, tuple(whole), tuple(devices), average, facts,
        _problem(whole, out, failures), len(rows) - len(whole),
    )  # fmt: skip


def _json_row(one: Mapping[str, Any], line: int) -> _Printed:
    ways = tuple(_json_way(one.get(name)) for name in ("out_of_place", "in_place"))
    return _Printed(int(one["size"]), one["type"], one["redop"], ways, line)


def _json_way(told: Mapping[str, Any] | None) -> _Way | None:
    if told is None:
        return None
    time_us = told["time"] if "time" in told else told["cpu_time"]
    time, algbw, busbw = (
        _Figure(float(value), 5e-7).times(scale)  # printed with six decimals
        for value, scale in ((time_us, 1e-6), (told["alg_bw"], _GB), (told["bus_bw"], _GB))
    )
    return _Way(time, algbw, busbw, None if told["nwrong"] is None else int(float(told["nwrong"])))


# Whether it is a result ----------------------------------------------------------------------------------


def _problem(rows: Sequence[Row], bounds: tuple[int, bool] | None, failures: Sequence[str]) -> str:
    if failures:
        return f"the test failed: {failures[0]}"
    for row in rows:
        for way in (row.out_of_place, row.in_place):
            if way is not None and way.wrong:
                return f"line {row.line}: {way.wrong} elements of {row.size_bytes} bytes are wrong"
    if bounds is not None and not bounds[1]:
        return f"{bounds[0]} values out of bounds: the results are wrong"
    if rows and not any(way.busbw for row in rows for way in (row.out_of_place, row.in_place) if way):
        return "its bus bandwidth is 0: one rank alone exchanges nothing; start at least 2"
    if not rows:
        return "no row of a table: the test did not measure anything"
    if bounds is None:
        return "no line `Out of bounds values`: the test did not come to its end"
    return ""


def _version(code: int) -> str:
    """NCCL's version from its code: 2.x.y is 2xyy up to 2.8, 2xxyy from 2.9 on.

    >>> _version(21903), _version(2708)
    ('2.19.3', '2.7.8')
    """
    if code < 10000:
        return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


def _figure(text: str) -> _Figure | None:
    """None where it is no number."""
    try:
        written = Decimal(text)
    except InvalidOperation:
        return None
    exponent = written.as_tuple().exponent
    if not isinstance(exponent, int):  # nan, inf
        return None
    return _Figure(float(written), 0.5 * 10.0**exponent)


def _bandwidth(text: str) -> float | None:
    """Bytes a second, of an average as printed; None where it is no number."""
    figure = _figure(text)
    return None if figure is None else figure.value * _GB
