"""Files: a disk read by one rank, and what a directory's storage delivers to several clients, with fio.

Every rank has a report of fio for each phase. Bandwidths and rates add up, since all clients ran at the
same time; where each has a fixed amount to read or write, the slowest decides. Of latencies, the slowest
client's counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, model_validator

from assay.errors import InputError
from assay.formats import fio
from assay.formats.figures import LogFigures, few, number
from assay.formats.mllog import EventReader
from assay.formats.reader import Params, Reader
from assay.records import Measurement, Metric, Reading, Shape, Task
from assay.units import factor
from assay.workloads import payload_log
from assay.workloads.payload_log import payload_reader
from assay.workloads.site_reports import reports
from assay.workloads.workload import Workload, example, program_task

Phase = Literal[
    "sequential-write",
    "sequential-read",
    "random-read",
    "random-write",
    "checkpoint-save",
    "checkpoint-load",
    "file-create",
    "file-stat",
    "file-list",
    "file-read",
    "file-delete",
]
_TIMED: Final = {"sequential-read", "random-read", "random-write"}
_NEEDS: Final[dict[str, Phase]] = {
    "sequential-read": "sequential-write",
    "random-read": "sequential-write",
    "random-write": "sequential-write",
    "checkpoint-load": "checkpoint-save",
    "file-stat": "file-create",
    "file-list": "file-create",
    "file-read": "file-create",
    "file-delete": "file-create",
}


class StorageParams(Params):
    """Read and write a storage from every rank at once with fio, which must be installed on the nodes.

    Each rank is a client with files of its own, and all start each phase together: sequential and random
    reads and writes that bypass the page cache, saving and loading a checkpoint, and creating, listing,
    reading and deleting many small files. A file server has a cache that can't be bypassed from here: make
    `size_bytes` several times its memory. All files are removed at the end. How to read the results:
    docs/how-to/storage.md.
    """

    model_config = example(directory="/tmp", size_bytes=2**26, seconds=1, checkpoint_bytes=2**26, files=2000)  # noqa: S108

    directory: str = Field(pattern="^/", description="Directory on the nodes, on the storage to measure.")
    phases: tuple[Phase, ...] = Field(
        (
            *("sequential-write", "sequential-read", "random-read", "random-write"),
            *("checkpoint-save", "checkpoint-load"),
            *("file-create", "file-stat", "file-list", "file-read", "file-delete"),
        ),
        min_length=1,
        description="What to measure, in the order of this list's default.",
    )
    size_bytes: int = Field(2**30, ge=2**20, description="Size of each rank's files, in bytes.")
    block_bytes: int = Field(
        2**20, ge=4096, multiple_of=4096, description="Size of a sequential read or write."
    )
    random_block_bytes: int = Field(
        2**17,
        ge=4096,
        multiple_of=4096,
        description="Size of a random read or write: what a training reads at once.",
    )
    jobs: int = Field(
        4, ge=1, le=256, description="Processes of fio in each rank, like workers of a data loader."
    )
    depth: int = Field(16, ge=1, le=1024, description="Requests in flight of each of them.")
    seconds: int = Field(10, ge=1, description="Seconds to time each kind of read and write.")
    ramp_seconds: int = Field(1, ge=0, le=600, description="Seconds before that, which don't count.")
    direct: bool = Field(True, description="Bypass the page cache with O_DIRECT.")
    checkpoint_bytes: int = Field(
        2**30, ge=4096, multiple_of=4096, description="Size of each rank's part of a checkpoint."
    )
    files: int = Field(2000, ge=1, le=1_000_000, description="Small files of each of fio's processes.")
    file_bytes: int = Field(2**17, ge=1, le=2**30, description="Size of a small file.")
    program: str = Field(
        "fio", min_length=1, description="The program's path on the nodes, or its name on the PATH."
    )

    @model_validator(mode="after")
    def _has_the_files_that_it_reads(self) -> StorageParams:
        missing = {_NEEDS[phase] for phase in self.phases if phase in _NEEDS} - {*self.phases}
        if missing:
            raise ValueError(
                f"add {', '.join(sorted(missing))} to phases: it makes the files that others use"
            )
        if "sequential-write" in self.phases and self.size_bytes < self.jobs * self.block_bytes:
            raise ValueError(
                f"size_bytes {self.size_bytes} is less than a block of {self.block_bytes} for each of the "
                f"{self.jobs} jobs"
            )
        return self


def _storage_task(params: StorageParams, _shape: Shape, seed: int) -> Task:
    return program_task("assay_payloads.micro.storage", params, seed=seed)


METRICS: Final = (
    Metric("read_bandwidth", "B/s", "higher", "bytes per second read by all clients", scales=False),
    Metric("write_bandwidth", "B/s", "higher", "bytes per second written by all clients", scales=False),
    Metric("read_rate", "operations/s", "higher", "random reads per second of all clients", scales=False),
    Metric("write_rate", "operations/s", "higher", "random writes per second of all clients", scales=False),
    Metric("read_latency", "s", "lower", "time of one read at a percentile, slowest client", scales=False),
    Metric("write_latency", "s", "lower", "time of one write at a percentile, slowest client", scales=False),
    Metric("file_rate", "files/s", "higher", "small files per second, by operation", scales=False),
    Metric("checkpoint_time", "s", "lower", "time until every rank saved or loaded its part", scales=False),
    Metric(
        "checkpoint_bandwidth",
        "B/s",
        "higher",
        "bytes of a checkpoint over the slowest rank's time",
        scales=False,
    ),
)
_UNITS: Final = {metric.name: metric.unit for metric in METRICS}
_SHORTEST_S: Final = 0.02  # fio's clock has milliseconds: a rate over less is wrong by more than 5 %
_SIDES: Final = {"read": "read", "write": "write", "save": "write", "load": "read"}


@dataclass
class _Phase:
    """One phase: each client's figures, and where the first of them stands."""

    clients: dict[int, LogFigures] = field(default_factory=dict)
    file: str = ""
    line: int = 0

    def of(self, metric: str, **labels: object) -> list[float]:
        """The figure of each client that has it, in base units."""
        return [
            figure.value * factor(figure.unit)[0]
            for log in self.clients.values()
            for figure in log.figures
            if figure.metric == metric and labels.items() <= figure.labels.items()
        ]

    def measured(self, metric: str, value: float, **labels: str | float) -> Measurement:
        return Measurement(metric, value, _UNITS[metric], labels, self.file, self.line)


def _read(logs: Mapping[str, Path]) -> Reading:
    stated = payload_log.read(logs, ())
    try:
        phases, problems = _phases(logs)
        listed = _listings(logs)
    except InputError as error:
        return replace(stated, problems=(*stated.problems, str(error)))
    size = stated.facts.get("world_size")
    for name, phase in phases.items():
        if isinstance(size, int) and len(phase.clients) != size:
            problems.append(f"{name}: {len(phase.clients)} of {size} clients have a report")
    measured = [measurement for name, phase in phases.items() for measurement in _of_phase(name, phase)]
    measured += _of_listing(listed)
    if not measured and not problems and not stated.problems:
        problems.append("no phase has a figure")
    facts = next((log.facts for phase in phases.values() for log in phase.clients.values()), {})
    version = {key: value for key, value in facts.items() if key == "fio_version"}
    failed = (*stated.problems, *few(problems))
    return replace(
        stated,
        measurements=() if failed else tuple(measured),
        facts={**version, **stated.facts},
        problems=failed,
    )


def _phases(logs: Mapping[str, Path]) -> tuple[dict[str, _Phase], list[str]]:
    phases: dict[str, _Phase] = defaultdict(_Phase)
    problems: list[str] = []
    for name, path in logs.items():
        for report in reports(path):
            phase_name, client = str(report.labels.get("phase")), report.labels.get("client")
            log = fio.report(report.text)
            problems += [f"{name}: {phase_name}: {why}" for why in log.problems]
            short = _too_short(log)
            if phase_name.startswith("file-") and short:
                problems.append(f"{name}: {phase_name} took {short}, too short for fio's clock; raise files")
            elif isinstance(client, int) and log.figures:
                phase = phases[phase_name]
                phase.clients[client] = log
                if not phase.file or client == 0:
                    phase.file, phase.line = name, log.figures[0].line
    return dict(phases), problems


def _too_short(log: LogFigures) -> str:
    """How long a job took, if that is too short to be timed; fio reports nothing of one below 1 ms."""
    took = [figure.value for figure in log.figures if figure.metric == "run_time"]
    if log.problems and not took:
        return "less than 1 ms" if "read or wrote anything" in log.problems[0] else ""
    return f"{took[0]:g} ms" if took and took[0] < 1000 * _SHORTEST_S else ""


def _of_phase(name: str, phase: _Phase) -> Iterator[Measurement]:
    kind, _, operation = name.partition("-")
    side = _SIDES.get(operation, "write" if operation == "create" else "read")
    if kind == "checkpoint":
        seconds = phase.of("run_time", direction=side)
        moved = [rate * took for rate, took in zip(phase.of(f"{side}_bandwidth"), seconds, strict=False)]
        if seconds:
            yield phase.measured("checkpoint_time", max(seconds), operation=operation)
            yield phase.measured("checkpoint_bandwidth", sum(moved) / max(seconds), operation=operation)
    elif kind == "file":
        if rates := phase.of(f"{side}_rate"):
            yield phase.measured("file_rate", sum(rates), operation=operation)
    else:
        yield from _of_data(name, phase, side)


def _of_data(name: str, phase: _Phase, side: str) -> Iterator[Measurement]:
    rates = phase.of(f"{side}_bandwidth")
    seconds = phase.of("run_time", direction=side)
    if not rates or len(rates) != len(seconds):
        return
    if name == "sequential-write":  # each client writes all of its files, however long that takes
        whole = sum(rate * took for rate, took in zip(rates, seconds, strict=True)) / max(seconds)
        yield phase.measured("write_bandwidth", whole, phase=name)
        return
    yield phase.measured(f"{side}_bandwidth", sum(rates), phase=name)
    if name.startswith("random"):
        yield phase.measured(f"{side}_rate", sum(phase.of(f"{side}_rate")), phase=name)
        for percent in (50.0, 99.0, 99.9):
            if latencies := phase.of(f"{side}_latency", percentile=percent):
                yield phase.measured(f"{side}_latency", max(latencies), phase=name, percentile=percent)


@dataclass(frozen=True)
class _Listing:
    """How long one client took to list its directory."""

    seconds: float
    entries: int
    file: str
    line: int


def _listings(logs: Mapping[str, Path]) -> list[_Listing]:
    listings = []
    for name, path in logs.items():
        for event in EventReader(path):
            if event.key != "listing":
                continue
            seconds, entries = number(event.value), event.metadata.get("entries")
            if seconds is not None and seconds > 0 and isinstance(entries, int):
                listings.append(_Listing(seconds, entries, name, event.line))
    return listings


def _of_listing(listed: Sequence[_Listing]) -> Iterator[Measurement]:
    if listed:
        rate = sum(listing.entries / listing.seconds for listing in listed)
        first = listed[0]
        yield Measurement(
            "file_rate", rate, _UNITS["file_rate"], {"operation": "list"}, first.file, first.line
        )


STORAGE = Workload(
    reader=Reader(
        "storage",
        StorageParams,
        metrics=lambda _params: METRICS,
        read=lambda logs, _params: _read(logs),
    ),
    about="several clients of one storage with fio: reads, writes, checkpoints, small files",
    task=_storage_task,
    timed_s=lambda params: len(_TIMED & {*params.phases}) * (params.seconds + params.ramp_seconds),
)


_ALIGNED = 4096  # bytes; reads that bypass the page cache are multiples of this

_DISK_METRICS = (
    Metric("read_bandwidth", "B/s", "higher", "bytes per second, read sequentially", scales=False),
    Metric(
        "random_read_latency",
        "s",
        "lower",
        "time of one random read, one at a time, at a percentile",
        scales=False,
    ),
)


class DiskParams(Params):
    """Read a file on the node sequentially, then at random: a new test file, or an existing file.

    Reads use O_DIRECT. If the file system doesn't support it, Assay asks the page cache to drop the file, and
    the trial fails if the file stays there. The fact `page_cache` reports which method was used. The caches
    of drives, file servers, and hypervisors can't be bypassed from here; use a file larger than they are. The
    test file takes at most half of the free space and is removed however the trial ends.
    `{directory: /scratch, size_bytes: 8589934592}`.
    """

    model_config = example(directory="/tmp", size_bytes=2**26, min_time_s=0.2)  # noqa: S108

    directory: str | None = Field(
        None,
        pattern="^/",
        description="Directory on the node for the test file; its disk is what is measured.",
    )
    file: str | None = Field(None, pattern="^/", description="Existing file on the node to read instead.")
    size_bytes: int = Field(2**30, ge=2**20, multiple_of=_ALIGNED, description="Size of the test file.")
    block_bytes: int = Field(
        2**20, ge=_ALIGNED, multiple_of=_ALIGNED, description="Size of a sequential read."
    )
    random_block_bytes: int = Field(
        _ALIGNED, ge=_ALIGNED, multiple_of=_ALIGNED, description="Size of a random read."
    )
    readers: int = Field(4, ge=1, le=256, description="Concurrent sequential reads.")
    min_time_s: float = Field(1.0, gt=0, description="Seconds to time each kind of read.")

    @model_validator(mode="after")
    def _one_place(self) -> DiskParams:
        if (self.directory is None) == (self.file is None):
            raise ValueError(
                "give either directory, to write a test file in, or file, to read an existing file"
            )
        return self


def _disk_task(params: DiskParams, shape: Shape, seed: int) -> Task:
    if shape.ranks != 1:
        raise InputError("a disk is read by one rank; use shape 1x1")
    without = ("size_bytes",) if params.directory is None else ()
    return program_task("assay_payloads.micro.disk", params, seed=seed, without=without)


DISK = Workload(
    reader=payload_reader("disk", DiskParams, _DISK_METRICS),
    about="read a file sequentially and at random, bypassing the page cache",
    task=_disk_task,
    timed_s=lambda params: 2 * params.min_time_s,
)
