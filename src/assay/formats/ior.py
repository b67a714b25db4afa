"""What IOR writes as JSON (`-O summaryFormat=JSON`): one document with the results of every repetition.

    {"Version": "4.0.0", "Command line": "ior …", "tests": [{"Parameters": {…}, "Options": {…},
     "Results": [[{"access": "write", "bwMiB": 1042.1, "iops": …, "wrRdTime": …, "totalTime": …}, …]]}]}

Source: hpc/ior, src/ior-output.c (PrintReducedResult), 3.3 to 4.0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from assay.formats.figures import (
    LogFigure,
    LogFigures,
    above_zero,
    braced,
    check_agreement,
    document,
    number,
    reported,
    whole,
)
from assay.formats.tools import Tool
from assay.records import Metric, Scalar

METRICS: Final = (
    Metric("read_bandwidth", "B/s", "higher", "bytes per second that all tasks read", scales=False),
    Metric("write_bandwidth", "B/s", "higher", "bytes per second that all tasks wrote", scales=False),
    Metric("read_rate", "operations/s", "higher", "reads per second of all tasks", scales=False),
    Metric("write_rate", "operations/s", "higher", "writes per second of all tasks", scales=False),
    Metric("open_time", "s", "lower", "time to open the files", scales=False),
    Metric("close_time", "s", "lower", "time to close the files", scales=False),
    Metric("run_time", "s", None, "time of opening, transfer and closing", scales=False),
)
_ACCESSES: Final = ("read", "write")
_KEYS: Final = {"openTime": "open_time", "closeTime": "close_time", "totalTime": "run_time"}
_FACTS: Final = ("api", "tasks", "nodes", "transferSize", "blockSize", "segmentCount")


def ior(path: Path) -> LogFigures:
    """What a summary says. Raises InputError if it can't be read."""
    log, text = LogFigures(), whole(path)
    with reported(log, "incomplete summary of IOR: {} is missing; was IOR stopped?"):
        summary = document(braced(text))
        log.facts["ior_version"] = str(summary["Version"])
        offset, counted = 0, set[tuple[int | None, int | None]]()
        for test, of_test in enumerate(summary["tests"]):
            settings = {**of_test.get("Parameters", {}), **of_test.get("Options", {})}
            log.facts |= {f"ior_{key}": str(settings[key]) for key in _FACTS if key in settings}
            counted.add((_count(settings.get("tasks")), _count(settings.get("nodes"))))
            seen = Counter[str]()
            for result in _results(of_test["Results"]):
                access = str(result["access"])
                offset = text.find('"access"', offset + 1)
                line = text.count("\n", 0, max(offset, 0)) + 1
                labels: dict[str, Scalar] = {"test": test, "repetition": seen[access]}
                seen[access] += 1
                log.figures += _figures(access, result, labels, line)
            _check_repetitions(of_test, seen, summary.get("summary", ()))
        if len(counted) == 1:  # tests of other sizes are no run of one size
            [(tasks, nodes)] = counted
            log.facts |= {} if tasks is None else {"ranks": tasks}
            log.facts |= {} if nodes is None else {"nodes": nodes}
    return log.missing("no test of IOR read or wrote anything")


def _results(results: Sequence[Any]) -> Iterator[Mapping[str, Any]]:
    """Each result: in lists, one per repetition, or in one list."""
    for part in results:
        yield from part if isinstance(part, list) else (part,)


def _count(raw: object) -> int | None:
    """A number of tasks or nodes, which IOR writes as text or as a number."""
    value = number(raw)
    return int(value) if value is not None and value.is_integer() else None


def _check_repetitions(
    of_test: Mapping[str, Any], seen: Mapping[str, int], summaries: Iterable[Mapping[str, Any]]
) -> None:
    """Raise ValueError if a test's repetitions are not as many, or as fast, as the report says elsewhere."""
    where = f"test {of_test.get('TestID', 0)}"
    stated = _count(of_test.get("Parameters", {}).get("repetitions"))
    for access, count in seen.items():
        if access in _ACCESSES and stated is not None and count != stated:
            raise ValueError(f"{where}: it states {stated} repetitions, but has {count} of {access}")
    results = list(_results(of_test["Results"]))
    for summary in summaries:
        operation = summary.get("operation")
        rates = [number(result["bwMiB"]) for result in results if result["access"] == operation]
        known = [rate for rate in rates if rate is not None]
        if summary.get("TestID") != of_test.get("TestID") or not known:
            continue
        for key, value in (("Mean", fmean(known)), ("Max", max(known)), ("Min", min(known))):
            name = f"bw{key}MIB"
            check_agreement(f"{where}: {operation}", name, summary.get(name), value, "its repetitions")


def _figures(
    access: str, result: Mapping[str, Any], labels: Mapping[str, Scalar], line: int
) -> Iterator[LogFigure]:
    """The figures of one access, `write` or `read`."""
    if access not in _ACCESSES:
        return
    if not (number(result["bwMiB"]) or 0) > 0:
        raise ValueError(f"line {line}: {access} at {result['bwMiB']} MiB/s: this repetition moved no data")
    bandwidth = (f"{access}_bandwidth", result["bwMiB"], "MiB/s")
    rate = (f"{access}_rate", result.get("iops"), "operations/s")
    yield from above_zero((bandwidth, rate), labels, line)
    times = [(name, result.get(key), "s") for key, name in _KEYS.items()]
    yield from above_zero(times, {**labels, "direction": access}, line)


TOOL: Final = Tool(
    "ior",
    re.compile(rb'"access"\s*:\s*"(?:read|write)"\s*,\s*"bwMiB"'),
    line='"access": "write", "bwMiB": …, of -O summaryFormat=JSON',
    words=("ior-", "bw(mib/s)", "xfer(kib)", "max write", "max read"),
    read=ior,
    metrics=METRICS,
    unread=re.compile(rb"(?m)^(?:Max (?:Write|Read): +[\d.]+ MiB/sec|access +bw\(MiB/s\))"),
    instead="run IOR with -O summaryFormat=JSON",
)
