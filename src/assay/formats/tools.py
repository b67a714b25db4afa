"""The programs whose logs are recognized by their content, by name, and how their logs are read.

The words of a format are not enough to recognize it: they show a person to which format an unrecognized log
comes closest, and which part of it was not copied.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from assay.formats.figures import LARGEST_REPORT_BYTES, OPERATION_UNKNOWN, SEVERAL_RUNS, LogFigure, LogFigures
from assay.formats.log_text import LogText, sample_of, shared_beginning, surroundings
from assay.formats.mllog import TOKEN
from assay.formats.patterns import searcher
from assay.records import Metric, from_json, to_compact_json
from assay.registry import EntryPoint, NamedEntries, registry


@dataclass(frozen=True)
class Format:
    """A kind of log.

    name   as `assay import --format` accepts it
    line   the line that identifies it, as its program prints it
    words  from its logs, in lowercase
    """

    name: str
    line: str
    words: tuple[str, ...]


MLPERF: Final = "mlperf"
CNN: Final = "tf-cnn-benchmarks"
_OWN: Final = (
    Format(MLPERF, ':::MLLOG {"key": …}', ("mllog", "run_start", "run_stop", "eval_accuracy", "loadgen")),
    Format(CNN, "total images/sec: 1234.5", ("images/sec", "num batches", "variables:")),
)


def known_formats() -> tuple[Format, ...]:
    """All of them, those of plug-ins last."""
    return (*_OWN, *(Format(tool.name, tool.line, tool.words) for tool in TOOLS.values()))


def format_names() -> tuple[str, ...]:
    """The formats of logs, by name, those of plug-ins last. Imports none of them."""
    return (*(known.name for known in _OWN), *TOOLS)


def words_in(path: Path) -> dict[str, list[str]]:
    """Format → its words that a file contains, most first; a format without any is omitted.

    Raises InputError if the file can't be read.
    """
    formats = known_formats()
    unseen = {word for known in formats for word in known.words}
    seen: set[str] = set()
    for block in LogText(path).blocks():
        text = block.decode("latin-1").lower()
        seen |= {word for word in unseen - seen if word in text}
    words_of = {known.name: [word for word in known.words if word in seen] for known in formats}
    most_first = sorted(words_of.items(), key=lambda pair: -len(pair[1]))
    return {name: present for name, present in most_first if present}


_OTHERWISE: Final = "copy the whole log; figures of another program can be imported as a CSV file"


def unrecognised(path: Path, otherwise: str = _OTHERWISE) -> str:
    """Why a file is not a known log, which format it is closest to, which formats exist, and what to do.

    Raises InputError if it can't be read.
    """
    if is_empty(path):
        return EMPTY
    if reason := unread_output(path):
        return reason
    matched = {name: present for name, present in words_in(path).items() if _point_to_it(present)}
    most = max(map(len, matched.values()), default=0)
    closest = [known for known in known_formats() if len(matched.get(known.name, ())) == most > 0]
    parts = ["is not a log in a known format"]
    if closest:
        parts.append(f"closest to {_listed(closest, matched)}")
    names = ", ".join(known.name for known in known_formats())
    parts.append(f"known formats: {names}; {otherwise}")
    return "; ".join(parts)


def _point_to_it(present: Sequence[str]) -> bool:
    """Whether these words point to one program: several words, or a phrase.

    A single word such as `busbw` or `iodepth=` is in the logs of many programs.
    """
    return len(present) > 1 or any(" " in word.strip() for word in present)


def _listed(closest: Iterable[Format], matched: dict[str, list[str]]) -> str:
    return "; ".join(
        f"{known.name}: it has {', '.join(map(repr, matched[known.name]))}, but lacks the line `{known.line}`"
        for known in closest
    )


Pick = Callable[[Sequence[float]], float]
_SAME: Final = 0.01  # server and client print the same measurement, each by its own clock


def last(values: Sequence[float]) -> float:
    """The newest."""
    return values[-1]


@dataclass(frozen=True)
class Tool:
    """A program and how its logs are read.

    mark     occurs in every log of it and in no other program's
    line     what identifies it, for people
    words    from its logs, in lowercase: for what an unrecognized log comes closest to
    metrics  the primary one first; () if the program names its own
    picks    for metrics that one run prints several times: which of their figures counts
    ends     processes that each print the one measurement that they make together
    subject  the fact or label that says what was measured: its model or test; "" if figures need none
    unread   occurs in output of it that is not read; `instead` says how to get output that is
    """

    name: str
    mark: re.Pattern[bytes]
    line: str
    words: tuple[str, ...]
    read: Callable[[Path], LogFigures]
    metrics: tuple[Metric, ...]
    picks: Mapping[str, Pick] = field(default_factory=dict)
    ends: int = 1
    subject: str = ""
    unread: re.Pattern[bytes] | None = None
    instead: str = ""


def picked(tool: Tool, figures: Sequence[LogFigure]) -> LogFigure:
    """Which of the figures with the same metric and labels counts; at least one is given.

    The run's summary if there is one, otherwise the figure that the tool's pick chooses, otherwise the
    newest. Raises ValueError if they are from several runs.
    """
    stood = [figure for figure in figures if not figure.at] or figures
    metric, newest = figures[0].metric, stood[-1]
    values = [figure.value for figure in stood]
    value = tool.picks.get(metric, last)(values)
    once = len(values) > 1 and tool.metrics and metric not in tool.picks and not newest.at
    if once and (len(values) > tool.ends or max(values) - min(values) > _SAME * abs(value)):
        raise ValueError(
            f"lines {stood[0].line} and {newest.line} have two figures of the same {metric}: {SEVERAL_RUNS}"
        )
    line = next((figure.line for figure in reversed(stood) if figure.value == value), newest.line)
    return LogFigure(metric, value, newest.labels, {}, line, newest.unit)


_COMMA: Final = re.compile(rb"(?<![\d.,\w])\d+,(?:\d{1,2}|\d{4,})(?![\d.,\w])")
EMPTY: Final = "is empty: the program printed nothing, or the copy failed"
LONGEST_MARKED: Final = 1 << 16  # bytes of a line that may contain a mark: a JSON report may be one line


_NAMES: Final = (
    *("nccl-tests", "perftest", "iperf3", "param-comms", "nvbandwidth", "gpu-burn", "horovod", "timm"),
    *("deeplearningexamples", "fio", "elbencho", "ior", "mlperf-storage"),
)


def _guarded(tool: Tool, plugin: EntryPoint) -> Tool:
    """The tool of a plug-in: where it raises or returns no figures, the log has a problem that names it."""
    if not isinstance(tool.mark.pattern, bytes):
        raise TypeError(f"its mark is {tool.mark!r}; expected a pattern of bytes")

    def read(path: Path) -> LogFigures:
        figures = tool.read(path)
        if not isinstance(figures, LogFigures):
            raise TypeError(f"it returns {figures!r}; expected LogFigures")
        from_json(LogFigures, to_compact_json(figures))  # raises ValueError for what is not LogFigures
        return figures

    return replace(tool, read=plugin.guarded(read, lambda failure: LogFigures(problems=[str(failure)])))


TOOLS: Final[NamedEntries[Tool]] = registry(
    "assay.formats",
    {name: f"assay.formats.{name.replace('-', '_')}:TOOL" for name in _NAMES},
    Tool,
    calls_itself=lambda tool: tool.name,
    adapt=_guarded,
)


def marks_in(path: Path, others: Mapping[str, re.Pattern[bytes]] | None = None) -> set[str]:
    """Which programs' marks occur in a file, and which others, by name; only MLPERF if MLPerf's token does.

    Raises InputError if it can't be read.
    """
    marks = {name: tool.mark for name, tool in TOOLS.items()} | dict(others or {})
    unseen = {name: searcher(mark) for name, mark in marks.items()}
    for block in LogText(path, LONGEST_MARKED).blocks():
        if TOKEN in block:  # MLPerf's, whatever else its program prints
            return {MLPERF}
        unseen = {name: occurs_in for name, occurs_in in unseen.items() if not occurs_in(block)}
    return marks.keys() - unseen.keys()


def tools_of(path: Path) -> list[Tool]:
    """The programs whose marks occur in a file. Raises InputError if it can't be read."""
    marks = marks_in(path)
    return [tool for name, tool in TOOLS.items() if name in marks]


def read_log(name: str, path: Path) -> LogFigures:
    """What a program's log says, with notes on what others put around it, and the true reason for problems.

    Raises InputError if it can't be read.
    """
    tool = TOOLS[name]
    log, around = tool.read(path), surroundings(path, tool.mark)
    log.notes = (*around.notes, *log.notes)
    if len(around.printing) > tool.ends:
        shown = ", ".join(around.printing[:4]) + (", …" if len(around.printing) > 4 else "")
        what = f"{len(around.printing)} processes print a result of their own ({shown})"
        log.problems.insert(0, f"{what}: put the lines of each in its own file")
    known = not tool.subject or tool.subject in log.facts
    if not known and any(tool.subject not in figure.labels for figure in log.figures):
        log.facts.setdefault(OPERATION_UNKNOWN, f"any {tool.subject}")
    if reason := _unknown_prefix(tool, path, log):
        log.problems = [reason]
    elif log.problems and (reason := _true_reason(tool, path, log)):
        log.problems.insert(0, reason)
    return log


def is_empty(path: Path) -> bool:
    """Whether a file has nothing but blanks. Raises InputError if it can't be read."""
    return not any(block.strip() for block in LogText(path).blocks())


def unread_output(path: Path) -> str:
    """Which program's output a file is, if it is one that is not read, and what to do; "" if it is none.

    Raises InputError if it can't be read.
    """
    return next((reason for tool in TOOLS.values() if (reason := _unread(tool, path))), "")


def _unknown_prefix(tool: Tool, path: Path, log: LogFigures) -> str:
    """What nearly all lines begin with and how to take it off, if that hides figures of a log; else ""."""
    source = LogText(path, LARGEST_REPORT_BYTES)
    blocks = list(islice(source.blocks(), 1))
    pattern = shared_beginning(sample_of(blocks[0])) if blocks else ""
    if not pattern:
        return ""
    with TemporaryDirectory() as directory:
        without = Path(directory) / path.name
        with without.open("wb") as copy:
            for block in LogText(path, LARGEST_REPORT_BYTES).blocks():
                copy.write(re.sub(rb"(?m)^" + pattern.encode(), b"", block))
        alone = tool.read(without)
    problems_differ = bool(log.problems) and set(alone.problems) != set(log.problems)
    if len(alone.figures) < max(len(log.figures) + (not problems_differ), 1):
        return ""
    shown = re.search(pattern, blocks[0].decode(errors="replace"), re.MULTILINE)
    sed = pattern.replace(r"[ \t]", "[[:blank:]]").replace("'", ".")
    return (
        f"its lines begin with `{shown[0].strip() if shown else pattern}`, which {tool.name} does not print; "
        f"take it off and import the rest: sed -E 's/{'' if source.prefixes else '^'}{sed}//' {path.name}"
    )


def _true_reason(tool: Tool, path: Path, log: LogFigures) -> str:
    """What explains that a log has no figures; "" if nothing here does."""
    if log.figures:
        return ""
    if is_empty(path):
        return EMPTY
    if reason := _unread(tool, path):
        return reason
    if len({number for block in LogText(path).blocks() for number in _COMMA.findall(block)}) > 1:
        return "its numbers have a comma in place of the point; run the program with LC_ALL=C"
    return ""


def _unread(tool: Tool, path: Path) -> str:
    pattern = tool.unread
    if pattern is None or not any(pattern.search(block) for block in LogText(path).blocks()):
        return ""
    return f"is what {tool.name} prints for people, which Assay does not read: {tool.instead}"
