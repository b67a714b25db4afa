"""The sampler next to a process of this machine, and what its samples amount to."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from assay import payload_files
from assay.errors import InputError
from assay.telemetry.samples import Telemetry, TelemetryEvent, TelemetryHeader, TelemetrySample, rates

SAMPLER: Final = "assay_payloads.sampling.sampler"
SHORTEST_S, LONGEST_S = 0.1, 3600.0  # between samples
_END_S = 2.0  # for a sampler to end once it was asked to


@dataclass
class Watching:
    """What has been sampled so far.

    pid      of the process
    latest   the newest sample of the node (None) and of each GPU, by index
    speeds   counters of the same as change per second, by name without `_total`
    events   Xids and notes
    """

    pid: int
    telemetry: Telemetry = field(default_factory=Telemetry)
    latest: dict[int | None, TelemetrySample] = field(default_factory=dict)
    speeds: dict[int | None, dict[str, float]] = field(default_factory=dict)
    events: list[TelemetryEvent] = field(default_factory=list)
    _first: dict[int | None, TelemetrySample] = field(default_factory=dict)
    _peak_memory_bytes: float = 0.0
    _busy_percent: dict[int, list[float]] = field(default_factory=dict)

    @property
    def header(self) -> TelemetryHeader | None:
        """The names of what is sampled; None before the first line."""
        return self.telemetry.header

    def take(self, entry: TelemetrySample | TelemetryEvent) -> None:
        """Add a sample or an event of the sampler."""
        if isinstance(entry, TelemetryEvent):
            self.events.append(entry)
            return
        before = self.latest.get(entry.gpu)
        if before is not None:
            self.speeds[entry.gpu] = rates(before, entry)
        self._first.setdefault(entry.gpu, entry)
        self.latest[entry.gpu] = entry
        self._peak_memory_bytes = max(self._peak_memory_bytes, entry.values.get("job_memory_bytes", 0.0))
        use = entry.values.get("utilization_percent")
        if entry.gpu is not None and use is not None:
            total, count = self._busy_percent.get(entry.gpu, [0.0, 0.0])
            self._busy_percent[entry.gpu] = [total + use, count + 1]

    def mean_speeds(self, gpu: int | None) -> dict[str, float]:
        """Counters of a GPU, or of the node (None), as change per second over the whole time."""
        first, last = self._first.get(gpu), self.latest.get(gpu)
        return {} if first is None or last is None or first is last else rates(first, last)

    def summary(self) -> dict[str, float]:
        """What is known of the whole time: mean cores, peak memory, and per GPU use and energy."""
        summary: dict[str, float] = {}
        node, first = self.latest.get(None), self._first.get(None)
        if node is None or first is None:
            return summary
        summary["watched_seconds"] = node.at_s - first.at_s
        mean = rates(first, node)
        if "job_cpu_seconds" in mean:
            summary["job_mean_cpu_cores"] = mean["job_cpu_seconds"]
        if self._peak_memory_bytes:
            summary["job_peak_memory_bytes"] = self._peak_memory_bytes
        for gpu, (total, count) in sorted(self._busy_percent.items()):
            summary[f"gpu_{gpu}_mean_utilization_percent"] = total / count
        for gpu in sorted(index for index in self.latest if index is not None):
            passed_s = self.latest[gpu].at_s - self._first[gpu].at_s
            power = rates(self._first[gpu], self.latest[gpu]).get("energy_joules")
            if power is not None:
                summary[f"gpu_{gpu}_energy_joules"] = power * passed_s
        return summary

    def document(self) -> dict[str, Any]:
        """The newest samples."""
        header, node = self.header, self.latest[None]
        return {
            "started_at": header.started_at if header else None,
            "at_s": node.at_s,
            "node": {**node.values},
            "per_second": self.speeds.get(None, {}),
            "gpus": {gpu: {**sample.values} for gpu, sample in self.latest.items() if gpu is not None},
            "events": [{"at_s": e.at_s, "gpu": e.gpu, "xid": e.xid, "words": e.words} for e in self.events],
        }


def watch(pid: int, period_s: float, for_s: float | None = None) -> Iterator[Watching]:
    """Sample a process and everything below it until it ends, or for a time; nothing of it is changed.

    The time counts from the first sample: on a busy machine, the sampler's start takes long.

    It yields the same object after each sample of the node. Raises InputError if there is no such process.
    """
    if not SHORTEST_S <= period_s <= LONGEST_S:
        raise InputError(f"every {period_s:g} s: choose between {SHORTEST_S:g} s and {LONGEST_S:g} s")
    if not Path("/proc", str(pid)).is_dir():
        raise InputError(f"there is no process {pid} on this machine; `ps -ef` lists the processes")
    watching = Watching(pid)
    end = None
    with _sampler(pid, period_s) as lines:
        for entry in watching.telemetry.read(lines):
            if end is None and for_s is not None:
                end = time.monotonic() + for_s
            watching.take(entry)
            if isinstance(entry, TelemetrySample) and entry.gpu is None:
                yield watching
            if end is not None and time.monotonic() >= end:
                return


@contextmanager
def _sampler(pid: int, period_s: float) -> Iterator[Iterator[str]]:
    """The lines of a sampler, which ends with this context."""
    program = payload_files.DIRECTORY / payload_files.path_of(SAMPLER)
    argv = [sys.executable, "-I", "-S", str(program), str(pid), str(period_s)]
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True) as sampler:
        assert sampler.stdout is not None
        try:
            yield iter(sampler.stdout)
        finally:
            sampler.terminate()
            try:
                sampler.wait(_END_S)
            except subprocess.TimeoutExpired:
                sampler.kill()
