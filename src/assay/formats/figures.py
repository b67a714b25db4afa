"""What readers of foreign programs share: figures with their positions, and the lines of a file.

Such a reader is a function of one file. Its `LogFigures` has only what the file states: torn rows are
counted, figures that the program could not measure are absent, and any sign of failure is a problem.

Here are also the names of facts that several readers state or doubts look for.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from assay.errors import InputError, Problem
from assay.formats.log_text import LogText
from assay.inputs import LONGEST_LINE, Log
from assay.records import LATEST_TIME, Scalar
from assay.units import counted, human

OPERATION_UNKNOWN: Final = "operation_unknown"  # what a log that does not state what it measured allows
ONLY_HOST: Final = "only_host"  # the address of both ends of a test between two
NCCL_SETTINGS: Final = {  # fact → its name in the first line of nccl-tests' output, and in its JSON report
    "nccl_warmup_iters": ("warmup iters", "warmup_iters"),
    "nccl_iters": ("iters", "iterations"),
    "nccl_agg_iters": ("agg iters", "aggregated_iterations"),
    "nccl_validation": ("validation", "validation"),
    "nccl_graph": ("graph", "graph"),
    "nccl_unalign": ("unalign", "unalign"),
}
NCCL_BLOCKING: Final = "nccl_blocking"


LARGEST_REPORT_BYTES: Final = 64 << 20
MOST_PROBLEMS: Final = 20  # that are listed with their lines
MOST_FIGURES: Final = 500_000  # per log; all are kept in memory
LARGEST_FIGURE: Final = 1e100  # larger than any quantity, and finite in any unit
DIGITS: Final = r"(?<!\d)\d{1,18}(?!\d)"  # in a pattern: an integer that fits in 64 bits
SEVERAL_RUNS: Final = "the file holds several runs; put each run in its own file"
Axis = Literal["step", "epoch"]
_CRASH: Final = re.compile(r"Traceback \(most recent call last\)")


@dataclass(frozen=True, slots=True)
class LogFigure:
    """One number as found in a file.

    labels  what distinguishes it from others of its metric
    at      step or epoch if the line states one
    line    from 1
    unit    as printed, in the spelling of `assay.units`; "" if it is a count or the file states none
    """

    metric: str
    value: float
    labels: Mapping[str, Scalar]
    at: Mapping[Axis, float]
    line: int
    unit: str = ""


@dataclass
class LogFigures:
    """The contents of a file.

    problems  why it is not a result; for a pattern search: matches that are not figures, each with its line
    skipped   lines that could not be parsed
    cut       lines that are longer than the part that is read
    facts     what the program states about itself
    notes     what a person must know about data that was not used
    started_at  when the program started, seconds since the epoch; None if the file doesn't say
    """

    figures: list[LogFigure] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    skipped: int = 0
    cut: int = 0
    facts: dict[str, Scalar] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    started_at: float | None = None

    def more(self, where: str) -> None:
        """Call before storing another figure or problem; raises InputError if there are too many."""
        if len(self.figures) + len(self.problems) >= MOST_FIGURES:
            what = f"more than {MOST_FIGURES:,} figures, the limit for a log; print or match fewer"
            raise InputError([Problem(where, what)])

    def missing(self, what: str, why: str = "") -> LogFigures:
        """Return itself; if there is neither a figure nor a reason for that, `what` becomes the reason.

        why  what follows from it, unless there are lines that can't be read, which may have had figures
        """
        if not self.figures and not self.problems:
            why = f"{counted(self.skipped, 'line')} can't be read" if self.skipped else why
            self.problems.append(f"{what}: {why}" if why else what)
        return self

    def again(self, line: int, what: str) -> None:
        """Report that a line belongs to another run: a result is one run."""
        self.problems.append(f"line {line}: {what}: {SEVERAL_RUNS}")


def lines(
    path: Path, log: LogFigures, *, ended: bool = False, kind: type[Log] = LogText
) -> Iterator[tuple[int, str]]:
    """Each line with its number, as in `Log`; truncated lines are counted in `log`.

    ended  count a last line without a newline as not parsed: for programs whose lines end with a figure,
           which may have lost digits there
    kind   Log: with what others put before the lines, as a person sees them

    Raises InputError if the file can't be read.
    """
    source = kind(path)
    last: tuple[int, str] | None = None
    for line, text in source.lines():
        if last is not None:
            yield last
        last = line, text.decode(errors="replace")
    log.cut += source.cut
    if last is not None and ended and not source.ended:
        log.skipped += bool(last[1].strip())
    elif last is not None:
        yield last


def numbered(text: str, log: LogFigures) -> Iterator[tuple[int, str]]:
    """Each line of a report with its number, like `lines` for a file."""
    for line, raw in enumerate(text.split("\n"), 1):
        for part in raw.rstrip("\r").split("\r"):
            log.cut += len(part) > LONGEST_LINE
            yield line, part[:LONGEST_LINE]


def whole(path: Path) -> str:
    """A report, read at once. Raises InputError if it can't be read or is too large for a report."""
    text = bytearray()
    for block in LogText(path, LARGEST_REPORT_BYTES).blocks():
        text += block
        if len(text) > LARGEST_REPORT_BYTES:
            what = f"is larger than {human(float(LARGEST_REPORT_BYTES), 'B')}, the limit for such a file"
            raise InputError([Problem(str(path), what)])
    return text.decode(errors="replace")


def number(text: object) -> float | None:
    """A finite number from text or JSON; None for anything else: N/A, nan, inf, true, 400 digits."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        return None
    try:
        value = float(text.replace("_", "x")) if isinstance(text, str) else float(text)
    except (ValueError, OverflowError):
        return None
    return value if abs(value) <= LARGEST_FIGURE else None


def time_of_day(seconds: object) -> float | None:
    """A time that a program states, seconds since the epoch; None if it states none, or one that can't be."""
    value = number(seconds)
    return value if value is not None and 0 < value <= LATEST_TIME else None


def check_agreement(where: str, name: str, stated: object, computed: float, basis: str) -> None:
    """Raise ValueError if a figure is more than 1 % plus 1 away from what the file's other figures yield.

    basis  what it was computed from, as text
    """
    value = number(stated)
    if value is None or not math.isfinite(computed):
        return
    if abs(value - computed) > 0.01 * max(abs(value), abs(computed)) + (1.0 if abs(computed) >= 1 else 0.0):
        raise ValueError(
            f"{where}: {name} is {value:.6g}, but {basis} make {computed:.6g}: it contradicts itself"
        )


def rounding(text: str) -> float:
    """Half of the last printed digit of a number.

    >>> rounding("171.7"), rounding("20")
    (0.05, 0.5)
    """
    return 0.5 * 10.0 ** -len(text.partition(".")[2])


def alike(texts: Iterable[str]) -> bool:
    """Whether numbers that a program prints with equal decimals have them: a truncated one lost some.

    >>> alike(["8.731", "15.279"]), alike(["8.731", "15.2"])
    (True, False)
    """
    return len({rounding(text) for text in texts}) < 2


def document(text: str) -> dict[str, Any]:
    """A JSON object. Raises ValueError, with a message for the user, if it is none or was truncated."""
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        if isinstance(error, json.JSONDecodeError) and error.msg == "Extra data":
            if text[error.pos : error.pos + 1] not in ("{", ","):
                raise ValueError(f"line {error.lineno} is text after its JSON; remove it") from None
            where = f"the second begins in line {error.lineno}"
            raise ValueError(f"it has several JSON documents, {where}: put each in its own file") from None
        cut = "; was it cut off?" if _is_cut(text, error) else ""
        raise ValueError(f"not a complete JSON report ({error}){cut}") from None
    if isinstance(parsed, dict):
        return parsed
    raise ValueError("its JSON is not an object")


def _is_cut(text: str, error: ValueError | RecursionError) -> bool:
    """Whether JSON is sound up to its end, in the last word of which it stops."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.msg.startswith("Unterminated string") or not re.search(r"[\s,:]", text[error.pos :].rstrip())


@contextmanager
def reported(log: LogFigures, incomplete: str) -> Iterator[None]:
    """Make what is wrong with a report its problem; then it has no figures.

    incomplete  the problem of a report that lacks a key, with {} for the key
    """
    try:
        yield
    except ValueError as error:
        log.problems.append(str(error))
    except (LookupError, TypeError, AttributeError) as error:
        log.problems.append(incomplete.format(error))
    if log.problems:
        log.figures.clear()


def above_zero(
    stated: Iterable[tuple[str, object, str]], labels: Mapping[str, Scalar], line: int
) -> Iterator[LogFigure]:
    """Figures of a report from metric, JSON value and unit: 0 is what was not measured."""
    for metric, raw, unit in stated:
        value = number(raw)
        if value is not None and value > 0:
            yield LogFigure(metric, value, labels, {}, line, unit)


def braced(text: str) -> str:
    """A JSON document without the warnings that a program printed before and after it."""
    return text[max(text.find("{"), 0) : text.rfind("}") + 1]


def line_of(text: str, phrase: str, start: int = 0) -> int:
    """The first line with the words, from the character `start` on; 1 if there is none."""
    return text.count("\n", 0, max(text.find(phrase, start), 0)) + 1


def few(problems: Sequence[str]) -> tuple[str, ...]:
    """The first problems, and how many more there are: every line of a long log can be wrong."""
    more = len(problems) - MOST_PROBLEMS
    return (*problems[:MOST_PROBLEMS], *([f"and {more} more of this kind"] if more > 0 else []))


def crash(text: str) -> str:
    """Why a line says that a Python program crashed; "" if it does not."""
    return "the program crashed: a traceback starts here" if _CRASH.search(text) else ""
