"""What NVIDIA's nvbandwidth prints: the matrices of its tests, or its JSON (`-j`).

    Running device_to_device_memcpy_read_ce.
    memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
               0         1
     0       N/A     26.34
     1     26.34       N/A

    SUM device_to_device_memcpy_read_ce 52.68

A cell without a figure (`N/A`: a device with itself, or pairs that can't reach each other) is not a figure. A
waived test is reported; a failed test is a problem. A test ends with its sum, a newer program with a note on
the platform.

Source: NVIDIA/nvbandwidth, output.cpp, json_output.cpp, common.h (PeerValueMatrix), 0.2 to 0.10.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from assay.formats.figures import (
    DIGITS,
    LogFigure,
    LogFigures,
    alike,
    document,
    line_of,
    number,
    numbered,
    whole,
)
from assay.formats.tools import Tool
from assay.records import Metric, Scalar

METRICS: Final = (
    Metric(
        "bandwidth",
        "B/s",
        "higher",
        "bandwidth of one pair of devices, or of one device and its host",
        scales=False,
    ),
    Metric("bandwidth_sum", "B/s", "higher", "bandwidth of all pairs in a test", scales=False),
    Metric("latency", "s", "lower", "time of one memory access", scales=False),
)

_RUNNING: Final = re.compile(r"Running (\w+)\.?\s*$")
_TITLE: Final = re.compile(r"(\S.*\(row\).*\(column\).*) \((GB/s|ns)\)\s*$")
_HEADER: Final = re.compile(r"\s*0(?:\s+\d+)*\s*$")
_SUM: Final = re.compile(r"SUM (\w+)\s+(\S+)\s*$")
_FAILED: Final = re.compile(
    r"((?:ERROR|Error|Invalid |\[?CUDA_ERROR|CUDA error|\[[^\]]+\].* in expression |Assertion).*)"
)
_END: Final = "NOTE: The reported results"
_VERSION: Final = re.compile(r"(nvbandwidth|CUDA Runtime|CUDA Driver|Driver) Version(?: \(\w+\))?: v?(\S+)")


def nvbandwidth(path: Path) -> LogFigures:
    """What a log or a JSON report says. Raises InputError if it can't be read."""
    return report(whole(path))


def report(text: str) -> LogFigures:
    """What its output says, text or JSON."""
    log = LogFigures()
    if text.lstrip().startswith("{"):
        _of_json(text, log)
    else:
        _of_text(text, log)
    return log.missing("no matrix", "no test measured anything")


def _of_text(output: str, log: LogFigures) -> None:
    test, unit, columns, running = "", "", 0, ""  # running: the test whose sum has not been printed yet
    ended = output.count("\n")  # the last figure of a row without an end may have lost digits
    printed: list[
        str
    ] = []  # of the test's last complete row, whose figures all have the same number of decimals
    for line, text in numbered(output, log):
        if match := _RUNNING.search(text):
            test, unit, columns, printed, running = match[1], "", 0, [], match[1]
        elif match := _TITLE.search(text):
            unit, columns = match[2], 0
        elif match := _SUM.search(text):
            value = number(match[2]) if alike([*printed, match[2]]) else None
            log.skipped += value is None
            running = "" if value is not None else running
            if unit and match[1] != test:
                what = f"the sum of {match[1]} after a matrix of {test or 'an unnamed test'}"
                log.problems.append(f"line {line}: {what}: lines between them are missing")
            elif value is not None and unit == "GB/s":
                log.figures.append(LogFigure("bandwidth_sum", value, {"test": match[1]}, {}, line, unit))
            unit, columns = "", 0
        elif match := _VERSION.search(text):
            log.facts[f"{match[1].lower().replace(' ', '_')}_version"] = match[2]
        elif text.startswith("Waived"):
            _waive(log)
            running = ""
        elif match := _FAILED.match(text):
            log.problems.append(f"line {line}: {test}: {match[1]}" if test else f"line {line}: {match[1]}")
        elif unit and not columns and _HEADER.match(text):
            columns = len(text.split())
        elif columns and (cells := text.split()):
            row, *values = cells
            texts = [value for value in values if value != "N/A"]
            is_whole = len(values) == columns and line <= ended and alike([*printed, *texts])
            figures = _row(test, unit, row, values, line) if is_whole else None
            printed = texts if figures else printed
            log.skipped += figures is None
            log.figures += figures or []
    _check_end(running, test, _END in output, log)


def _check_end(running: str, last_test: str, is_noted: bool, log: LogFigures) -> None:
    if running and log.figures:
        log.problems.append(f"the log ends in {running}, before its sum: the run did not finish")
    elif not is_noted:
        what = f"no line `{_END} …`, with which newer versions end: tests after {last_test} may be missing"
        log.notes += (what,)


def _of_json(text: str, log: LogFigures) -> None:
    try:
        parsed = document(text)["nvbandwidth"]
        tests = parsed.get("testcases", [])
        log.problems += [str(parsed["error"])] if "error" in parsed else []
        for key in ("version", "CUDA Runtime Version", "CUDA Driver Version", "Driver Version"):
            if key in parsed:
                log.facts[f"nvbandwidth_{key}" if key == "version" else key.lower().replace(" ", "_")] = str(
                    parsed[key]
                )
        for test in tests:
            _testcase(test, line_of(text, f'"{test["name"]}"'), log)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        log.problems.append(
            str(error) if type(error) is ValueError else f"not an nvbandwidth report: {error}"
        )


def _waive(log: LogFigures) -> None:
    before = log.facts.get("waived_tests")
    log.facts["waived_tests"] = 1 + (before if isinstance(before, int) else 0)


def _testcase(test: Mapping[str, Any], line: int, log: LogFigures) -> None:
    name, status = test["name"], test["status"]
    if status == "Waived":
        _waive(log)
    elif status != "Passed":
        log.problems.append(f"line {line}: {name} is {status!r}: {test.get('error', 'it does not say why')}")
    else:
        unit = "ns" if "(ns)" in test["bandwidth_description"] else "GB/s"
        for row, values in enumerate(test["bandwidth_matrix"]):
            figures = _row(name, unit, str(row), values, line)
            log.skipped += figures is None
            log.figures += figures or []
        total = number(test.get("sum"))
        if total is not None and unit == "GB/s":
            log.figures.append(LogFigure("bandwidth_sum", total, {"test": name}, {}, line, unit))


def _row(test: str, unit: str, row: str, values: Sequence[object], line: int) -> list[LogFigure] | None:
    """Figures of a row of a matrix; None if it is torn."""
    if not re.fullmatch(DIGITS, row) or any(
        value != "N/A" and not (number(value) or 0) > 0 for value in values
    ):
        return None
    return list(_cells(test, unit, int(row), values, line))


def _cells(test: str, unit: str, row: int, values: Sequence[object], line: int) -> Iterator[LogFigure]:
    metric = "latency" if unit == "ns" else "bandwidth"
    for column, text in enumerate(values):
        value = number(text)
        if value is not None:
            labels: dict[str, Scalar] = {"test": test, "row": row, "column": column}
            yield LogFigure(metric, value, labels, {}, line, unit)


TOOL: Final = Tool(
    "nvbandwidth",
    re.compile(rb'nvbandwidth Version|"bandwidth_matrix"|"nvbandwidth"\s*:'),
    line="nvbandwidth Version: …",
    words=("nvbandwidth", "memcpy ce", "host_to_device"),
    read=nvbandwidth,
    metrics=METRICS,
)
