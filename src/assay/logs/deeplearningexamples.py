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

from assay.logs.figures import DIGITS, Axis, LogFigure, LogFigures, crash, lines, number
from assay.logs.tool import Tool

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
    found = LogFigures()
    units: dict[str, str] = {}
    for line, text in lines(path, found, ended=True):
        if said := _JSON.search(text):
            _of_json(said[1], line, units, found)
        elif said := _LINE.search(text):
            _of_text(said[1], line, found)
        elif _BEGUN.search(text):
            found.skipped += 1
        elif why := crash(text):
            found.problems.append(f"line {line}: {why}")
    summary = [figure for figure in found.figures if not figure.at]
    if not summary:
        found.problems.append("no summary line: the run did not finish")
    first = dict[str, int]()
    for figure in summary:
        if first.setdefault(figure.metric, figure.line) != figure.line:
            found.again(
                figure.line, f"a second summary of {figure.metric}, after line {first[figure.metric]}"
            )
            break
    return found


def _of_text(said: str, line: int, found: LogFigures) -> None:
    if said.startswith("PARAMETER"):
        for name, value, _ in _METRIC.findall(said):
            found.facts[name] = value
        return
    first = _METRIC.search(said)
    if first is None:
        return  # text for people
    words = said[: first.start()].strip()
    at = _place(words)
    if at is None:
        found.skipped += 1
        return
    for name, text, unit in _METRIC.findall(said):
        _take(name, text, _SPELLING.get(unit, unit), at, line, found)


def _place(words: str) -> dict[Axis, float] | None:
    """Step and epoch of a line; {} for a summary; None if it has words that are neither."""
    if words.rstrip(":").lower() in ("", "summary", "()"):
        return {}
    at: dict[Axis, float] = {}
    if said := _TUPLE.fullmatch(words):
        return _numbered([number(part) for part in said.groups() if part])
    if epoch := _EPOCH.search(words):
        at["epoch"] = float(epoch[1])
    if step := _STEP.search(words):
        at["step"] = float(step[1])
    return at or None


def _numbered(parts: list[float | None]) -> dict[Axis, float] | None:
    """DLLogger's positions: (epoch, step), (epoch,), or a step alone, which looks the same."""
    axes: tuple[Axis, ...] = ("epoch", "step")
    at = {axis: part for axis, part in zip(axes, parts, strict=False) if part is not None}
    return None if None in parts else at


def _of_json(text: str, line: int, units: dict[str, str], found: LogFigures) -> None:
    try:
        told = json.loads(text)
        if told["type"] == "METADATA":
            unit = str(told["metadata"].get("unit") or "")
            units[told["metric"]] = _SPELLING.get(unit, unit)
        elif told["step"] == "PARAMETER":
            found.facts |= {k: v for k, v in told["data"].items() if isinstance(v, str | int | float)}
        else:
            step = told["step"] if isinstance(told["step"], list) else [told["step"]]
            _points(told["data"], _numbered([number(part) for part in step]), line, units, found)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        found.skipped += 1


def _points(
    data: Mapping[str, Any],
    at: dict[Axis, float] | None,
    line: int,
    units: Mapping[str, str],
    found: LogFigures,
) -> None:
    if at is None:
        found.skipped += 1
        return
    for name, value in data.items():
        _take(name, value, units.get(name, ""), at, line, found)


def _take(name: str, told: object, unit: str, at: dict[Axis, float], line: int, found: LogFigures) -> None:
    """One figure. A value that is not a number is counted; a loss that is not one means a failed training."""
    value = number(told)
    if value is not None:
        found.figures.append(LogFigure(name, value, {}, at, line, unit))
    elif "loss" in name and str(told).lower().lstrip("-") in ("nan", "inf", "infinity"):
        found.problems.append(f"line {line}: {name} is {told}: the training failed")
    else:
        found.skipped += 1


TOOL: Final = Tool(
    "deeplearningexamples",
    re.compile(rb"DLL \d{4}-\d\d-\d\d \d\d:|DLLL \{"),
    line="DLL 2024-01-31 12:00:00 - …",
    words=("dll ", "dlll", "throughput_"),
    read=deeplearningexamples,
    metrics=(),
)
