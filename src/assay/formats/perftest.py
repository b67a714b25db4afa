"""What perftest (ib_write_bw, ib_read_lat and the others) prints: its table of any version, or its JSON.

     #bytes     #iterations    BW peak[MiB/sec]    BW average[MiB/sec]   MsgRate[Mpps]
     65536      5000             11030.78            11030.45             0.176487

Columns and units are named by the header. The JSON does not state the unit of bandwidth, and `MB` was 2^20
bytes before it was called MiB. So the unit is the one in which bandwidth is message size times message rate,
as it is by definition. If no unit satisfies that, the row is torn and counted. Some versions write JSON
without quotes, and with commas before a closing brace.

Source: linux-rdma/perftest, src/perftest_parameters.{h,c}: RESULT_FMT…, print_full_bw_report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.formats.figures import (
    SEVERAL_RUNS,
    LogFigure,
    LogFigures,
    alike,
    number,
    numbered,
    rounding,
    whole,
)
from assay.formats.tools import Tool
from assay.records import Metric, Scalar
from assay.units import counted, factor

CLOCK_WARNING: Final = "cpu_clock_warning"  # fact: it reported that its CPU is not at its highest clock
METRICS: Final = (
    Metric("bandwidth", "B/s", "higher", "average over the test", scales=False),
    Metric("bandwidth_peak", "B/s", "higher", "bandwidth of the fastest message", scales=False),
    Metric("message_rate", "messages/s", "higher", "messages per second", scales=False),
    Metric("latency", "s", "lower", "mean; half of a round trip, except for reads and atomics", scales=False),
    Metric("latency_median", "s", "lower", "what perftest calls typical", scales=False),
    Metric("latency_min", "s", "lower", "latency of the fastest message", scales=False),
    Metric("latency_max", "s", "lower", "latency of the slowest message", scales=False),
    Metric("latency_stdev", "s", "lower", "standard deviation", scales=False),
    Metric("latency_p99", "s", "lower", "99th percentile", scales=False),
    Metric("latency_p99_9", "s", "lower", "99.9th percentile", scales=False),
)

_RESULTS: Final = re.compile(r'"?\bresults"?\s*:\s*\{')
_COLUMN: Final = re.compile(r"#(\w+)|(tps average)|(?!\s)([\w.% ]*[\w.%])\[([^\]]*)\]")
_PORT: Final = re.compile(r"(.+) Port(\d)$")
_SIDE: Final = re.compile(r"^\s*(Local|Remote) results:")
_TITLE: Final = re.compile(
    r"^\s*(.*?)\s*\b((?:Send|RDMA_\w+|Atomic(?: [A-Z_]+)?) (?:Bidirectional )?(?:Post List )?(?:BW|Latency) "
    r"(?:forwarding )?(?:Multicast )?Test)\s*$"
)
_FACT: Final = re.compile(
    r"(Device|Transport type|Connection type|Link type|Mtu|Number of qps)\s*: (\S+?)(?:\[B\])?(?=\s|$)"
)
_FAILED: Final = re.compile(
    r"^\s*((?:Completion with error|Couldn't |Unable to |Failed |Failed: |ERROR|Can't ).*)", re.IGNORECASE
)
_CLOCK: Final = re.compile(r"CPU [Ff]requency is not max|CPU frequency values detected")
_PAIR: Final = re.compile(r'"?([A-Za-z][\w.]*)"?\s*:\s*(?:"([^"]*)"|([^\s,{}"]+))')
_LATENCIES: Final = {
    "t_min": "latency_min",
    "t_max": "latency_max",
    "t_typical": "latency_median",
    "t_avg": "latency",
    "t_stdev": "latency_stdev",
    "99% percentile": "latency_p99",
    "99.9% percentile": "latency_p99_9",
    "percentile_99": "latency_p99",
    "percentile_99.9": "latency_p99_9",
}
_UNITS: Final = {
    "MB/sec": ("MiB/s", "MB/s"),
    "MiB/sec": ("MiB/s",),
    "Gb/sec": ("Gb/s",),
    "": ("MiB/s", "Gb/s"),
}
_SLACK: Final = 1e-6  # of floating point
_SERVER: Final = "Waiting for client to connect"
_RATE_HALF: Final = 5e-7  # half of its last digit: every version prints six


@dataclass(frozen=True)
class _Column:
    """A column of the header: its name, its unit as printed, and its port if it belongs to one."""

    name: str
    unit: str
    port: int | None = None


@dataclass(frozen=True)
class _Row:
    """Cells of a row by column."""

    cells: Mapping[_Column, str]
    side: str
    line: int

    def text(self, name: str, port: int | None = None) -> str:
        """A cell; empty if there is no such column."""
        texts = [t for column, t in self.cells.items() if column.name == name and column.port == port]
        return texts[0] if texts else ""


def perftest(path: Path) -> LogFigures:
    """What a log or a JSON report says. Raises InputError if it can't be read."""
    return report(whole(path))


def report(text: str) -> LogFigures:
    """What a table or a JSON report says."""
    log = LogFigures()
    _count_tables(text, log)
    rows = _of_json(text, log) if text.lstrip().startswith("{") else _of_table(text, log)
    for row in rows:
        figures = list(_figures(row))
        log.figures += figures
        log.skipped += not figures
    return log.missing("no table row", "the test did not measure anything")


def _count_tables(output: str, log: LogFigures) -> None:
    """Report the table of another run: a log that has both ends of a test has two."""
    heads = [
        line for line, text in enumerate(output.split("\n"), 1) if "#bytes" in text and "#iterations" in text
    ]
    most = 1 + (_SERVER in output)
    if len(heads) > most:
        log.again(heads[most], f"a table after {counted(most, 'other')}")


def _of_table(output: str, log: LogFigures) -> Iterator[_Row]:
    columns: Sequence[_Column] = ()
    side, is_open = "", False
    for line, text in numbered(output, log):
        if "#bytes" in text and "#iterations" in text:
            columns = _columns(text[text.index("#bytes") :])
        elif match := _SIDE.match(text):
            side = match[1].lower()
        elif match := _FAILED.match(text):
            log.problems.append(f"line {line}: {match[1].strip()}")
        elif match := _TITLE.match(text):
            _name_test(match[1], match[2], line, log)
        elif _CLOCK.search(text):
            log.facts[CLOCK_WARNING] = True
        elif columns and (cells := _cells(text, len(columns))):
            if len(cells) == len(columns):
                is_open = True
                yield _Row(dict(zip(columns, cells, strict=True)), side, line)
            else:
                log.skipped += 1
        elif text.lstrip().startswith("-----"):
            is_open = False
        else:
            for name, value in _FACT.findall(text):
                log.facts.setdefault(name.lower().replace(" ", "_"), value)
    if is_open:
        log.notes += ("no line of dashes after the last row: rows after it may be missing",)


def _name_test(before: str, test: str, line: int, log: LogFigures) -> None:
    log.facts["test"] = test
    if before.strip("\0"):  # a sparse file has these where another one was cut
        log.problems.append(f"line {line}: `{before}` is before the name of the test, {test!r}")


def _columns(header: str) -> list[_Column]:
    columns = []
    for count, rate, name, unit in _COLUMN.findall(header):
        port = _PORT.match(name)
        columns.append(_Column(port[1], unit, int(port[2])) if port else _Column(count or rate or name, unit))
    return columns


def _cells(text: str, most: int) -> list[str]:
    """The numbers at the end of a line that begins like a row; [] if it begins differently.

    Words that a launcher put in front are ignored.
    """
    begin = re.search(r"(?:^|[\s>:])(\d+\s+\d+(?:\s.*)?)$", text)
    if begin is None:
        return []
    cells = begin[1].split()
    return cells if len(cells) <= most and all(number(cell) is not None for cell in cells) else cells[:1]


def _of_json(text: str, log: LogFigures) -> Iterator[_Row]:
    """Rows begin with `MsgSize`; a report whose braces are not all closed was cut off."""
    cells: dict[_Column, str] = {}
    begin = 0
    if len(_RESULTS.findall(text)) > 1:
        log.problems.append(f"it has several results: {SEVERAL_RUNS}")
        return
    if text.count("{") != text.count("}"):
        log.problems.append("incomplete JSON report: a brace is not closed; was it cut off?")
        return
    for pair in _PAIR.finditer(text):
        key, value = pair[1], pair[2] if pair[2] is not None else pair[3]
        if key == "MsgSize":
            if cells:
                yield _Row(cells, "", begin)
            cells, begin = {_Column("bytes", ""): value}, text.count("\n", 0, pair.start()) + 1
        elif cells:
            unit = {"MsgRate": "Mpps"}.get(key, "usec" if key in _LATENCIES else "")
            cells[_Column(key.replace("BW_", "BW "), unit)] = value
        elif key not in ("test_info", "results"):
            log.facts[key.lower()] = value
    if cells:
        yield _Row(cells, "", begin)


def _figures(row: _Row) -> Iterator[LogFigure]:
    """All figures of a row; empty if it is torn."""
    size = number(row.text("bytes"))
    if size is None or size <= 0 or any(number(cell) is None for cell in row.cells.values() if cell):
        return
    for port in sorted({column.port for column in row.cells}, key=lambda port: port or 0):
        labels: dict[str, Scalar] = {"payload_bytes": int(size)}
        labels |= {"port": port} if port is not None else {}
        labels |= {"side": row.side} if row.side else {}
        for metric, value, unit in (*_exchanged(row, size, port), *_latencies(row, port)):
            yield LogFigure(metric, value, labels, {}, row.line, unit)


def _latencies(row: _Row, port: int | None) -> Iterator[tuple[str, float, str]]:
    """Times; empty if they are out of order or one has lost digits, as in a torn row."""
    printed = {
        _LATENCIES[column.name]: text
        for column, text in row.cells.items()
        if column.name in _LATENCIES and column.unit == "usec" and column.port == port
    }
    times = {metric: float(text) for metric, text in printed.items()}
    if not alike(printed.values()) or min(times.values(), default=0.0) < 0:
        return
    order = [
        times[f"latency_{name}"]
        for name in ("min", "median", "p99", "p99_9", "max")
        if f"latency_{name}" in times
    ]
    if order != sorted(order) or times.get("latency", 1.0) <= 0:
        return
    yield from ((metric, value, "us") for metric, value in times.items())


def _exchanged(row: _Row, size: float, port: int | None) -> Iterator[tuple[str, float, str]]:
    """Bandwidth and message rate; empty if one is not the other times the size."""
    named = {column.name: column.unit for column in row.cells if column.port == port}
    name = next((name for name in ("BW average", "BW") if name in named), None)
    if name is None:
        return
    average, rate = row.text(name, port), row.text("MsgRate", port)
    units = _UNITS.get(named[name], ())
    if not rate:  # as before 2013
        units = units[:1] if named[name] else ()
    unit = next((u for u in units if not rate or _agree(average, u, rate, size)), None)
    peak = row.text("BW peak", port)
    lost_digits = rounding(rate) != _RATE_HALF if rate else bool(peak) and not alike((average, peak))
    if unit is None or lost_digits or (float(average) <= 0 and float(rate or 0) <= 0):
        return
    scale = factor(unit)[0]
    sharper = not rate or rounding(average) * float(rate) <= _RATE_HALF * float(average)
    exact = float(average) * scale if sharper else float(rate) * 1e6 * size
    yield "bandwidth", exact, "B/s"
    if float(peak or 0) > 0:  # 0 if the test measured none: --noPeak, a duration
        yield "bandwidth_peak", float(peak) * scale, "B/s"
    if rate and float(rate) > 0:
        yield "message_rate", float(rate) * 1e6, "messages/s"


def _agree(average: str, unit: str, rate: str, size: float) -> bool:
    """Whether bandwidth is size times rate, within printed precision."""
    scale = factor(unit)[0]
    low, high = ((float(average) + side * rounding(average)) * scale for side in (-1, 1))
    least, most = ((float(rate) + side * _RATE_HALF) * 1e6 * size for side in (-1, 1))
    return low <= most * (1 + _SLACK) and least <= high * (1 + _SLACK)


TOOL: Final = Tool(
    "perftest",
    re.compile(rb'#bytes\s+(?:#sl\s+)?#iterations\s|"?MsgSize"?\s*:\s*\d'),
    line="#bytes #iterations …",
    words=("bw average", "t_typical", "msgrate", "send_bw", "ib_write"),
    read=perftest,
    metrics=METRICS,
    ends=2,  # server and client
    subject="test",
)
