"""The programs whose logs are recognized by their content, by name, and how their logs are read."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from assay.logs.facts import OPERATION_UNKNOWN
from assay.logs.figures import LARGEST_REPORT_BYTES, LogFigures
from assay.logs.launcher_prefixes import shared_beginning
from assay.logs.log_text import LogText, sample_of, surroundings
from assay.logs.mllog import TOKEN
from assay.logs.patterns import searcher
from assay.logs.tool import Tool
from assay.records import from_json, to_compact_json
from assay.registry import EntryPoint, NamedEntries, registry

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
    {name: f"assay.logs.{name.replace('-', '_')}:TOOL" for name in _NAMES},
    Tool,
    calls_itself=lambda tool: tool.name,
    adapt=_guarded,
)


def tools_of(path: Path) -> list[Tool]:
    """The programs whose marks occur in a file. Raises InputError if it can't be read."""
    unseen = {name: searcher(tool.mark) for name, tool in TOOLS.items()}
    for block in LogText(path, LONGEST_MARKED).blocks():
        if TOKEN in block:  # MLPerf's, whatever else its program prints
            return []
        unseen = {name: stands_in for name, stands_in in unseen.items() if not stands_in(block)}
    return [tool for name, tool in TOOLS.items() if name not in unseen]


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
