"""What nccl-tests (and rccl-tests) print → one `NcclTest`: the table of any version since 2017, or its JSON.

    #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw …
    #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s) …
        33554432       8388608     float     sum      -1    195.4  171.72  300.51      0    195.4  171.73 …

Columns are named by the header. Launchers put words before lines, and a table pasted through Markdown has
lost its leading `#`. NCCL's lines can fall between rows or into one: a row whose figures do not agree
(`nccl_agreement`) is not used, and counted.

The JSON is that of `-J`, from 2.17 on; its list of environment variables is ignored.

Source: NVIDIA/nccl-tests, src/common.cu and src/util.cu, doc/PERFORMANCE.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from assay.errors import InputError, Problem
from assay.formats.figures import (
    DIGITS,
    NCCL_BLOCKING,
    NCCL_SETTINGS,
    OPERATION_UNKNOWN,
    SEVERAL_RUNS,
    LogFigure,
    LogFigures,
    document,
    number,
    whole,
)
from assay.formats.log_text import LogText
from assay.formats.nccl_agreement import measured_test
from assay.formats.nccl_rows import (
    GB,
    NcclTest,
    PrintedNumber,
    PrintedRow,
    PrintedTiming,
    figure,
    version,
)
from assay.formats.tools import Tool
from assay.records import Metric, Scalar


def of_json(path: Path) -> NcclTest:
    """A report of `-J`. Its list of environment variables is ignored."""
    try:
        report = document(whole(path))
        rows = [_json_row(row, line) for line, row in enumerate(report["results"], 1)]
        hosts = {int(device["rank"]): device["hostname"] for device in report.get("devices", ())}
        bounds = report.get("out_of_bounds")
        operation = Path(report["args"][0]).name.removesuffix("_perf").removesuffix("_perf_mpi")
        facts = {"nccl_version": version(report["nccl_version"]), **_settings(report.get("config", {}))}
        out = None if bounds is None else (int(bounds["count"]), str(bounds["okay"]).lower() == "true")
        failures = [f"the test failed: {error}" for error in report.get("errors") or ()]
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise InputError(
            [Problem(str(path), f"is not a complete report of nccl-tests -J: {error}; was the test cut off?")]
        ) from error
    return measured_test(rows, operation, hosts, facts, bounds=out, failures=failures)


def _settings(config: Mapping[str, Any]) -> dict[str, Scalar]:
    """How the report's test was set."""
    settings: dict[str, Scalar] = {
        fact: int(_number(config[key])) for fact, (_, key) in NCCL_SETTINGS.items() if key in config
    }
    if "blocking_collectives" in config:
        settings[NCCL_BLOCKING] = int(str(config["blocking_collectives"]).lower() == "true")
    return settings


def _json_row(row: Mapping[str, Any], line: int) -> PrintedRow:
    ways = tuple(_json_way(row.get(name)) for name in ("out_of_place", "in_place"))
    root = int(_number(row["root"])) if "root" in row else None
    return PrintedRow(int(_number(row["size"])), row["type"], row["redop"], ways, line, root)


def _json_way(timing: Mapping[str, Any] | None) -> PrintedTiming | None:
    if timing is None:
        return None
    time_us = timing["time"] if "time" in timing else timing["cpu_time"]
    time, algbw, busbw = (
        PrintedNumber(_number(value), 5e-7).times(scale)  # printed with six decimals
        for value, scale in ((time_us, 1e-6), (timing["alg_bw"], GB), (timing["bus_bw"], GB))
    )
    wrong = None if timing["nwrong"] is None else int(_number(timing["nwrong"]))
    return PrintedTiming(time, algbw, busbw, wrong, wrong is not None)


def _number(value: object) -> float:
    """Raises ValueError where it is none."""
    figure = number(value)
    if figure is None:
        raise ValueError(f"{str(value)[:20]} is no figure")
    return figure


METRICS: Final = (
    Metric("busbw", "B/s", "higher", "bus bandwidth, as defined by nccl-tests", scales=False),
    Metric("algbw", "B/s", "higher", "size over time", scales=False),
    Metric("latency", "s", "lower", "time of one operation", scales=False),
)

_HEADER = re.compile(
    r"(?:#\s+(?=size\s|bytes\s)|\b(?=(?:size\s+count|bytes\s+N)\s+type\s)).*\balgbw\b.*\bbusbw\b"
)
_UNITS = re.compile(r"(?:#|^)\s*\(B\)\s")
_ROW = re.compile(rf"(?:^|\s|[:>])({DIGITS})\s+({DIGITS})\s+([a-z]\w*)(?=\s)(.*)")
_DEVICE = re.compile(
    rf"(?:#|\b)\s*Rank\s+({DIGITS}) (?:Group\s+\d+ )?Pid\s+\d+ on\s+(\S+) device\s+({DIGITS}) "
    r"\[\w[\w:.]*\] .+"
)
_OUT_OF_BOUNDS = re.compile(rf"\bOut of bounds values : ({DIGITS}) (OK|FAILED)")
_STARTING = re.compile(r"\bCollective test starting: (\w+?)(?:_perf)?\s*$")
_VERSION = re.compile(rf"\bnccl-tests version (\S+) nccl-headers=({DIGITS}) nccl-library=({DIGITS})")
_SETTINGS = re.compile(rf"\bnThread {DIGITS} nGpus {DIGITS} minBytes ")
_BLOCKING = re.compile(r"#\s*Blocking Enabled: ")
_AMD = re.compile(r"\bAMD\b|\bgfx\d|rccl|RCCL|HIP version")
_FAILED = re.compile(r"Test (?:NCCL|CUDA) failure .*|: Test failure common\.\S+.*")


def nccl_test(path: Path) -> NcclTest:
    """What a log or JSON report says. Raises InputError if it can't be read or is a truncated report."""
    log = LogText(path)
    begins_as_json = next(log.blocks(), b"").startswith(b"{")
    table = _of_table((number, line.decode("latin-1")) for number, line in log.lines())
    if not begins_as_json or table.rows:  # another program's line may come first
        return replace(table, cut=log.cut)
    return of_json(path)


def nccl_tests(path: Path) -> LogFigures:
    """A log's figures and its statements about itself. Raises InputError if the file does not exist."""
    try:
        test = nccl_test(path)
    except InputError as error:
        if not path.is_file():
            raise
        return LogFigures(problems=[problem.what for problem in error.problems])
    log = LogFigures(skipped=test.skipped, cut=test.cut, notes=test.notes)
    log.problems += [test.problem] if test.problem else []
    log.facts |= test.facts
    log.facts |= {"operation": test.operation} if test.operation else {}
    log.facts |= {OPERATION_UNKNOWN: " or ".join(test.possible)} if test.possible else {}
    if test.possible:
        log.notes += (
            f"the log does not state its operation, and its rows may be of {' or '.join(test.possible)}: "
            "name it with --benchmark, since it compares with nothing otherwise",
        )
    if test.hosts and len(test.hosts) == test.facts.get("ranks"):
        log.facts["nodes"] = len({*test.hosts.values()})
    elif test.hosts:
        log.facts["ranks_listed"] = len(test.hosts)
    log.figures += figures(test)
    return log


def figures(test: NcclTest) -> Iterator[LogFigure]:
    """Bandwidths and latency of each size, out of place and in place, if measured."""
    for row in test.rows:
        for place, way in (("out-of-place", row.out_of_place), ("in-place", row.in_place)):
            if way is not None and way.algbw > 0:
                labels: dict[str, Scalar] = {"payload_bytes": row.size_bytes, "buffers": place}
                for metric, value in zip(METRICS, (way.busbw, way.algbw, way.time_s), strict=True):
                    yield LogFigure(metric.name, value, labels, {}, row.line, metric.unit)


def _columns(names: Sequence[str]) -> Sequence[str]:
    """None if another line fell into the header."""
    starts = [place for place, name in enumerate(names) if name == "time"]
    whole = all(list(names[place : place + 3]) == ["time", "algbw", "busbw"] for place in starts)
    return names if starts and whole else ()


@dataclass
class _Table:
    """Columns of the last header; `scale` converts times to seconds (2017's were in ms)."""

    columns: Sequence[str] = ()
    scale: float = 1e-3


def _of_table(lines: Iterable[tuple[int, str]]) -> NcclTest:
    rows: list[PrintedRow] = []
    hosts: dict[int, str] = {}
    facts: dict[str, Scalar] = {}
    table, operation, skipped, failures = _Table(), "", 0, []
    bounds: tuple[int, bool] | None = None
    amd = False
    for place, line in lines:
        amd = amd or _is_of_amd(line)
        if match := _HEADER.search(line):
            if rows or skipped:
                failures.append(f"line {place}: a second table: {SEVERAL_RUNS}")
            table = _Table(_columns(line[match.start() :].lstrip("#").split()))
        elif _UNITS.search(line):
            table.scale = 1e-6 if "(us)" in line else table.scale
        elif match := _DEVICE.search(line):
            hosts[int(match[1])] = match[2]
        elif match := _OUT_OF_BOUNDS.search(line):
            bounds = int(match[1]), match[2] == "OK"
        elif match := _STARTING.search(line):
            operation = match[1]
        elif stated := _stated(line):
            facts |= stated
        elif match := _FAILED.search(line):
            failures.append(f"the test failed: {match[0].strip(' :')}")
        elif table.columns and (match := _ROW.search(line)) and "#" not in line:
            row = _row(match, table, place)
            skipped += row is None
            rows += [row] if row else []
    return measured_test(
        rows, operation, hosts, facts, bounds=bounds, failures=failures, skipped=skipped, amd=amd
    )  # fmt: skip


def _is_of_amd(line: str) -> bool:
    """Whether a line names AMD's library, compiler or GPUs."""
    if "AMD" in line or "gfx" in line:
        return _AMD.search(line) is not None
    return "rccl" in line or "RCCL" in line or "HIP version" in line


def _stated(line: str) -> dict[str, Scalar]:
    """Versions, or how the test was set, if the line states them."""
    if "nThread " not in line and "nccl-tests version " not in line and "Blocking " not in line:
        return {}  # nearly all lines: a search for each pattern takes longer
    if versions := _VERSION.search(line):
        return {"nccl_tests_version": versions[1], "nccl_version": version(int(versions[3]))}
    if _BLOCKING.search(line):
        return {NCCL_BLOCKING: 1}
    if not _SETTINGS.search(line):
        return {}
    settings: dict[str, Scalar] = {NCCL_BLOCKING: 0}  # else the next line states it
    for fact, (name, _) in NCCL_SETTINGS.items():
        stated = re.search(rf"(?<!warmup )(?<!agg )\b{name}: ({DIGITS})", line)
        if stated:
            settings[fact] = int(stated[1])
    return settings


def _row(match: re.Match[str], table: _Table, line: int) -> PrintedRow | None:
    """None if a figure is missing or can't be read."""
    names, values = list(table.columns), [match[1], match[2], match[3], *match[4].split()]
    place = next((names.index(name) for name in ("redop", "op") if name in names), None)
    if place is not None and len(values) > place and figure(values[place]) is not None:
        values.insert(place, "")  # up to 2.12, an operation that reduces nothing names nothing
    if len(values) < len(names):
        return None
    starts = [place for place, name in enumerate(names) if name == "time"]
    head = dict(zip(names[: starts[0]], values, strict=False))
    ways = []
    for start, end in zip(starts, [*starts[1:], len(names)], strict=True):
        texts = dict(zip(names[start:end], values[start:end], strict=True))
        figures = {name: figure(text) for name, text in texts.items()}
        if any(figures[name] is None and text != "N/A" for name, text in texts.items()):
            return None  # torn by another line
        time, algbw, busbw = (figures[name] for name in ("time", "algbw", "busbw"))
        if time is None or algbw is None or busbw is None:
            return None
        wrong = figures.get("#wrong")
        ways.append(
            PrintedTiming(
                time.times(table.scale),
                algbw.times(GB),
                busbw.times(GB),
                None if wrong is None else int(wrong.value),
                any(figures.get(name) is not None for name in ("#wrong", "error", "res")),
            )
        )
    root = figure(head.get("root", ""))
    redop = head.get("redop", head.get("op"))
    return PrintedRow(
        int(match[1]), match[3], redop, tuple(ways), line, None if root is None else int(root.value)
    )


TOOL: Final = Tool(
    "nccl-tests",
    re.compile(
        rb"(?:#\s+(?:size|bytes)|\b(?:size\s+count|bytes\s+N)\s+type)\s[^\n]*algbw[^\n]*busbw"
        rb"|\bCollective test starting: "
        rb'|"args"\s*:\s*\[\s*"[^"\n]*_perf'
    ),
    line="size count type … time algbw busbw",
    words=("algbw", "busbw", "out-of-place", "avg bus bandwidth", "out of bounds values", "nccl-tests"),
    read=nccl_tests,
    metrics=METRICS,
    subject="operation",
)
