"""What Assay's programs print, as a reading.

docs/architecture.md, "What a payload prints", describes the format.

Figures come from rank 0, which prints them for the whole job. The lines of all ranks are checked: each rank
must begin, end, have lost no line in between, and state the same facts.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel

from assay.errors import InputError
from assay.formats.figures import few
from assay.formats.mllog import Event, EventReader
from assay.formats.reader import Reader
from assay.records import NODE_STREAMS, ConfusionMatrix, Measurement, Metric, Reading, Scalar, Series
from assay.units import convert

Axis = Literal["step", "epoch", "samples", "seconds"]
SERIES_KEY = "tracked_stats"
CONFUSION_KEY = "confusion_matrix"
MOST_COUNTED = 2**63  # in one cell of a table
_AXES: tuple[Axis, ...] = get_args(Axis)
_PLACES = {*_AXES, "epoch_num", "samples_count", "first_epoch_num"}  # a line with one of these is not a fact


def read(logs: Mapping[str, Path], metrics: Sequence[Metric]) -> Reading:
    """Measurements of `metrics`, series, and facts; errors go into its problems.

    logs     log files by name; those of nodes are skipped
    metrics  each must be measured at least once, with a unit of the same quantity
    """
    job = _Job({metric.name: metric for metric in metrics})
    for name, path in logs.items():
        if not name.startswith(NODE_STREAMS):
            job.read_file(name, path)
    return job.reading()


def payload_reader(name: str, params: type[BaseModel], metrics: Sequence[Metric]) -> Reader:
    """Reader of a workload that always measures the same metrics, all printed by Assay's own program."""
    return Reader(
        name,
        params,
        metrics=lambda _params: tuple(metrics),
        read=lambda logs, _params: read(logs, metrics),
    )


def finite(value: Any) -> float | None:
    """`value` as a float if it is a finite number; None for booleans, text, NaN, and infinity."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


@dataclass
class _Line:
    file: str
    event: Event

    def __str__(self) -> str:
        return f"{self.file}:{self.event.line}"


@dataclass
class _Rank:
    """What one rank printed."""

    last_seq: int = -1
    ended: bool = False
    facts: dict[str, Scalar] = field(default_factory=dict)


class _Job:
    """All ranks of a job, line by line."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        self._metrics = metrics
        self._ranks: dict[int, _Rank] = defaultdict(_Rank)
        self._measured: dict[tuple[str, str], Measurement] = {}
        self._points: dict[tuple[str, Axis], list[tuple[float, float]]] = defaultdict(list)
        self._units: dict[str, str] = {}  # units of points that are not metrics
        self._confusion: ConfusionMatrix | None = None
        self._problems: list[str] = []
        self._skipped = 0

    def read_file(self, name: str, path: Path) -> None:
        """Read one log."""
        reader = EventReader(path)
        try:
            for event in reader:
                self._take(_Line(name, event))
        except InputError as error:
            self._problems.append(str(error))
        if reader.problem:
            self._problems.append(f"{name}: {reader.problem}")
        self._skipped += reader.skipped

    def reading(self) -> Reading:
        """What the logs say, after all of them are read."""
        lost = (
            []
            if self._ranks
            else ["no log has a line of the program: it printed nothing, or printed elsewhere"]
        )
        return Reading(
            measurements=tuple(self._measured.values()),
            series=tuple(self._series()),
            facts=dict(self._ranks[0].facts) if 0 in self._ranks else {},
            problems=(
                *few(self._problems),
                *(lost or [*self._incomplete(), *self._disagreements(), *self._missing()]),
            ),
            skipped_lines=self._skipped,
            confusion=self._confusion,
        )

    def _take(self, line: _Line) -> None:
        number, seq = line.event.metadata.get("rank"), line.event.metadata.get("seq")
        if type(number) is not int or type(seq) is not int:
            self._skipped += 1
            return
        rank = self._ranks[number]
        if seq != rank.last_seq + 1:
            before = f"seq {seq} follows {rank.last_seq}" if rank.last_seq >= 0 else f"seq {seq} is the first"
            self._problems.append(f"{line}: the log lost lines of rank {number}: {before}")
        rank.last_seq = seq
        if line.event.kind == "end" and line.event.key == "payload":
            rank.ended = True
        elif line.event.kind == "point":
            self._take_point(rank, number == 0, line)

    def _take_point(self, rank: _Rank, first: bool, line: _Line) -> None:
        event = line.event
        if "unit" in event.metadata:
            if first:
                self._measure(line)
        elif event.key == SERIES_KEY:
            if first:
                self._track(line)
        elif event.key == CONFUSION_KEY:
            if first:
                self._confuse(line)
        elif not _PLACES & event.metadata.keys() and isinstance(event.value, Scalar):
            known = rank.facts.setdefault(event.key, event.value)
            if known != event.value:
                self._problems.append(f"{line}: {event.key} is {event.value!r}, but was {known!r} before")

    def _measure(self, line: _Line) -> None:
        key, metadata = line.event.key, line.event.metadata
        metric, value, labels = self._metrics.get(key), finite(line.event.value), metadata.get("labels") or {}
        if metric is None or not _are_labels(labels):
            self._skipped += 1
            return
        if value is None:
            self._problems.append(f"{line}: {key} is {line.event.value!r}, not a finite number")
            return
        try:
            value = convert(value, str(metadata["unit"]), metric.unit)
        except ValueError:
            self._problems.append(f"{line}: {key} is in {metadata['unit']!r}, expected {metric.unit!r}")
            return
        place = (key, repr(sorted(labels.items())))
        if place in self._measured:
            other = self._measured[place]
            self._problems.append(
                f"{line}: {key} {labels or ''} was already measured at {other.file}:{other.line}"
            )
            return
        self._measured[place] = Measurement(key, value, metric.unit, labels, line.file, line.event.line)

    def _track(self, line: _Line) -> None:
        event = line.event
        axis = next((axis for axis in _AXES if axis in event.metadata), None)
        if axis is None or not isinstance(event.value, dict):
            self._skipped += 1
            return
        x, units = finite(event.metadata[axis]), event.metadata.get("units")
        if isinstance(units, dict):
            self._units |= {name: unit for name, unit in units.items() if isinstance(unit, str)}
        for name, raw in event.value.items():
            y = finite(raw)
            if x is None or y is None:
                where = event.metadata[axis]
                self._problems.append(f"{line}: {name} at {axis} {where!r} is {raw!r}, not a finite number")
            else:
                self._points[name, axis].append((x, y))

    def _confuse(self, line: _Line) -> None:
        """A later evaluation's matrix replaces an earlier one's."""
        matrix = _confusion(line.event.metadata.get("classes"), line.event.value)
        if matrix is None:
            self._problems.append(f"{line}: {CONFUSION_KEY} is not a square of counts with one class per row")
        self._confusion = matrix

    def _series(self) -> Iterable[Series]:
        for (name, axis), points in self._points.items():
            unit = self._metrics[name].unit if name in self._metrics else self._units.get(name, "")
            yield Series(name, unit, axis, tuple(x for x, _ in points), tuple(y for _, y in points))

    def _incomplete(self) -> Iterable[str]:
        size = self._ranks[0].facts.get("world_size") if 0 in self._ranks else None
        expected = range(size) if isinstance(size, int) else range(1)
        for number in sorted({*expected, *self._ranks}):
            if number not in self._ranks:
                yield f"no log has a line of rank {number} of {size} ranks"
            elif not self._ranks[number].ended:
                yield f"the log of rank {number} ends before the program's end"

    def _disagreements(self) -> Iterable[str]:
        if 0 not in self._ranks:
            return
        stated = self._ranks[0].facts
        for number, rank in sorted(self._ranks.items()):
            for key in sorted(rank.facts.keys() & stated.keys()):
                if rank.facts[key] != stated[key]:
                    yield f"{key} is {stated[key]!r} on rank 0, but {rank.facts[key]!r} on rank {number}"

    def _missing(self) -> Iterable[str]:
        measured = {name for name, _ in self._measured}
        for name in self._metrics:
            if name not in measured:
                yield f"the log has no figure for {name}"


def _are_labels(labels: Any) -> bool:
    return isinstance(labels, dict) and all(isinstance(value, Scalar) for value in labels.values())


def _confusion(classes: Any, counts: Any) -> ConfusionMatrix | None:
    """None unless it is a square of counts with a distinct class for each row."""
    if not (isinstance(classes, list) and isinstance(counts, list)):
        return None
    named = all(isinstance(name, str) for name in classes) and len({*classes}) == len(classes)
    square = [len(row) for row in counts if isinstance(row, list)] == [len(classes)] * len(counts)
    if not (named and square and len(counts) == len(classes)):
        return None
    if not all(type(count) is int and 0 <= count < MOST_COUNTED for row in counts for count in row):
        return None
    return ConfusionMatrix(tuple(classes), tuple(map(tuple, counts)))
