"""What both forms of nccl-tests' output contain: rows that are one exchange each, and took time.

Printed figures are rounded, the bandwidth of a small message even to zero. So it is recomputed from size and
time if these are more precise, and bus bandwidth from it with the factor on which the table's rows agree
(`nccl_agreement`). A row whose size, time, and bandwidths do not agree is torn, and not used.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from assay.formats.figures import number
from assay.records import Scalar

GB: Final = 1e9
SLACK: Final = 1e-6  # for floating point


@dataclass(frozen=True)
class Timing:
    """One way of one row.

    time_s        of one operation
    algbw, busbw  bytes per second, as nccl-tests defines them
    wrong         elements with unexpected values; None if that was not checked or not counted
    """

    time_s: float
    algbw: float
    busbw: float
    wrong: int | None


@dataclass(frozen=True)
class NcclRow:
    """One size, as printed: of the whole exchange."""

    size_bytes: int
    out_of_place: Timing | None
    in_place: Timing | None
    line: int


@dataclass(frozen=True)
class NcclTest:
    """A run of one of the tests.

    operation  `all_reduce`; "" if the log neither states nor shows it
    hosts      rank → node, as the test lists them
    possible   the operations that its rows allow, if they don't show which it was
    problem    why it has no result; "" if it has one
    skipped    lines that begin like a row but are not one
    notes      which rows are torn, each with its line
    cut        lines that exceed the maximum line length
    """

    operation: str
    rows: tuple[NcclRow, ...]
    hosts: Mapping[int, str]
    facts: Mapping[str, Scalar]
    problem: str
    skipped: int
    notes: tuple[str, ...]
    possible: tuple[str, ...] = ()
    cut: int = 0


class PrintedNumber(NamedTuple):
    """A number as printed, and half of its last digit."""

    value: float
    half: float

    def times(self, scale: float) -> PrintedNumber:
        """In another unit."""
        return PrintedNumber(self.value * scale, self.half * scale)

    @property
    def blur(self) -> float:
        """The maximum share of it that is rounding."""
        return self.half / self.value if self.value else math.inf


@dataclass(frozen=True)
class PrintedTiming:
    """One way of a row: time in s, bandwidths in bytes a second; whether the result was checked."""

    time: PrintedNumber
    algbw: PrintedNumber
    busbw: PrintedNumber
    wrong: int | None
    checked: bool = False

    def fits(self, size_bytes: int) -> bool:
        """Whether bandwidth is size over time, within printed precision."""
        if self.time.value <= 0 or self.time.blur >= 0.5:  # 1e+05: as much rounding as time
            return False
        shortest, longest = self.time.value - self.time.half, self.time.value + self.time.half
        low, high = self.algbw.value - self.algbw.half, self.algbw.value + self.algbw.half
        return size_bytes / longest <= high * (1 + SLACK) and size_bytes / shortest >= low * (1 - SLACK)

    def timing(self, size_bytes: int, bus: float) -> Timing:
        """What was measured; `bus`: bus bandwidth over algorithmic bandwidth."""
        algbw = self.algbw.value if self.algbw.blur < self.time.blur else size_bytes / self.time.value
        return Timing(self.time.value, algbw, algbw * bus, self.wrong)


@dataclass(frozen=True)
class PrintedRow:
    """A row as printed.

    redop, root  None if the table has no such column
    """

    size_bytes: int
    dtype: str
    redop: str | None
    ways: tuple[PrintedTiming | None, ...]
    line: int
    root: int | None = None


def problem(
    rows: Sequence[NcclRow], torn: int, bounds: tuple[int, bool] | None, failures: Sequence[str]
) -> str:
    """Why a test has no result; "" if it has one.

    torn      number of others, that can't be read or don't agree
    bounds    values out of bounds as the program counts them, and whether it accepts them; None: never stated
    failures  what it reports went wrong
    """
    if failures:
        return failures[0]
    for row in rows:
        for way in (row.out_of_place, row.in_place):
            if way is not None and way.wrong:
                return f"line {row.line}: {way.wrong} elements of {row.size_bytes} bytes are wrong"
    if bounds is not None and not bounds[1]:
        return f"{bounds[0]} values out of bounds: the results are wrong"
    if rows and not any(way.busbw for row in rows for way in (row.out_of_place, row.in_place) if way):
        return "its bus bandwidth is 0: one rank alone exchanges nothing; start at least 2"
    if torn and not rows:
        return (
            "no row of its table is consistent in size, time, and bandwidths, and with most other rows: none "
            f"of its {torn} can be used"
        )
    if not rows:
        return "no table row: the test did not measure anything"
    if bounds is None:
        return "no line `Out of bounds values`: the test did not finish"
    return ""


def version(code: int) -> str:
    """NCCL's version from its code: 2.x.y is 2xyy up to 2.8, 2xxyy since 2.9.

    >>> version(21903), version(2708)
    ('2.19.3', '2.7.8')
    """
    if code < 10000:
        return f"{code // 1000}.{code // 100 % 10}.{code % 100}"
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


def figure(text: str) -> PrintedNumber | None:
    """None if it is not a number."""
    value = number(text)
    if value is None:
        return None
    mantissa, _, power = text.lower().partition("e")
    half = number(f"5e{int(power or 0) - len(mantissa.partition('.')[2]) - 1}")
    return None if half is None else PrintedNumber(value, half)
