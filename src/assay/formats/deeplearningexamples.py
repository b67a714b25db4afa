"""What NVIDIA's DeepLearningExamples log through DLLogger: to the terminal, or to a file of JSON lines.

    DLL 2024-08-02 12:42:44.292511 - Epoch: 1 Iteration: 97  train.loss : 2.3 None train.total_ips : 30 img/s
    DLL 2024-08-02 12:50:11.104310 - Summary: train.loss : 2.3 None train.total_ips : 31 img/s

    DLLL {"timestamp": "…", "type": "LOG", "step": [1, 97], "data": {"train.total_ips": 30}}

The program names its metrics. A line without a step is the summary of the run; a log without one is from a
run that did not finish.

Source: NVIDIA/dllogger, dllogger/logger.py (StdOutBackend, JSONStreamBackend).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from assay.formats.figures import DIGITS, Axis, LogFigure, LogFigures, crash, lines, number
from assay.formats.tools import Tool

_LINE: Final = re.compile(r"(?:^|[\s>:])DLL \d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? - (.*)")
_JSON: Final = re.compile(r"(?:^|[\s>:])DLLL (\{.*)")
_BEGUN: Final = re.compile(r"(?:^|[\s>:])DLLL? (?:\d{4}-|\{)")
_METRIC: Final = re.compile(r"(\S+) : (\S+)(?: (?!\S+ : )(\S+))?")
_EPOCH: Final = re.compile(rf"[Ee]poch: ({DIGITS})")
_STEP: Final = re.compile(rf"(?:[Ii]teration|[Ss]tep)s?: ({DIGITS})")
_TUPLE: Final = re.compile(rf"\(({DIGITS})?,? ?({DIGITS})?,?\)|({DIGITS})$")
_SPELLING: Final = {"img/s": "images/s", "imgs/s": "images/s", "sec": "s", "None": ""}


def deeplearningexamples(path: Path) -> LogFigures:
    """The contents of a log. Raises InputError if it can't be read."""
    log = LogFigures()
    units: dict[str, str] = {}
    for line, text in lines(path, log, ended=True):
        if match := _JSON.search(text):
            _of_json(match[1], line, units, log)
        elif match := _LINE.search(text):
            _of_text(match[1], line, log)
        elif _BEGUN.search(text):
            log.skipped += 1
        elif why := crash(text):
            log.problems.append(f"line {line}: {why}")
    summary = [figure for figure in log.figures if not figure.at]
    if not summary:
        log.problems.append("no summary line: the run did not finish")
    first = dict[str, int]()
    for figure in summary:
        if first.setdefault(figure.metric, figure.line) != figure.line:
            log.again(figure.line, f"a second summary of {figure.metric}, after line {first[figure.metric]}")
            break
    return log


def _of_text(message: str, line: int, log: LogFigures) -> None:
    if message.startswith("PARAMETER"):
        for name, value, _ in _METRIC.findall(message):
            log.facts[name] = value
        return
    first = _METRIC.search(message)
    if first is None:
        return  # text for people
    prefix = message[: first.start()].strip()
    position = _place(prefix)
    if position is None:
        log.skipped += 1
        return
    for name, text, unit in _METRIC.findall(message):
        _take(name, text, _SPELLING.get(unit, unit), position, line, log)


def _place(prefix: str) -> dict[Axis, float] | None:
    """Step and epoch in a line's prefix; {} for a summary; None if the prefix is something else."""
    if prefix.rstrip(":").lower() in ("", "summary", "()"):
        return {}
    position: dict[Axis, float] = {}
    if match := _TUPLE.fullmatch(prefix):
        return _numbered([number(part) for part in match.groups() if part])
    if epoch := _EPOCH.search(prefix):
        position["epoch"] = float(epoch[1])
    if step := _STEP.search(prefix):
        position["step"] = float(step[1])
    return position or None


def _numbered(parts: list[float | None]) -> dict[Axis, float] | None:
    """DLLogger's positions: (epoch, step), (epoch,), or a step alone, which looks the same."""
    axes: tuple[Axis, ...] = ("epoch", "step")
    position = {axis: part for axis, part in zip(axes, parts, strict=False) if part is not None}
    return None if None in parts else position


def _of_json(text: str, line: int, units: dict[str, str], log: LogFigures) -> None:
    try:
        record = json.loads(text)
        if record["type"] == "METADATA":
            unit = str(record["metadata"].get("unit") or "")
            units[record["metric"]] = _SPELLING.get(unit, unit)
        elif record["step"] == "PARAMETER":
            log.facts |= {k: v for k, v in record["data"].items() if isinstance(v, str | int | float)}
        else:
            step = record["step"] if isinstance(record["step"], list) else [record["step"]]
            _points(record["data"], _numbered([number(part) for part in step]), line, units, log)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        log.skipped += 1


def _points(
    data: Mapping[str, Any],
    position: dict[Axis, float] | None,
    line: int,
    units: Mapping[str, str],
    log: LogFigures,
) -> None:
    if position is None:
        log.skipped += 1
        return
    for name, value in data.items():
        _take(name, value, units.get(name, ""), position, line, log)


def _take(name: str, raw: object, unit: str, position: dict[Axis, float], line: int, log: LogFigures) -> None:
    """One figure. A value that is not a number is counted; a loss that is not one means a failed training."""
    value = number(raw)
    if value is not None:
        log.figures.append(LogFigure(name, value, {}, position, line, unit))
    elif "loss" in name and str(raw).lower().lstrip("-") in ("nan", "inf", "infinity"):
        log.problems.append(f"line {line}: {name} is {raw}: the training failed")
    else:
        log.skipped += 1


TOOL: Final = Tool(
    "deeplearningexamples",
    re.compile(rb"DLL \d{4}-\d\d-\d\d \d\d:|DLLL \{"),
    line="DLL 2024-01-31 12:00:00 - …",
    words=("dll ", "dlll", "throughput_"),
    read=deeplearningexamples,
    metrics=(),
)
