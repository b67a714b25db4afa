"""What elbencho appends to its `--jsonfile`: a line per phase, a JSON object whose values are all strings.

Figures are those of `last_done`, when the slowest worker had ended; those of `first_done` leave out what the
others still had to do. A phase that occurs again has an index.

Source: breuner/elbencho, source/Statistics.cpp, printPhaseResultsAsJSON, 3.0.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from assay.formats.figures import LogFigure, LogFigures, above_zero, document, lines, number
from assay.formats.tools import Tool
from assay.records import Metric, Scalar

METRICS: Final = (
    Metric("read_bandwidth", "B/s", "higher", "bytes per second read by all workers", scales=False),
    Metric("write_bandwidth", "B/s", "higher", "bytes per second written by all workers", scales=False),
    Metric("read_rate", "operations/s", "higher", "reads per second of all workers", scales=False),
    Metric("write_rate", "operations/s", "higher", "writes per second of all workers", scales=False),
    Metric("entry_rate", "operations/s", "higher", "files or directories per second", scales=False),
    Metric("mean_read_latency", "s", "lower", "mean time of one read", scales=False),
    Metric("mean_write_latency", "s", "lower", "mean time of one write", scales=False),
    Metric("mean_entry_latency", "s", "lower", "mean time of one file or directory", scales=False),
    Metric("run_time", "s", None, "time until the slowest worker had ended", scales=False),
)
_READS: Final = ("READ", "RWMIX-READ")
_FACTS: Final = ("version", "hosts", "threads", "file_size", "block_size", "direct_io", "io_depth")


def elbencho(path: Path) -> LogFigures:
    """What a result file says. Raises InputError if it can't be read."""
    log, seen = LogFigures(), Counter[tuple[str, str]]()
    for line, text in lines(path, log):
        if not text.strip():
            continue
        try:
            record = document(text)
            phase, label = str(record["phase_type"]), str(record.get("label", ""))
            config, done = record["config"], record["last_done"]
            labels: dict[str, Scalar] = {"phase": phase, **({"label": label} if label else {})}
            if seen[phase, label]:
                labels["index"] = seen[phase, label]
            figures = list(_figures(phase, done, labels, line))
            facts = {f"elbencho_{key}": str(config[key]) for key in _FACTS if key in config}
        except (ValueError, LookupError, TypeError, AttributeError):
            log.skipped += 1
            continue
        seen[phase, label] += 1
        log.facts |= facts
        log.figures += figures
    if seen:
        last = next(reversed(seen))[0]
        log.notes += (f"elbencho writes no end into its file: phases after {last} may be missing",)
    return log.missing("no phase of elbencho has a figure")


def _figures(
    phase: str, done: Mapping[str, Any], labels: Mapping[str, Scalar], line: int
) -> Iterator[LogFigure]:
    """The figures of a phase; a mixed one has those of its reads apart."""
    time_ms = number(done["elapsed_time_ms"])
    if time_ms is None or time_ms <= 0:  # too short for its clock: the rates are not those of the storage
        return
    yield LogFigure("run_time", time_ms, labels, {}, line, "ms")
    latency = done.get("latency", {})
    yield from _of_side("read" if phase in _READS else "write", done, latency.get("IO", {}), labels, line)
    mixed = done.get("rwmix_read", {})
    yield from _of_side("read", mixed, latency.get("IO", {}).get("rwmix_read", {}), labels, line)
    rates = (("entry_rate", done.get("entries/s"), "operations/s"),)
    entry = (("mean_entry_latency", latency.get("entries", {}).get("avg_us"), "us"),)
    yield from above_zero((*rates, *entry), labels, line)


def _of_side(
    side: str, done: Mapping[str, Any], latency: Mapping[str, Any], labels: Mapping[str, Scalar], line: int
) -> Iterator[LogFigure]:
    of_side = (
        (f"{side}_bandwidth", done.get("bytes/s"), "B/s"),
        (f"{side}_rate", done.get("iops"), "operations/s"),
        (f"mean_{side}_latency", latency.get("avg_us"), "us"),
    )
    yield from above_zero(of_side, labels, line)


TOOL: Final = Tool(
    "elbencho",
    re.compile(rb'"phase_type"\s*:\s*"[^"]*"\s*,\s*"phase_id"'),
    line='"phase_type": …, "phase_id": …, of its --jsonfile',
    words=("elbencho", "first done", "last done", "mkdirs", "rmfiles"),
    read=elbencho,
    metrics=METRICS,
    unread=re.compile(rb"(?m)^ +(?:IOPS|Throughput MiB/s) +: +\d+ +\d+"),
    instead="run elbencho with --jsonfile, and import that file",
)
