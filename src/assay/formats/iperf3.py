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

from assay.formats.figures import (
    ONLY_HOST,
    LogFigure,
    LogFigures,
    braced,
    check_agreement,
    document,
    line_of,
    number,
    reported,
    time_of_day,
    whole,
)
from assay.formats.tools import Tool
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
    log = LogFigures()
    with reported(log, "incomplete iperf3 report: {} is missing; was the test cut off?"):
        parsed = _events(text, log) if _STREAMED.match(text) else document(braced(text))
        if parsed.get("error"):
            log.problems.append(f"line {line_of(text, chr(34) + 'error')}: {parsed['error']}")
            return log
        start = parsed["start"]
        log.facts |= {"iperf3_version": str(start["version"]).removeprefix("iperf ")}
        log.started_at = time_of_day(start.get("timestamp", {}).get("timesecs"))
        if host := _only_host(start):
            log.facts[ONLY_HOST] = host
        settings = start.get("test_start", {})
        log.facts |= {
            key: settings[key] for key in _FACTS if isinstance(settings.get(key), str | int | float)
        }
        begin = max(text.find('"end"'), 0)
        mss = start.get("tcp_mss", start.get("tcp_mss_default"))
        figures = list(_figures(parsed["end"], number(mss), text, begin))
        ends = ("client", "server") if "connecting_to" in start else ("server", "client")
        if figures:
            used = parsed["end"].get("cpu_utilization_percent", {})
            figures += _cores(used if "connecting_to" in start else _of_server(used), ends, text, begin)
        if figures and not any(figure.metric.startswith("bandwidth") for figure in figures):
            log.problems.append(f"line {figures[0].line}: its sum is of 0 bytes: the test moved no data")
        log.figures += figures
    return log.missing("no sum of received data", "the test did not finish")


def _only_host(start: Mapping[str, Any]) -> str:
    """The address on which both ends of the first connection were; "" if they were on two, or unknown."""
    ends: Mapping[str, Any] = next(iter(start.get("connected") or ()), {})
    local, remote = (str(ends.get(key, "")).removeprefix("::ffff:") for key in ("local_host", "remote_host"))
    loopback = all(address == "::1" or address.startswith("127.") for address in (local, remote))
    return local if local == remote or loopback else ""


def _events(text: str, log: LogFigures) -> dict[str, Any]:
    """The document assembled from a stream of events; a torn line is counted."""
    events: dict[str, Any] = {}
    for line_number, line in enumerate(text.splitlines(), 1):
        try:
            event = document(line)
            name, data = event["event"], event["data"]
        except (ValueError, KeyError):
            log.skipped += bool(line.strip())
            continue
        if name in events and name in _ONCE:
            log.again(line_number, f"a second event {name!r}")
        events[name] = data
    return events


def _figures(end: Mapping[str, Any], mss_bytes: float | None, text: str, begin: int) -> Iterator[LogFigure]:
    """Figures from the sums. `mss_bytes`: segment size, if the report has it."""
    for key, (metric, labels) in _SUMS.items():
        total = end.get(key, {})
        line = line_of(text, f'"{key}"', begin)
        rate = number(total.get("bits_per_second"))
        moved_bytes, took_s = number(total.get("bytes")), number(total.get("seconds"))
        if moved_bytes is not None and took_s:
            basis = "its bytes and seconds"
            check_agreement(f"line {line}: {key}", "bits_per_second", rate, moved_bytes * 8 / took_s, basis)
        if rate is not None and rate > 0:
            yield LogFigure(metric, rate, labels, {}, line, "b/s")
        yield from _retransmits(total, mss_bytes, labels, line)
    udp, line = end.get("sum", {}), line_of(text, '"sum"', begin)
    for metric, key, unit in (("lost", "lost_percent", "%"), ("jitter", "jitter_ms", "ms")):
        value = number(udp.get(key))
        if value is not None:
            yield LogFigure(metric, value, {}, {}, line, unit)
    sent = number(udp.get("bits_per_second"))
    if sent and "sum_sent" not in end:  # UDP before 3.10, which reports what was sent and what was lost
        yield LogFigure("bandwidth_sent", sent, {}, {}, line, "b/s")


def _retransmits(
    total: Mapping[str, Any], mss_bytes: float | None, labels: dict[str, Scalar], line: int
) -> Iterator[LogFigure]:
    """Retransmitted segments, and their share if the segment size is known; below 0 if not reported."""
    count, sent_bytes = number(total.get("retransmits")), number(total.get("bytes"))
    if count is None or count < 0:
        return
    yield LogFigure("retransmits", count, labels, {}, line)
    if mss_bytes and mss_bytes > 0 and sent_bytes and sent_bytes > 0:
        share = number(count * mss_bytes / sent_bytes)
        if share is not None:
            yield LogFigure("retransmit_share", share, labels, {}, line)


def _of_server(used: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a server reports, without the 0 that it writes for a client whose times it was not sent."""
    return {key: percent for key, percent in used.items() if not (key == "remote_total" and percent == 0)}


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
