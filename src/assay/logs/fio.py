"""What fio writes as JSON (`--output-format=json` or `json+`): one document, perhaps after warnings.

Each job has a section per direction. Jobs of one name and group run at the same time: what they did together
is theirs under the name alone, as with `group_reporting`. With `--client`, jobs have the client's name, and
fio's own sum the name "All clients". A job with an `error` has no result, and neither has the report: a file
system that filled up while one of four jobs wrote was not measured by the other three.

Source: axboe/fio, stat.c (show_thread_status_json, add_ddir_status_json), 3.1 to 3.42.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

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
from assay.logs.fio_settings import settings
from assay.logs.tool import Tool
from assay.records import Metric, Scalar

_NEWER: Final = "measure with fio 3, or import its figures as a CSV file"
_PERCENTILES: Final = ("50.000000", "99.000000", "99.900000")
METRICS: Final = (
    Metric("read_bandwidth", "B/s", "higher", "bytes per second read by a job", scales=False),
    Metric("write_bandwidth", "B/s", "higher", "bytes per second written by a job", scales=False),
    Metric("read_rate", "operations/s", "higher", "reads per second of a job", scales=False),
    Metric("write_rate", "operations/s", "higher", "writes per second of a job", scales=False),
    Metric("read_latency", "s", "lower", "completion of one submitted read, at a percentile", scales=False),
    Metric("write_latency", "s", "lower", "completion of one submitted write, at a percentile", scales=False),
    Metric("mean_read_latency", "s", "lower", "mean time of one read, with its submission", scales=False),
    Metric("mean_write_latency", "s", "lower", "mean time of one write, with its submission", scales=False),
    Metric("run_time", "s", None, "time in which a job read or wrote", scales=False),
)
_ALL_CLIENTS: Final = "All clients"


def fio(path: Path) -> LogFigures:
    """What a report says. Raises InputError if it can't be read."""
    return report(whole(path))


def report(text: str) -> LogFigures:
    """What a document says."""
    log = LogFigures()
    start = text.find("{")
    try:
        parsed = document(text[max(start, 0) : text.rfind("}") + 1])
        log.facts["fio_version"] = str(parsed["fio version"]).removeprefix("fio-")
        _refuse_old(str(log.facts["fio_version"]))
        log.started_at = _started_at(parsed)
        jobs = parsed["client_stats"] if "client_stats" in parsed else parsed["jobs"]
        of_all = parsed.get("global options", {})
        options = [{**of_all, **job.get("job options", {})} for job in jobs if job["jobname"] != _ALL_CLIENTS]
        log.facts |= {f"fio_{name}": value for name, value in settings(options).items()}
        alike = Counter(_named(job) for job in jobs)
        offset = max(start, 0)
        for index, job in enumerate(jobs):
            named = _named(job)
            name = named[0]
            offset = max(text.find('"jobname"', offset + 1), 0)
            line = text.count("\n", 0, offset) + 1
            labels = _labels(named)
            if alike[named] > 1:
                labels["index"] = index
            if job["error"]:
                log.problems.append(f"line {line}: job {name}: {_words(job['error'])}")
            log.figures += [
                figure for side in ("read", "write") for figure in _figures(side, job[side], labels, line)
            ]
        log.figures += _together(jobs, line_of(text, '"jobname"'))
    except ValueError as error:
        log.problems.append(str(error))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        log.problems.append(f"incomplete fio report: {error} is missing; was fio stopped?")
    if log.problems:
        log.figures.clear()
    return log.missing(f"line {line_of(text, 'jobs')}: no job read or wrote anything")


def _refuse_old(version: str) -> None:
    """Raise ValueError for a report from before 2.99, the first of 3.0: its latencies are in µs."""
    if re.match(r"[12]\.(?!99)", version):
        raise ValueError(f"written by fio {version}, whose JSON has other keys and units; {_NEWER}")


def _started_at(parsed: Mapping[str, Any]) -> float | None:
    """When the jobs started: a report states when it was written, and how many seconds each job took."""
    written_at = time_of_day(parsed.get("timestamp"))
    took_s = [number(job.get("elapsed")) for job in parsed.get("jobs", ())]
    if written_at is None or not took_s or None in took_s:
        return written_at
    return time_of_day(written_at - max(filter(None, took_s), default=0.0))


def _named(job: Mapping[str, Any]) -> tuple[str, str]:
    """A job's name, and that of its client; "" if this machine ran it, or it is the sum of all clients.

    The sum carries the name of one of its clients.
    """
    name = str(job["jobname"])
    return name, "" if name == _ALL_CLIENTS else str(job.get("hostname", ""))


def _labels(named: tuple[str, str]) -> dict[str, Scalar]:
    name, client = named
    return {"job": name, "client": client} if client else {"job": name}


def _together(jobs: Sequence[Mapping[str, Any]], line: int) -> Iterator[LogFigure]:
    """What jobs of one name and group did together, as fio adds them up with `group_reporting`.

    A name that is in several groups, which ran one after another, has the group as a label.
    """
    groups: dict[tuple[str, str], dict[int, list[Mapping[str, Any]]]] = {}
    for job in jobs:
        groups.setdefault(_named(job), {}).setdefault(job.get("groupid", 0), []).append(job)
    for named, of_name in groups.items():
        for group, own in of_name.items():
            labels = {**_labels(named), **({"group": group} if len(of_name) > 1 else {})}
            for side in ("read", "write"):
                if len(own) > 1:
                    yield from _sums(side, [job[side] for job in own], labels, line)


def _sums(
    side: str, jobs: Sequence[Mapping[str, Any]], labels: dict[str, Scalar], line: int
) -> Iterator[LogFigure]:
    """Bandwidth and rate of jobs that ran at the same time; nothing if one of them states less than that."""
    milliseconds = max(number(job["runtime"]) or 0 for job in jobs)
    for metric, key, unit in (
        (f"{side}_bandwidth", "io_bytes", "B/s"),
        (f"{side}_rate", "total_ios", "operations/s"),
    ):
        amounts = [number(job[key]) for job in jobs]
        if milliseconds > 0 and None not in amounts and any(amounts):
            value = sum(filter(None, amounts)) * 1000 / milliseconds
            yield LogFigure(metric, value, labels, {}, line, unit)
    if milliseconds > 0:
        yield LogFigure("run_time", milliseconds, {**labels, "direction": side}, {}, line, "ms")


def _words(error: object) -> str:
    """An error number of the system as words."""
    return os.strerror(error) if isinstance(error, int) and 0 < error < 200 else f"error {error}"


def _figures(
    side: str, stats: Mapping[str, Any], labels: dict[str, Scalar], line: int
) -> Iterator[LogFigure]:
    """The figures of one direction of a job; none if it did nothing in it."""
    if not (number(stats["total_ios"]) or 0) > 0:
        return
    milliseconds = number(stats["runtime"])
    if milliseconds is None or milliseconds <= 0:  # too short for fio's clock: its rates are 0 or infinite
        return
    for metric, key, amount, unit in (
        (f"{side}_bandwidth", "bw_bytes", "io_bytes", "B/s"),
        (f"{side}_rate", "iops", "total_ios", "operations/s"),
    ):
        value, done = number(stats[key]), number(stats[amount])
        if done is not None:
            basis = f"{amount} and runtime"
            check_agreement(f"line {line}: {side}", key, value, done * 1000 / milliseconds, basis)
        if value is not None and value > 0:
            yield LogFigure(metric, value, labels, {}, line, unit)
    yield LogFigure("run_time", milliseconds, {**labels, "direction": side}, {}, line, "ms")
    latency = stats.get("clat_ns", {})
    if (mean := number(stats.get("lat_ns", {}).get("mean"))) is not None and mean > 0:
        yield LogFigure(f"mean_{side}_latency", mean, labels, {}, line, "ns")
    for percent in _PERCENTILES:
        value = number(latency.get("percentile", {}).get(percent))
        if value is not None and value > 0:
            yield LogFigure(
                f"{side}_latency", value, {**labels, "percentile": float(percent)}, {}, line, "ns"
            )


TOOL: Final = Tool(
    "fio",
    re.compile(rb'"fio version"\s*:'),
    line='"fio version": …, of its --output-format=json',
    words=("fio-3", "iops=", "clat (", "run status group", "iodepth="),
    read=fio,
    metrics=METRICS,
    unread=re.compile(rb"(?m)^ +(?:read|write) *: (?:IOPS=|io=)"),
    instead="run fio with --output-format=json",
)
