"""Samples of a watched process, or of a job's nodes and pods: lines, a live table, and the summary."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from assay.monitor.questions.watch_sentences import describe_logs
from assay.monitor.watching import Watching
from assay.monitor.watching_jobs import WatchedJob
from assay.monitor.watching_logs import WatchedLogs
from assay.questions.question import Snapshot
from assay.telemetry.samples import TelemetryEvent
from assay.units import counted, human, human_seconds
from assay.view.blocks import Block, Table, TableBody, TableRow

MOST_ROWS = 24  # of a live table
UNKNOWN = "unknown"
Sample = Watching | WatchedJob


def snapshots_of_samples(
    samples: Iterator[Sample], logs: WatchedLogs | None, *, live: bool
) -> Iterator[Snapshot]:
    """Each sample, with what the logs have added since; then the summary.

    live  a table that is drawn again; else lines
    """
    last, shown = None, dict[str, int]()
    for last in samples:
        if live:
            yield Snapshot(screen=tuple(_screen(last)))
        else:
            yield Snapshot(lines=tuple(_lines(last, shown)), data=(last.document(),))
        if logs is not None:
            logs.look(time.time())
            yield Snapshot(lines=tuple(describe_logs(logs, only_off=live)), data=(logs.document(),))
    events = tuple(_events(last, {})) if live and last is not None else ()
    yield Snapshot(lines=(*events, *_end(last)), data=(_summary(last),), is_last=True)


def once_per(every_s: float, samples: Iterator[WatchedJob]) -> Iterator[WatchedJob]:
    """Samples once per period, although every node has one in it; and the last."""
    last, due = None, 0.0
    for last in samples:
        if time.monotonic() >= due:
            due = time.monotonic() + every_s
            yield last
    if last is not None:
        yield last


def _places(sample: Sample) -> Mapping[str, Watching]:
    """Its nodes or pods by name; a process has one without."""
    return sample.places if isinstance(sample, WatchedJob) else {"": sample}


def _sampled(sample: Sample) -> list[tuple[str, Watching]]:
    return [(place, watching) for place, watching in _places(sample).items() if None in watching.latest]


def _lines(sample: Sample, shown: dict[str, int]) -> Iterator[str]:
    """A line for each node and GPU, then events that were not shown before."""
    for place, watching in _sampled(sample):
        named = f"{place}  " if place else ""
        yield f"{watching.latest[None].at_s:8.1f} s  {named}{_row(_node_figures(watching))}"
        for gpu, figures in _gpu_figures(watching).items():
            yield f"            {f'{place} ' if place else ''}GPU {gpu}  {_row(figures)}"
        yield from _events_of(place, watching, shown.get(place, 0))
        shown[place] = len(watching.events)


def _events(sample: Sample, shown: Mapping[str, int]) -> Iterator[str]:
    for place, watching in _places(sample).items():
        yield from _events_of(place, watching, shown.get(place, 0))


def _events_of(place: str, watching: Watching, first: int) -> Iterator[str]:
    named = f"{place}: " if place else ""
    for event in watching.events[first:]:
        yield f"{event.at_s:8.1f} s  ! {named}{_describe_event(event)}"


def _describe_event(event: TelemetryEvent) -> str:
    return event.words if event.gpu is None else f"GPU {event.gpu}: {event.words}"


def _row(figures: Mapping[str, str]) -> str:
    """The figures that are known: at the first sample, no speed is."""
    known = {name: figure for name, figure in figures.items() if figure != UNKNOWN}
    return "  ".join(f"{name} {figure:<11}" for name, figure in known.items()).rstrip()


def _screen(sample: Sample) -> Iterator[Block]:
    """A table of nodes, and one of GPUs if there are any."""
    sampled = _sampled(sample)
    if isinstance(sample, WatchedJob):
        title = f"{sample.job}: {len(sampled)} of {len(sample.places)}"
    else:
        title = f"process {sample.pid}"
    yield _table(title, [(place or f"{w.latest[None].at_s:.0f} s", _node_figures(w)) for place, w in sampled])
    gpus = [
        (f"{place} {gpu}".lstrip(), figures)
        for place, watching in sampled
        for gpu, figures in _gpu_figures(watching).items()
    ]
    if gpus:
        yield _table("GPU", gpus)


def _table(title: str, rows: Sequence[tuple[str, Mapping[str, str]]]) -> Table:
    names = tuple(rows[0][1]) if rows else ()
    shown = [TableRow((name, *figures.values())) for name, figures in rows[:MOST_ROWS]]
    if len(rows) > MOST_ROWS:
        shown.append(TableRow((f"and {len(rows) - MOST_ROWS} more", *[""] * len(names))))
    return Table("", (title, *names), (TableBody("", tuple(shown)),))


def _node_figures(watching: Watching) -> dict[str, str]:
    """What the job and its node do, by name."""
    values, speeds = watching.latest[None].values, watching.speeds.get(None, {})
    return {
        "CPU": _figure(speeds, "job_cpu_seconds", "{:.2f} cores"),
        "memory": _quantity(values, "job_memory_bytes", "B"),
        "processes": _figure(values, "job_processes", "{:.0f}"),
        "read": _quantity(speeds, "job_read_bytes", "B/s"),
        "written": _quantity(speeds, "job_written_bytes", "B/s"),
        "node CPU": _figure(speeds, "cpu_busy_seconds", "{:.2f} cores"),
        "received": _quantity(speeds, "network_received_bytes", "B/s"),
        "sent": _quantity(speeds, "network_sent_bytes", "B/s"),
    }


def _gpu_figures(watching: Watching) -> dict[int, dict[str, str]]:
    """What each GPU does, by index and name."""
    return {
        gpu: {
            "use": _figure(sample.values, "utilization_percent", "{:.0f} %"),
            "memory": _quantity(sample.values, "memory_used_bytes", "B"),
            "power": _figure(sample.values, "power_watts", "{:.0f} W"),
            "temperature": _figure(sample.values, "temperature_celsius", "{:.0f} °C"),
            "SM clock": _quantity(sample.values, "sm_clock_hertz", "Hz"),
        }
        for gpu, sample in sorted((gpu, sample) for gpu, sample in watching.latest.items() if gpu is not None)
    }


def _figure(values: Mapping[str, float], name: str, form: str) -> str:
    return form.format(values[name]) if name in values else UNKNOWN


def _quantity(values: Mapping[str, float], name: str, unit: str) -> str:
    return human(values[name], unit) if name in values else UNKNOWN


def _summary(last: Sample | None) -> Mapping[str, object]:
    if isinstance(last, WatchedJob):
        return {"summary": {place: watching.summary() for place, watching in last.places.items()}}
    return {"summary": last.summary() if last else {}}


def _end(last: Sample | None) -> Iterator[str]:
    if last is None or (isinstance(last, Watching) and not last.summary()):
        yield "It ended before the first sample."
        return
    failed = last.failed if isinstance(last, WatchedJob) else {}
    for place, watching in _places(last).items():
        summary, named = watching.summary(), f"{place}: " if place else ""
        if "watched_seconds" not in summary:
            yield f"{named}not sampled: {failed.get(place, 'it ended before the first sample')}"
            continue
        parts = [f"{named}watched for {human_seconds(summary['watched_seconds'])}"]
        if "job_mean_cpu_cores" in summary:
            parts.append(f"{summary['job_mean_cpu_cores']:.2f} cores on average")
        if "job_peak_memory_bytes" in summary:
            parts.append(f"at most {human(summary['job_peak_memory_bytes'], 'B')} of memory")
        yield "; ".join(parts)
    if failed:
        yield f"{counted(len(failed), 'place')} could not be sampled"
