"""What iperf3 writes as JSON: `-J` (one document) or `--json-stream` (one event per line).

The figure is what arrived: bits per second at the receiver, over all streams. A test with an `error` has no
result, whatever it had sent before.

Source: esnet/iperf, src/iperf_api.c (iperf_print_results, JSON_write), 3.1 to 3.19.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from assay.logs.facts import ONLY_HOST
from assay.logs.figures import (
    LogFigure,
    LogFigures,
    check_agreement,
    document,
    line_of,
    number,
    time_of_day,
    whole,
)
from assay.logs.tool import Tool
from assay.records import Metric, Scalar

METRICS: Final = (
    Metric("bandwidth", "B/s", "higher", "bytes per second received, all streams", scales=False),
    Metric("bandwidth_sent", "B/s", "higher", "bytes per second sent, all streams", scales=False),
    Metric("retransmits", "", "lower", "segments that TCP retransmitted", scales=False),
    Metric("retransmit_share", "", "lower", "share of TCP segments that were retransmitted", scales=False),
    Metric("cores", "", "lower", "CPU time per second of iperf3 itself; 1 is one core", scales=False),
    Metric("jitter", "s", "lower", "of UDP", scales=False),
    Metric("lost", "", "lower", "share of UDP datagrams that did not arrive", scales=False),
)

_ONCE: Final = ("start", "end")  # events of a stream that a test has once
_STREAMED: Final = re.compile(r'^\s*\{\s*"event"')
# Where a sum is, and its label for the direction of the test.
_SUMS: Final[Mapping[str, tuple[str, dict[str, Scalar]]]] = {
    "sum_received": ("bandwidth", {}),
    "sum_sent": ("bandwidth_sent", {}),
    "sum_received_bidir_reverse": ("bandwidth", {"direction": "reverse"}),
    "sum_sent_bidir_reverse": ("bandwidth_sent", {"direction": "reverse"}),
}
_FACTS: Final = ("protocol", "num_streams", "blksize", "duration", "reverse", "bidir")


def iperf3(path: Path) -> LogFigures:
    """What a report says. Raises InputError if it can't be read."""
    return report(whole(path))


def report(text: str) -> LogFigures:
    """What a document, or a stream of events, says."""
    found = LogFigures()
    try:
        told = _events(text, found) if _STREAMED.match(text) else document(_braced(text))
        if told.get("error"):
            found.problems.append(f"line {line_of(text, chr(34) + 'error')}: {told['error']}")
            return found
        start = told["start"]
        found.facts |= {"iperf3_version": str(start["version"]).removeprefix("iperf ")}
        found.started_at = time_of_day(start.get("timestamp", {}).get("timesecs"))
        if host := _only_host(start):
            found.facts[ONLY_HOST] = host
        asked = start.get("test_start", {})
        found.facts |= {key: asked[key] for key in _FACTS if isinstance(asked.get(key), str | int | float)}
        begin = max(text.find('"end"'), 0)
        mss = start.get("tcp_mss", start.get("tcp_mss_default"))
        figures = list(_figures(told["end"], number(mss), text, begin))
        ends = ("client", "server") if "connecting_to" in start else ("server", "client")
        if figures:
            used = told["end"].get("cpu_utilization_percent", {})
            figures += _cores(used if "connecting_to" in start else _of_server(used), ends, text, begin)
        if figures and not any(figure.metric.startswith("bandwidth") for figure in figures):
            found.problems.append(f"line {figures[0].line}: its sum is of 0 bytes: the test moved no data")
        found.figures += [] if found.problems else figures
    except ValueError as error:
        found.problems.append(str(error))
    except (KeyError, TypeError, AttributeError) as error:
        found.problems.append(f"incomplete iperf3 report: {error} is missing; was the test cut off?")
    return found.missing("no sum of received data", "the test did not finish")


def _only_host(start: Mapping[str, Any]) -> str:
    """The address on which both ends of the first connection were; "" if they were on two, or unknown."""
    ends: Mapping[str, Any] = next(iter(start.get("connected") or ()), {})
    local, remote = (str(ends.get(key, "")).removeprefix("::ffff:") for key in ("local_host", "remote_host"))
    loopback = all(address == "::1" or address.startswith("127.") for address in (local, remote))
    return local if local == remote or loopback else ""


def _events(text: str, found: LogFigures) -> dict[str, Any]:
    """The document assembled from a stream of events; a torn line is counted."""
    told: dict[str, Any] = {}
    for at, line in enumerate(text.splitlines(), 1):
        try:
            event = document(line)
            name, data = event["event"], event["data"]
        except (ValueError, KeyError):
            found.skipped += bool(line.strip())
            continue
        if name in told and name in _ONCE:
            found.again(at, f"a second event {name!r}")
        told[name] = data
    return told


def _braced(text: str) -> str:
    """A document without the warnings printed before and after it."""
    return text[text.find("{") : text.rfind("}") + 1]


def _figures(end: Mapping[str, Any], mss_bytes: float | None, text: str, begin: int) -> Iterator[LogFigure]:
    """Figures from the sums. `mss_bytes`: segment size, if the report has it."""
    for key, (metric, labels) in _SUMS.items():
        told = end.get(key, {})
        line = line_of(text, f'"{key}"', begin)
        rate = number(told.get("bits_per_second"))
        moved_bytes, took_s = number(told.get("bytes")), number(told.get("seconds"))
        if moved_bytes is not None and took_s:
            of = "its bytes and seconds"
            check_agreement(f"line {line}: {key}", "bits_per_second", rate, moved_bytes * 8 / took_s, of)
        if rate is not None and rate > 0:
            yield LogFigure(metric, rate, labels, {}, line, "b/s")
        yield from _retransmits(told, mss_bytes, labels, line)
    udp, line = end.get("sum", {}), line_of(text, '"sum"', begin)
    for metric, key, unit in (("lost", "lost_percent", "%"), ("jitter", "jitter_ms", "ms")):
        value = number(udp.get(key))
        if value is not None:
            yield LogFigure(metric, value, {}, {}, line, unit)
    sent = number(udp.get("bits_per_second"))
    if sent and "sum_sent" not in end:  # UDP before 3.10, which reports what was sent and what was lost
        yield LogFigure("bandwidth_sent", sent, {}, {}, line, "b/s")


def _retransmits(
    told: Mapping[str, Any], mss_bytes: float | None, labels: dict[str, Scalar], line: int
) -> Iterator[LogFigure]:
    """Retransmitted segments, and their share if the segment size is known; below 0 if not reported."""
    count, sent_bytes = number(told.get("retransmits")), number(told.get("bytes"))
    if count is None or count < 0:
        return
    yield LogFigure("retransmits", count, labels, {}, line)
    if mss_bytes and mss_bytes > 0 and sent_bytes and sent_bytes > 0:
        share = number(count * mss_bytes / sent_bytes)
        if share is not None:
            yield LogFigure("retransmit_share", share, labels, {}, line)


def _of_server(used: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a server reports, without the 0 that it writes for a client whose times it was not sent."""
    return {key: told for key, told in used.items() if not (key == "remote_total" and told == 0)}


def _cores(used: Mapping[str, Any], ends: tuple[str, str], text: str, begin: int) -> Iterator[LogFigure]:
    """CPU time of the programs on both ends, over the time of the test."""
    for end, key in zip(ends, ("host_total", "remote_total"), strict=True):
        percent = number(used.get(key))
        if percent is not None and percent >= 0:
            line = line_of(text, f'"{key}"', begin)
            yield LogFigure("cores", percent, {"end": end}, {}, line, "%")


TOOL: Final = Tool(
    "iperf3",
    re.compile(rb'"version"\s*:\s*"iperf 3'),
    line='"version": "iperf 3…", of its --json',
    words=("iperf", "bitrate", "retr  cwnd", "gbits/sec"),
    read=iperf3,
    metrics=METRICS,
    unread=re.compile(rb"(?m)^\[ *(?:\d+|SUM)\] +[\d.]+-[\d.]+ +sec .*bits/sec"),
    instead="run iperf3 with --json",
)
