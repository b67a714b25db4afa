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

from assay.logs.figures import (
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
from assay.logs.tool import Tool
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
    found = LogFigures()
    if text.lstrip().startswith("{"):
        _of_json(text, found)
    else:
        _of_text(text, found)
    return found.missing("no matrix", "no test measured anything")


def _of_text(log: str, found: LogFigures) -> None:
    test, unit, columns, running = "", "", 0, ""  # running: the test whose sum has not been printed yet
    ended = log.count("\n")  # the last figure of a row without an end may have lost digits
    printed: list[
        str
    ] = []  # of the test's last complete row, whose figures all have the same number of decimals
    for line, text in numbered(log, found):
        if said := _RUNNING.search(text):
            test, unit, columns, printed, running = said[1], "", 0, [], said[1]
        elif said := _TITLE.search(text):
            unit, columns = said[2], 0
        elif said := _SUM.search(text):
            value = number(said[2]) if alike([*printed, said[2]]) else None
            found.skipped += value is None
            running = "" if value is not None else running
            if unit and said[1] != test:
                what = f"the sum of {said[1]} after a matrix of {test or 'an unnamed test'}"
                found.problems.append(f"line {line}: {what}: lines between them are missing")
            elif value is not None and unit == "GB/s":
                found.figures.append(LogFigure("bandwidth_sum", value, {"test": said[1]}, {}, line, unit))
            unit, columns = "", 0
        elif said := _VERSION.search(text):
            found.facts[f"{said[1].lower().replace(' ', '_')}_version"] = said[2]
        elif text.startswith("Waived"):
            _waive(found)
            running = ""
        elif said := _FAILED.match(text):
            found.problems.append(f"line {line}: {test}: {said[1]}" if test else f"line {line}: {said[1]}")
        elif unit and not columns and _HEADER.match(text):
            columns = len(text.split())
        elif columns and (cells := text.split()):
            row, *values = cells
            texts = [value for value in values if value != "N/A"]
            is_whole = len(values) == columns and line <= ended and alike([*printed, *texts])
            figures = _row(test, unit, row, values, line) if is_whole else None
            printed = texts if figures else printed
            found.skipped += figures is None
            found.figures += figures or []
    _check_end(running, test, _END in log, found)


def _check_end(running: str, last_test: str, is_noted: bool, found: LogFigures) -> None:
    if running and found.figures:
        found.problems.append(f"the log ends in {running}, before its sum: the run did not finish")
    elif not is_noted:
        what = f"no line `{_END} …`, with which newer versions end: tests after {last_test} may be missing"
        found.notes += (what,)


def _of_json(text: str, found: LogFigures) -> None:
    try:
        told = document(text)["nvbandwidth"]
        tests = told.get("testcases", [])
        found.problems += [str(told["error"])] if "error" in told else []
        for key in ("version", "CUDA Runtime Version", "CUDA Driver Version", "Driver Version"):
            if key in told:
                found.facts[f"nvbandwidth_{key}" if key == "version" else key.lower().replace(" ", "_")] = (
                    str(told[key])
                )
        for test in tests:
            _testcase(test, line_of(text, f'"{test["name"]}"'), found)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        found.problems.append(
            str(error) if type(error) is ValueError else f"not an nvbandwidth report: {error}"
        )


def _waive(found: LogFigures) -> None:
    before = found.facts.get("waived_tests")
    found.facts["waived_tests"] = 1 + (before if isinstance(before, int) else 0)


def _testcase(test: Mapping[str, Any], line: int, found: LogFigures) -> None:
    name, status = test["name"], test["status"]
    if status == "Waived":
        _waive(found)
    elif status != "Passed":
        found.problems.append(
            f"line {line}: {name} is {status!r}: {test.get('error', 'it does not say why')}"
        )
    else:
        unit = "ns" if "(ns)" in test["bandwidth_description"] else "GB/s"
        for row, values in enumerate(test["bandwidth_matrix"]):
            figures = _row(name, unit, str(row), values, line)
            found.skipped += figures is None
            found.figures += figures or []
        total = number(test.get("sum"))
        if total is not None and unit == "GB/s":
            found.figures.append(LogFigure("bandwidth_sum", total, {"test": name}, {}, line, unit))


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
