"""What both forms of nccl-tests' output are held against: rows that are one exchange each, and took time.

Figures are rounded where they are printed, the bandwidth of a small message to nothing at all. So it is made
again from size and time, where these are the sharper, and bus bandwidth is the part of it that the clearest
row shows. A row whose size, time and bandwidth do not agree is torn, and not taken.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from assay.records import Scalar

GB: Final = 1e9
_SLACK: Final = 1e-6  # of floating point


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
    cut        lines that are longer than what is read of one
    """

    operation: str
    rows: tuple[Row, ...]
    devices: tuple[Device, ...]
    average: float | None
    facts: Mapping[str, Scalar]
    problem: str
    skipped: int
    cut: int = 0


class Figure(NamedTuple):
    """A number as printed, and half of its last digit."""

    value: float
    half: float

    def times(self, scale: float) -> Figure:
        """In another unit."""
        return Figure(self.value * scale, self.half * scale)

    @property
    def blur(self) -> float:
        """How much of it is rounding, at most."""
        return self.half / self.value if self.value else math.inf


@dataclass(frozen=True)
class Way:
    """One way of a row: time in s, bandwidths in bytes a second."""

    time: Figure
    algbw: Figure
    busbw: Figure
    wrong: int | None

    def fits(self, size_bytes: int) -> bool:
        """Whether bandwidth is size over time, as far as both were printed."""
        if self.time.value <= 0 or self.time.blur >= 0.5:  # 1e+05: as much rounding as time
            return False
        shortest, longest = self.time.value - self.time.half, self.time.value + self.time.half
        low, high = self.algbw.value - self.algbw.half, self.algbw.value + self.algbw.half
        return size_bytes / longest <= high * (1 + _SLACK) and size_bytes / shortest >= low * (1 - _SLACK)

    def timing(self, size_bytes: int, bus: float) -> Timing:
        """What was measured; `bus`: bus bandwidth over algorithmic."""
        algbw = self.algbw.value if self.algbw.blur < self.time.blur else size_bytes / self.time.value
        return Timing(self.time.value, algbw, algbw * bus, self.wrong)


@dataclass(frozen=True)
class Printed:
    """A row as printed."""

    size_bytes: int
    dtype: str
    redop: str
    ways: tuple[Way | None, ...]
    line: int


def agreeing(rows: Sequence[Printed]) -> Iterator[Row]:
    """Rows that are one exchange each, and took time."""
    ways = [way for row in rows for way in row.ways if way and way.algbw.value > 0]
    clearest = min(ways, key=lambda way: way.algbw.blur, default=None)
    bus = clearest.busbw.value / clearest.algbw.value if clearest else 0.0
    for row in rows:
        if all(way is None or (way.time.value > 0 and way.fits(row.size_bytes)) for way in row.ways):
            timings = [way.timing(row.size_bytes, bus) if way else None for way in row.ways]
            both = [*timings, None][:2]
            yield Row(row.size_bytes, row.dtype, row.redop, both[0], both[1], row.line)


def ranks_of(rows: Sequence[Printed], listed: Collection[int]) -> int | None:
    """How many ranks took part; None where neither the ranks that a log lists nor its rows tell.

    listed  ranks of the device list, of which a pasted log may hold a part

    A list without gaps from 0 on is complete unless the rows need more ranks; of fewer are the groups of a
    split communicator. Else the rows decide: bus bandwidth over algorithmic is 2(n-1)/n for all-reduce and
    (n-1)/n for what each rank sends to or collects from all others, and 1 says nothing. Of several n that the
    printed digits allow, the one that the highest rank listed needs is taken.

    Source: NVIDIA/nccl-tests, doc/PERFORMANCE.md.
    """
    fewest = max(listed, default=-1) + 1
    by_rows = _ranks_by_rows(rows)
    if listed and len(listed) == fewest and (by_rows is None or by_rows.start <= fewest):
        return fewest
    if by_rows is None:
        return None
    allowed = range(max(by_rows.start, fewest), by_rows.stop)
    if len(allowed) == 1 or (listed and allowed and allowed[0] == fewest):
        return allowed[0]
    return None


def _ranks_by_rows(rows: Sequence[Printed]) -> range | None:
    """Numbers of ranks that agree with every row's bandwidths as printed; None where all or none do."""
    ways = [
        w for row in rows for w in row.ways if w and w.algbw.value > w.algbw.half and w.fits(row.size_bytes)
    ]
    if not ways:
        return None
    low = max((w.busbw.value - w.busbw.half) / (w.algbw.value + w.algbw.half) for w in ways)
    high = min((w.busbw.value + w.busbw.half) / (w.algbw.value - w.algbw.half) for w in ways)
    most = 2 if low > 1 else 1
    if low > high or low <= 1 <= high or high >= most or low <= 0:
        return None
    # n - 1 of n parts, once or twice: n is most / (most - ratio)
    found = range(math.ceil(most / (most - low) - _SLACK), math.floor(most / (most - high) + _SLACK) + 1)
    return found if found else None


def problem(rows: Sequence[Row], bounds: tuple[int, bool] | None, failures: Sequence[str]) -> str:
    """Why a test is no result; "" where it is one.

    bounds    values out of bounds as the program counts them, and whether it is content; None: never said
    failures  what it says went wrong
    """
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


def version(code: int) -> str:
    """NCCL's version from its code: 2.x.y is 2xyy up to 2.8, 2xxyy from 2.9 on.

    >>> version(21903), version(2708)
    ('2.19.3', '2.7.8')
    """
    if code < 10000:
        return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


def figure(text: str) -> Figure | None:
    """None where it is no number."""
    try:
        written = Decimal(text)
    except InvalidOperation:
        return None
    exponent = written.as_tuple().exponent
    if not isinstance(exponent, int):  # nan, inf
        return None
    return Figure(float(written), 0.5 * 10.0**exponent)


def bandwidth(text: str) -> float | None:
    """Bytes a second, of an average as printed; None where it is no number."""
    found = figure(text)
    return None if found is None else found.value * GB
