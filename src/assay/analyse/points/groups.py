"""Results grouped into points: what is held constant in a comparison, and each run's one value there."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Final, NamedTuple

from assay.records import Measurement, Metric, Point, Result, Run, Scalar, Shape
from assay.units import convert, factor

SIZE: Final = "payload_bytes"  # the label that a curve of sizes runs over
_Setting = tuple[tuple[str, Scalar], ...]
Metrics = Callable[[Run], Mapping[str, Metric]]
"""What a run's workload declares, by name, the primary metric first; empty if it is unknown."""


class Place(NamedTuple):
    """A point of the sweep, whatever was measured there; `varied` as JSON."""

    benchmark: str
    shape: str
    varied: str


class Key(NamedTuple):
    """Equal for two points whose values are comparable; units may differ by a factor."""

    place: Place
    metric: str
    base_unit: str
    labels: str


class Sample(NamedTuple):
    """One run's value at a point, in the point's unit."""

    result: Result
    value: float


@dataclass(frozen=True)
class Group:
    """The runs at one point.

    samples   one per run that counts, in the order of the results
    left_out  runs at this place that ended without a result: failed, or with a problem in their log
    lacking   runs that count and were made at these labels but did not report this metric
    """

    point: Point
    samples: tuple[Sample, ...]
    left_out: tuple[Result, ...] = ()
    lacking: int = 0

    @cached_property
    def values(self) -> list[float]:
        """One value per run, in the point's unit."""
        return [sample.value for sample in self.samples]

    @cached_property
    def results(self) -> list[Result]:
        """The runs that have a value."""
        return [sample.result for sample in self.samples]

    @property
    def ranks(self) -> int:
        """The number of ranks of each run."""
        return Shape.parse(self.point.shape).ranks

    def in_unit(self, unit: str) -> Group:
        """The same with values in another unit of the same base."""
        if unit == self.point.unit:
            return self
        samples = tuple(Sample(s.result, convert(s.value, self.point.unit, unit)) for s in self.samples)
        point = Point(
            self.point.benchmark,
            self.point.shape,
            self.point.metric,
            unit,
            self.point.better,
            self.point.labels,
        )
        return Group(point, samples, self.left_out, self.lacking)


def cause(result: Result) -> str:
    """Why a run does not count, as text; "" if it counts."""
    return result.run.cause or "; ".join(result.reading.problems)


def place_of(run: Run) -> Place:
    """Where on the sweep a run was."""
    return Place(run.trial.benchmark, str(run.trial.shape), _plain(run.trial.varied))


def without_size(labels: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """A point's labels except its size."""
    return {name: value for name, value in labels.items() if name != SIZE}


@dataclass
class _Gathering:
    """A group while its runs are being collected."""

    point: Point
    by_run: dict[int, tuple[Result, list[float]]] = field(default_factory=dict)

    def add(self, number: int, result: Result, measurement: Measurement) -> None:
        """Add a value of the run at this index of the results."""
        value = measurement.value
        if measurement.unit != self.point.unit:
            value = convert(value, measurement.unit, self.point.unit)
        self.by_run.setdefault(number, (result, []))[1].append(value)


def nodes_used(result: Result) -> int | None:
    """The number of nodes that its ranks ran on; None if unknown for any rank."""
    places = set(result.run.places)
    return len(places) if places and "" not in places else None


def probed(result: Result) -> Sequence[Mapping[str, Scalar]]:
    """The probe's tables of a run, one per node, without nodes where the probe failed."""
    if result.provenance is None:
        return ()
    return [table for table in result.provenance.nodes if len(table) > 1 or "unreadable" not in table]


def mixed(results: Iterable[Result]) -> set[Place]:
    """Places where the runs of one system that count used different numbers of nodes."""
    used: dict[tuple[str, Place], set[int]] = {}
    for result in (r for r in results if r.counts):
        if (nodes := nodes_used(result)) is not None:
            used.setdefault((result.run.trial.system, place_of(result.run)), set()).add(nodes)
    return {place for (_, place), numbers in used.items() if len(numbers) > 1}


def group(
    results: Iterable[Result], metrics: Metrics, among: Iterable[Result] | None = None
) -> dict[Key, Group]:
    """The runs by point: by benchmark, its metrics as declared, then by size and labels.

    Runs on two nodes and runs on one are never one point: if a system has both at a place, `nodes` is one
    of the labels there.

    among  all runs that determine where that is, for a comparison both sides'; None: the results

    A metric that a run printed several times under the same labels counts once, as the geometric mean of
    the printed values (the arithmetic mean if one is not positive): the run is the unit.
    """
    declared: dict[tuple[str, str], Mapping[str, Metric]] = {}
    gatherings: dict[Key, _Gathering] = {}
    reported: dict[Place, Counter[_Setting]] = {}
    left_out: dict[Place, list[Result]] = {}
    texts: dict[str, str] = {}
    results = list(results)
    places_mixed = mixed(results if among is None else among)
    for number, result in enumerate(results):
        place = place_of(result.run)
        if not result.counts:
            if result.run.state.final:
                left_out.setdefault(place, []).append(result)
            continue
        reported.setdefault(place, Counter())[_setting(result)] += 1
        kind = (result.run.trial.benchmark, result.run.trial.digest)
        if kind not in declared:
            declared[kind] = metrics(result.run)
        for measurement in result.reading.measurements:
            labels = {**result.run.trial.varied, **measurement.labels}
            if place in places_mixed and (nodes := nodes_used(result)) is not None:
                labels["nodes"] = nodes
            written = repr(labels)  # many runs have few distinct labels, and JSON takes ten times as long
            text = texts[written] if written in texts else texts.setdefault(written, _plain(labels))
            key = Key(place, measurement.metric, _base_unit(measurement.unit), text)
            if key not in gatherings:
                gatherings[key] = _begun(place, measurement, labels, declared[kind])
            gatherings[key].add(number, result, measurement)
    rank = {
        (benchmark, metric): position
        for (benchmark, _), table in declared.items()
        for position, metric in enumerate(table)
    }
    keys = sorted(gatherings, key=lambda key: _order(gatherings[key].point, rank))
    kinds = {
        place: {tuple(name for name, _ in setting) for setting in counts}
        for place, counts in reported.items()
    }

    def made_there(key: Key) -> int:
        labels, counts = gatherings[key].point.labels, reported[key.place]
        settings = [names for names in kinds[key.place] if labels.keys() >= set(names)]
        return sum(counts[tuple((name, labels[name]) for name in names)] for names in settings)

    return {key: _finished(gatherings[key], made_there(key), left_out.get(key.place, ())) for key in keys}


def _setting(result: Result) -> _Setting:
    """Labels that all measurements of an imported run share.

    They may be parameters of the run, such as a column of a spreadsheet: a run at batch size 8 does not lack
    a measurement at 16. For our own runs, `varied` has the parameters.
    """
    if result.run.source is None:
        return ()
    of_each = (measurement.labels.items() for measurement in result.reading.measurements)
    shared = set(next(of_each, ()))
    for labels in of_each:
        if not shared:
            break
        shared &= labels
    return tuple(sorted(shared))


def _order(point: Point, rank: Mapping[tuple[str, str], int]) -> tuple[object, ...]:
    """The sort key of a point; undeclared metrics come last, by name."""
    shape = Shape.parse(point.shape)
    place = rank.get((point.benchmark, point.metric), len(rank))
    labels = [
        (name, (0, float(value), "") if isinstance(value, int | float) else (1, 0.0, str(value)))
        for name, value in sorted(point.labels.items())
    ]
    return point.benchmark, place, point.metric, shape.ranks, shape, labels


def _begun(
    place: Place, first: Measurement, labels: Mapping[str, Scalar], declared: Mapping[str, Metric]
) -> _Gathering:
    metric = declared.get(first.metric)
    better = None if metric is None else metric.better
    return _Gathering(Point(place.benchmark, place.shape, first.metric, first.unit, better, labels))


@cache
def _base_unit(unit: str) -> str:
    return factor(unit)[1]


def _finished(gathering: _Gathering, reported: int, left_out: Sequence[Result]) -> Group:
    samples = tuple(Sample(result, _one_value(values)) for result, values in gathering.by_run.values())
    return Group(gathering.point, samples, tuple(left_out), reported - len(samples))


def _one_value(values: Sequence[float]) -> float:
    if len(values) == 1:
        return values[0]
    if min(values) > 0:
        return math.exp(math.fsum(map(math.log, values)) / len(values))
    return math.fsum(values) / len(values)


def _plain(labels: Mapping[str, Scalar]) -> str:
    return json.dumps(dict(labels), sort_keys=True, default=str) if labels else "{}"
