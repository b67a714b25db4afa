"""What fio writes as JSON (`--output-format=json` or `json+`): one document, perhaps after warnings.

Each job has a section per direction. Jobs of one name and group run at the same time: what they did together
is theirs under the name alone, as with `group_reporting`. With `--client`, jobs have the client's name, and
fio's own sum the name "All clients". A job with an `error` has no result, and neither has the report: a file
system that filled up while one of four jobs wrote was not measured by the other three.

A report lists only the options that its user set, as the user wrote them, so the settings that decide what a
job does are completed by fio's defaults: `direct=0` and no `direct` are one
setting, and so are `bs=1m` and `bs=1024k`.

Source: axboe/fio, stat.c (show_thread_status_json, add_ddir_status_json), 3.1 to 3.42; its HOWTO, 3.42,
"Parameter types" and the defaults of each option, on Linux.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from assay.formats.figures import (
    LogFigure,
    LogFigures,
    above_zero,
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

_DEFAULTS: Final = {
    "rw": "read", "bs": "4k", "bssplit": "none", "bsrange": "none", "ioengine": "psync", "iodepth": "1",
    "numjobs": "1", "thread": "0", "direct": "0", "sync": "none", "fsync": "0", "fdatasync": "0",
    "end_fsync": "0",
    "fsync_on_close": "0", "invalidate": "1", "loops": "1", "nrfiles": "1", "rwmixread": "50",
    "rate": "0", "rate_min": "0", "rate_iops": "0", "thinktime": "0", "ramp_time": "0", "zonemode": "none",
    "verify": "0", "gtod_reduce": "0", "percentage_random": "100", "random_distribution": "random",
    "norandommap": "0", "zero_buffers": "0", "buffer_compress_percentage": "0", "dedupe_percentage": "0",
    "iodepth_batch": "1", "hipri": "0", "sqthread_poll": "0", "fixedbufs": "0", "pre_read": "0",
}  # fmt: skip
_SIZES: Final = ("bs", "bssplit", "bsrange", "size", "filesize", "io_size", "rate", "rate_min")
_FLAGS: Final = {"": "1", "true": "1", "false": "0"}  # an option without a value is set
_ALIKE: Final = {
    ("rw", "readwrite"): "rw",
    ("sync", "0"): "none",
    ("sync", "1"): "sync",
    ("verify", "none"): "0",
}
_SIZE: Final = re.compile(r"(\d{1,18})([kmgtp]?)(i?)(b?)")
_POWERS: Final = " kmgtp"
SETTINGS: Final = (*_DEFAULTS, "size", "filesize", "io_size")


def settings(jobs: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """What each setting is in these jobs, the options of each as printed; several values if they differ.

    A size that fio takes from the file itself is absent. Empty if a job states no options, as clients do.
    """
    if not all(jobs):
        return {}
    stated = [_effective({name: str(value).strip().lower() for name, value in job.items()}) for job in jobs]
    values = {name: sorted({job[name] for job in stated if name in job}) for name in SETTINGS}
    return {name: "/".join(of_jobs) for name, of_jobs in values.items() if of_jobs}


def _effective(options: Mapping[str, str]) -> dict[str, str]:
    """The settings of a job."""
    thousand = options.get("kb_base") == "1000"
    own = {name: _FLAGS.get(options[name], options[name]) for name in SETTINGS if name in options}
    own = {name: _ALIKE.get((name, value), value) for name, value in own.items()}
    if "buffered" in options and "direct" not in own:
        own["direct"] = "1" if options["buffered"] == "0" else "0"
    if "size" in own:
        own = {"filesize": own["size"], "io_size": own["size"], **own}
    own = {**_DEFAULTS, **own}
    return {name: _bytes(value, thousand) if name in _SIZES else value for name, value in own.items()}


def _bytes(text: str, thousand: bool) -> str:
    """A size in bytes, or several with what separates them.

    thousand  k is 1000 and ki is 1024, and not the reverse

    >>> _bytes("1m", False), _bytes("1024k", False), _bytes("4k,8kb", False), _bytes("50%", False)
    ('1048576', '1048576', '4096,8192', '50%')
    """

    def bytes_of(size: re.Match[str]) -> str:
        base = 1000 if thousand is not bool(size[3]) else 1024
        return str(int(size[1]) * base ** (_POWERS.find(size[2] or " ")))

    return _SIZE.sub(bytes_of, text)


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
    with reported(log, "incomplete fio report: {} is missing; was fio stopped?"):
        parsed = document(braced(text))
        log.facts["fio_version"] = str(parsed["fio version"]).removeprefix("fio-")
        _refuse_old(str(log.facts["fio_version"]))
        log.started_at = _started_at(parsed)
        jobs = parsed["client_stats"] if "client_stats" in parsed else parsed["jobs"]
        of_all = parsed.get("global options", {})
        options = [{**of_all, **job.get("job options", {})} for job in jobs if job["jobname"] != _ALL_CLIENTS]
        log.facts |= {f"fio_{name}": value for name, value in settings(options).items()}
        alike = Counter(_named(job) for job in jobs)
        offset = max(text.find("{"), 0)
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
    percentiles = stats.get("clat_ns", {}).get("percentile", {})
    mean = (f"mean_{side}_latency", stats.get("lat_ns", {}).get("mean"), "ns")
    yield from above_zero((mean,), labels, line)
    for percent in _PERCENTILES:
        latency = (f"{side}_latency", percentiles.get(percent), "ns")
        yield from above_zero((latency,), {**labels, "percentile": float(percent)}, line)


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
