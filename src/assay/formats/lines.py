"""A simple program's log as a table: patterns of the lines that have its figures.

    MEMORY = line_tool(
        "sysbench-memory",
        mark="MiB transferred",
        metrics=(Metric("memory_rate", "B/s", "higher", "bytes read or written per second"),),
        lines=(r"Number of threads: {threads}", Line(r"\\({memory_rate:MiB/s} MiB/sec\\)", final="rate")),
    )

In a pattern, `{name}` is one word of the line. The name says what it is: a metric, with its unit as printed;
the `step` or `epoch` of the line; else a label. A word of a line without a metric is a fact of the run,
wherever else it occurs. `{}` is a number that is not used. Words of an optional part may be absent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from assay.formats.figures import DIGITS, Axis, LogFigure, LogFigures, crash, lines, number
from assay.formats.tools import Pick, Tool
from assay.records import Metric, Scalar
from assay.units import factor

Words = Mapping[str, str]
_WORD: Final = re.compile(r"\{([A-Za-z]\w*)?(?::([^{}]*))?\}")
_LAST_WORD: Final = re.compile(r"\{[A-Za-z][^{}]*\}(?:\\s[*+])?\$?$")
_PUNCTUATION: Final = re.compile(r"\\([^\w\s])|([-/:;,=%&#@!<>~'\"_])")
_AXES: Final[tuple[Axis, ...]] = ("step", "epoch")
_CUT: Final = "its last line is missing: the program did not finish, or the log was cut"


@dataclass(frozen=True)
class Line:
    """One kind of line.

    pattern  a regular expression with `{name}` for words, searched in each line
    final    what the line is, if the program prints it once, when it has finished: `total`
    agrees   whether its words agree with the latest words of the lines before; a line that doesn't is torn
    """

    pattern: str
    final: str = ""
    agrees: Callable[[Words, Words], bool] = lambda _line, _before: True


def line_tool(
    name: str,
    *,
    mark: str,
    metrics: Sequence[Metric],
    lines: Sequence[str | Line],
    failed: str = "",
    torn: str = "",
    unfinished: str = _CUT,
    line: str = "",
    phrases: Sequence[str] = (),
    picks: Mapping[str, Pick] | None = None,
    subject: str = "",
) -> Tool:
    """A program whose logs are read by a table of lines. A figure of which more is better must be above 0.

    mark        a pattern that occurs in every log of it and in no other program's
    lines       the first that fits a line of the log counts; the first line that states a fact
    failed      pattern of what it prints where it fails; a traceback of Python always is a failure
    torn        pattern of lines that have a figure; default: what is before the first word of each of `lines`
    unfinished  the problem of a log without its final line
    phrases     from its logs, in lowercase: for what an unrecognized log comes closest to
    line, picks, subject  as in `Tool`; line is the mark if it is not given

    Raises ValueError with all mistakes in patterns, units and names.
    """
    entries = [entry if isinstance(entry, Line) else Line(entry) for entry in lines]
    if mistakes := [*_mistakes(metrics, [entry.pattern for entry in entries])]:
        raise ValueError(f"{name}: {'; '.join(mistakes)}")
    kinds = [_Kind.of(entry, metrics) for entry in entries]
    torn = torn or "|".join(f"(?:{kind.begins})" for kind in kinds if kind.begins)
    table = _Table(
        kinds,
        {name for kind in kinds if not kind.units for name, _ in _WORD.findall(kind.line.pattern) if name},
        {metric.name for metric in metrics if metric.better == "higher"},
        re.compile(torn or "(?!)"),
        re.compile(failed or "(?!)"),
        unfinished,
    )
    found_by = re.compile(mark.encode())
    return Tool(
        name, found_by, line or mark, (*phrases,), table.read, (*metrics,), picks or {}, subject=subject
    )


def _mistakes(metrics: Sequence[Metric], patterns: Sequence[str]) -> Iterator[str]:
    """What would be read as something else than its author means."""
    own = {metric.name: metric for metric in metrics}
    placeholders = [word for pattern in patterns for word in _WORD.findall(pattern) if word[0]]
    for metric in metrics:
        if metric.better not in ("higher", "lower", None):
            yield f'{metric.name}: better is {metric.better!r}: it is "higher", "lower" or None'
        if metric.name not in dict(placeholders):
            yield f"{metric.name}: no line has {{{metric.name}}}"
    for name, unit in dict.fromkeys(placeholders):
        if name not in own:
            if unit:
                yield f"{{{name}:{unit}}}: a label has no unit, and the metrics are {', '.join(own)}"
        elif not unit and own[name].unit:
            yield f"{{{name}}}: its unit as printed is missing, as in {{{name}:{own[name].unit}}}"
        elif factor(unit)[1] != factor(own[name].unit)[1]:
            yield f"{{{name}:{unit}}}: {unit} can't be converted to {own[name].unit}"
    for pattern in patterns:
        try:
            re.compile(_WORD.sub("x", pattern))
        except re.error as error:
            yield f"the pattern {pattern!r} is no regular expression: {error}"


class _Kind(NamedTuple):
    """A kind of line; the units of its figures by metric, and what is before the first of them."""

    line: Line
    pattern: re.Pattern[str]
    units: Mapping[str, str]
    begins: str

    @classmethod
    def of(cls, line: Line, metrics: Sequence[Metric]) -> _Kind:
        own = {metric.name: metric.unit for metric in metrics}
        units = {name: unit or own[name] for name, unit in _WORD.findall(line.pattern) if name in own}
        begins = _WORD.split(line.pattern, maxsplit=1)[0] if units else ""
        pattern = _WORD.sub(lambda word: _group(word, {"", *own}), line.pattern)
        return cls(line, re.compile(pattern), units, begins)


def _group(word: re.Match[str], numbers: set[str]) -> str:
    """The pattern of a word: bounded, and without the punctuation after it, so that few ways are tried."""
    name, after = word[1] or "", _PUNCTUATION.match(word.string, word.end())
    if name in _AXES:
        kind = "[0-9]{1,18}"
    elif name in numbers:
        kind = r"[-+.\w]{1,40}"
    else:
        kind = rf"[^\s{re.escape(after[1] or after[2]) if after else ''}]{{1,200}}"
    return f"(?P<{name or f'_{word.start()}'}>{kind})"


class _Table(NamedTuple):
    """What `line_tool` describes; rising: metrics of which more is better."""

    kinds: Sequence[_Kind]
    facts: set[str]
    rising: set[str]
    torn: re.Pattern[str]
    failed: re.Pattern[str]
    unfinished: str

    def read(self, path: Path) -> LogFigures:
        """What a log says. Raises InputError if it can't be read."""
        log, latest, is_finished = LogFigures(), dict[str, str](), False
        finals = [kind.line for kind in self.kinds if kind.line.final]
        # where a line without an end may end with a figure, that may have lost digits
        is_exact = finals and not any(_LAST_WORD.search(line.pattern) for line in finals)
        for place, text in lines(path, log, ended=not is_exact):
            final = self._take(place, text, latest, log)
            if final and is_finished:
                log.again(place, f"a second {final}")
            is_finished = is_finished or bool(final)
        if finals and not is_finished:
            log.problems.append(self.unfinished)
        return log.missing("no line has a figure")

    def _take(self, place: int, text: str, latest: dict[str, str], log: LogFigures) -> str:
        """Store what a line says; return what it is if it is a final one."""
        for kind in self.kinds:
            match = kind.pattern.search(text)
            if match is None:
                continue
            texts = {name: word for name, word in match.groupdict().items() if word is not None}
            figures = self._figures(kind, texts, place)
            if figures is not None and kind.line.agrees(texts, latest):
                log.figures += figures
                latest |= texts
                for name, word in texts.items():
                    if name in self.facts:
                        log.facts.setdefault(name, _scalar(word))
                return kind.line.final
        if self.torn.search(text):
            log.skipped += 1
        elif failed := self.failed.search(text):
            log.problems.append(f"line {place}: {failed[0].strip()}")
        elif why := crash(text):
            log.problems.append(f"line {place}: {why}")
        return ""

    def _figures(self, kind: _Kind, texts: Words, place: int) -> list[LogFigure] | None:
        """The figures of a line; None if a number is none, or is not above 0 where more is better."""
        numbers, labels = dict[str, float](), dict[str, Scalar]()
        for name, word in texts.items():
            if name in kind.units or name in _AXES or name.startswith("_"):
                value = number(word)
                if value is None or (name in self.rising and value <= 0):
                    return None
                numbers[name] = value
            elif name not in self.facts:
                labels[name] = _scalar(word)
        steps = {axis: numbers[axis] for axis in _AXES if axis in numbers}
        return [
            LogFigure(name, numbers[name], labels, steps, place, unit)
            for name, unit in kind.units.items()
            if name in numbers
        ]


def _scalar(word: str) -> Scalar:
    return int(word) if re.fullmatch(DIGITS, word) else word
