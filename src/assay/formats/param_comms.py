"""What PARAM's communication benchmark prints: one row per size.

    COMMS-RES      size (B)  nElementsPerRank  Latency(us):p50  p75  p95  Min  Max  AlgBW(GB/s) BusBW(GB/s)
    COMMS-RES-all_reduce  1048576  262144  120.1  121.0  125.5  118.2  126.0  8.731  15.279

Columns are named by the header; the column of sizes became `total-size (B)`, and the operation got its number
format. Times are over the ranks. A row whose times are out of order is torn and counted, as are the rows of
compressed exchanges, which have a different header.

Source: facebookresearch/param, train/comms/pt/comms.py (printPreamble, reportBenchTimeColl).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from assay.formats.figures import LogFigure, LogFigures, alike, crash, lines, number
from assay.formats.tools import Tool
from assay.records import Metric, Scalar

METRICS: Final = (
    Metric("busbw", "B/s", "higher", "bus bandwidth, as defined by nccl-tests", scales=False),
    Metric("algbw", "B/s", "higher", "size over time", scales=False),
    Metric("latency_p50", "s", "lower", "time of one operation, median over ranks", scales=False),
    Metric("latency_p75", "s", "lower", "time of one operation, 75th percentile over ranks", scales=False),
    Metric("latency_p95", "s", "lower", "time of one operation, 95th percentile over ranks", scales=False),
    Metric("latency_min", "s", "lower", "time of one operation, fastest rank", scales=False),
    Metric("latency_max", "s", "lower", "time of one operation, slowest rank", scales=False),
    Metric("ping_p50", "s", "lower", "time one way between two ranks, median", scales=False),
    Metric("ping_pong_p50", "s", "lower", "time both ways between two ranks, median", scales=False),
    Metric("bandwidth", "B/s", "higher", "bytes per second between two ranks, one way", scales=False),
    Metric(
        "bandwidth_both_ways",
        "B/s",
        "higher",
        "bytes per second between two ranks, both ways at once",
        scales=False,
    ),
)

_HEADER: Final = re.compile(r"COMMS-RES\s+((?:total-)?size \(B\).*)")
_ROW: Final = re.compile(r"COMMS-RES-(\S+)\s+(.*)")
_TIMES: Final = re.compile(r"(\w+)\(us\):?\s*p50")
_DTYPE: Final = re.compile(r"(.+)-(b?float\d*|u?int\d+|half|double|long|int|torch\.\w+)$")
# Column header, without the time that several share → its metric and unit.
_COLUMNS: Final[Mapping[str, tuple[str, str]]] = {
    **{f"{time}:p50": ("latency_p50", "us") for time in ("Latency", "Time")},
    "p75": ("latency_p75", "us"),
    "p95": ("latency_p95", "us"),
    "Min": ("latency_min", "us"),
    "Max": ("latency_max", "us"),
    "AlgBW(GB/s)": ("algbw", "GB/s"),
    "BusBW(GB/s)": ("busbw", "GB/s"),
    "pingLatency:p50": ("ping_p50", "us"),
    "pingPongLatency:p50": ("ping_pong_p50", "us"),
    "avgUniBW(GB/s)": ("bandwidth", "GB/s"),
    "avgBiBW(GB/s)": ("bandwidth_both_ways", "GB/s"),
}
_SIZE: Final = "bytes"
_IN_ORDER: Final = ("latency_min", "latency_p50", "latency_p75", "latency_p95", "latency_max")


def param_comms(path: Path) -> LogFigures:
    """The contents of a log. Raises InputError if it can't be read."""
    log = LogFigures()
    columns: Sequence[str] = ()
    headed = False
    for line, text in lines(path, log):
        if match := _HEADER.search(text):
            columns, headed = _columns(match[1]), True
        elif match := _ROW.search(text):
            figures = list(_figures(match[1], columns, match[2].split(), line))
            log.figures += figures
            log.skipped += not figures
        elif "COMMS-RES" in text:
            columns = ()  # a header that is torn or of another kind: its rows are not guessed
            log.skipped += 1
        elif why := crash(text):
            log.problems.append(f"line {line}: {why}")
    if log.figures:
        size = log.figures[-1].labels["payload_bytes"]
        log.notes += (f"PARAM prints nothing at its end: rows after {size} bytes may be missing",)
    if log.skipped and not headed:
        return log.missing(
            "no table row has its header above it, which names the columns: copy the whole table"
        )
    return log.missing("no table row", "nothing was measured")


def _columns(header: str) -> list[str]:
    """One word per column, in order."""
    unspaced = re.sub(r"(?:total-)?size \(B\)", _SIZE, header, count=1)
    return _TIMES.sub(r"\1:p50", unspaced).split()


def _figures(name: str, columns: Sequence[str], cells: Sequence[str], line: int) -> Iterator[LogFigure]:
    """All figures of a row; empty if it is torn or has no header."""
    values = [number(cell) for cell in cells]
    if not columns or columns[0] != _SIZE or len(cells) != len(columns) or None in values:
        return
    row = dict(zip(columns, (value for value in values if value is not None), strict=True))
    times = {_COLUMNS[c][0]: row[c] for c in row if c in _COLUMNS and columns.count(c) == 1}
    order = [times[metric] for metric in _IN_ORDER if metric in times]
    rates = [cell for column, cell in zip(columns, cells, strict=True) if column.endswith("(GB/s)")]
    if not alike(rates) or order != sorted(order) or row[_SIZE] < 1 or min(times.values(), default=0.0) < 0:
        return
    dtype = _DTYPE.match(name)
    labels: dict[str, Scalar] = {"operation": dtype[1] if dtype else name, "payload_bytes": int(row[_SIZE])}
    labels |= {"dtype": dtype[2]} if dtype else {}
    for column, (metric, unit) in _COLUMNS.items():
        if (
            columns.count(column) == 1 and row[column] > 0
        ):  # p75 stands twice between two ranks: of which time?
            yield LogFigure(metric, row[column], labels, {}, line, unit)


TOOL: Final = Tool(
    "param-comms",
    re.compile(rb"COMMS-RES"),
    line="COMMS-RES …",
    words=("comms-", "busbw", "algbw", "num-elements"),
    read=param_comms,
    metrics=METRICS,
)
