"""What readers of foreign programs share: figures with where they stand, and the lines of a file.

Such a reader is a function of one file. Its `LogFigures` has what the file says and no more: a row that is
torn is counted, what the program could not measure is nothing, and whatever says that it failed is a problem.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from assay.errors import InputError, Problem
from assay.inputs import LONGEST_LINE, Log, read_whole
from assay.records import Scalar

LARGEST_REPORT_BYTES: Final = 64 << 20
MOST_FIGURES: Final = 500_000  # of one log; they are held together
Axis = Literal["step", "epoch"]
_CRASH: Final = re.compile(r"Traceback \(most recent call last\)")


@dataclass(frozen=True, slots=True)
class LogFigure:
    """One number as it stands in a file.

    labels  what tells it from others of its metric
    at      step or epoch where the line says one
    line    from 1
    unit    as printed, in the spelling of `assay.units`; "" where it is a count or the file says none
    """

    metric: str
    value: float
    labels: Mapping[str, Scalar]
    at: Mapping[Axis, float]
    line: int
    unit: str = ""


@dataclass
class LogFigures:
    """What a file holds.

    problems  why it is no result; of a search by pattern: matches that are no figure, each with its line
    skipped   lines that could not be understood
    cut       lines that are longer than what is read of one
    facts     what the program says of itself
    notes     what a person has to know of what was not taken
    """

    figures: list[LogFigure] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    skipped: int = 0
    cut: int = 0
    facts: dict[str, Scalar] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def more(self, where: str) -> None:
        """Before another figure or problem is kept: raises InputError where there are too many to hold."""
        if len(self.figures) + len(self.problems) >= MOST_FIGURES:
            what = (
                f"more than {MOST_FIGURES:,} figures, the most that are read of a log; print or match fewer"
            )
            raise InputError([Problem(where, what)])

    def missing(self, what: str) -> LogFigures:
        """Itself; without a figure and without a reason for that, `what` is the reason."""
        if not self.figures and not self.problems:
            self.problems.append(what)
        return self


def lines(path: Path, found: LogFigures) -> Iterator[tuple[int, str]]:
    """Each line with its number, as `Log` has them; those that were cut are counted in `found`.

    Raises InputError where the file can't be read.
    """
    log = Log(path)
    for line, text in log.lines():
        yield line, text.decode(errors="replace")
    found.cut += log.cut


def numbered(text: str, found: LogFigures) -> Iterator[tuple[int, str]]:
    """Each line of a report with its number, as `lines` has them of a file."""
    for line, raw in enumerate(text.split("\n"), 1):
        for part in raw.rstrip("\r").split("\r"):
            found.cut += len(part) > LONGEST_LINE
            yield line, part[:LONGEST_LINE]


def whole(path: Path) -> str:
    """A report that is read at once. Raises InputError where it can't be, or is too large for a report."""
    return read_whole(path, LARGEST_REPORT_BYTES).decode(errors="replace")


def number(text: object) -> float | None:
    """A finite number, as text or as JSON has it; None for all else: N/A, nan, inf, true."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        return None
    try:
        value = float(text.replace("_", "x")) if isinstance(text, str) else float(text)
    except (ValueError, OverflowError):
        return None
    return value if math.isfinite(value) else None


def rounding(text: str) -> float:
    """Half of the last digit of a number as printed.

    >>> rounding("171.7"), rounding("20")
    (0.05, 0.5)
    """
    return 0.5 * 10.0 ** -len(text.partition(".")[2])


def document(text: str) -> dict[str, Any]:
    """A JSON object. Raises ValueError, with words for the user, where it is none or was cut off."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"no whole JSON report ({error}); was it cut off?") from None
    if isinstance(told, dict):
        return told
    raise ValueError("its JSON is no object")


def line_of(text: str, words: str, start: int = 0) -> int:
    """The line in which the words stand first, from the character `start` on; 1 where they don't."""
    return text.count("\n", 0, max(text.find(words, start), 0)) + 1


def crash(text: str) -> str:
    """Why a line says that a Python program broke; "" where it doesn't."""
    return "the program broke: a traceback begins here" if _CRASH.search(text) else ""
