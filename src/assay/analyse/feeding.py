"""How many accelerators a storage feeds, and what its checkpoints cost a day.

The supply is what was read without training: samples per second of a training's own loader (`data-only`),
or bytes per second of the workload `storage`. The demand is a training's samples per second and accelerator.
Their ratio is the number of accelerators at which the storage becomes the limit. What neighbors may have
taken from either side widens its interval, and too much of it ends it, as in a comparison.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.analyse.comparison.verdict import MOST_LOST, allowing_for, lost_as_text, lost_by_sides, too_much
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import Group, Metrics, group
from assay.analyse.points.ratio import Ratio, one_side, ratio, scaled, why_no_ratio
from assay.records import DEFAULT_MARGIN, Doubt, Estimate, Result
from assay.units import percent

DAY_S = 86400.0
_READS = ("random-read", "sequential-read")
# what one training may have otherwise when it only reads, or only computes
_MAY_DIFFER = frozenset(
    (
        *("mode", "data", "manifest", "choose", "source", "frames", "held_out"),
        *("workers", "prefetch", "clear_caches"),
        *("steps", "warmup", "window", "max_epochs", "max_steps", "target", "eval_every", "first_eval"),
        *("division", "profile", "checkpoint", "checkpoint_every"),
    )
)


@dataclass(frozen=True)
class Feeding:
    """How many of a training's accelerators one supply feeds.

    supply, demand  their systems, benchmarks, shapes and means: samples/s, or B/s of `storage`; the demand
                    of one accelerator in the same unit
    pattern         how `storage` read: `random-read`; "" for a loader
    sample_bytes    bytes of a sample that the demand rests on; None for a loader
    accelerators    number at which the supply is used up; its bounds allow for what others may have taken,
                    and are None if the runs allow none
    why             why there is no interval; "" if there is one
    doubts          about the runs of both sides, the gravest first
    """

    supply: FeedingSide
    demand: FeedingSide
    pattern: str
    sample_bytes: float | None
    accelerators: Estimate
    why: str
    doubts: tuple[Doubt, ...] = ()

    @property
    def at_least(self) -> int | None:
        """Whole accelerators that it feeds with the interval's confidence; None without an interval."""
        return None if self.accelerators.low is None else math.floor(self.accelerators.low)


@dataclass(frozen=True)
class FeedingSide:
    """One side: where and in which sessions (`suite/session`) it was measured, and its mean."""

    system: str
    benchmark: str
    shape: str
    sessions: tuple[str, ...]
    rate: Estimate


@dataclass(frozen=True)
class CheckpointCost:
    """What saving checkpoints of one size costs a day.

    bytes_      of one checkpoint, all ranks
    save_s      time of one
    every_s     work between two
    day_s       seconds of a day that are spent saving
    """

    system: str
    benchmark: str
    shape: str
    bytes_: int
    save_s: Estimate
    every_s: float
    day_s: Estimate


@dataclass(frozen=True)
class _Measured:
    """The runs of one system at one point."""

    system: str
    group: Group

    @property
    def first(self) -> Result:
        return self.group.samples[0].result

    @property
    def ranks(self) -> int:
        return self.first.run.trial.shape.ranks

    @property
    def name(self) -> str:
        """As doubts name it."""
        return f"{self.system} {self.group.point.benchmark} {self.group.point.shape}"

    def side(self, rate: Estimate) -> FeedingSide:
        point = self.group.point
        sessions = tuple(Side(self.name, self.group).sessions)
        return FeedingSide(self.system, point.benchmark, point.shape, sessions, rate)


def feedings(
    results: Sequence[Result], metrics: Metrics, sample_bytes: Mapping[str, float]
) -> list[tuple[Feeding, Case]]:
    """Every supply with every demand that it can be compared with, and what that rests on.

    A loader's supply is compared with the same training, the storage's with every training whose bytes per
    sample are known.

    sample_bytes  of a workload's samples; what loaders read is added by `read_sample_bytes`
    """
    sizes = {**read_sample_bytes(results), **sample_bytes}
    points = list(_points(results, metrics))
    demands = _demands(points)
    storages = [
        point
        for point in points
        if point.first.run.trial.workload == "storage"
        and _is(point, "read_bandwidth")
        and point.group.point.labels.get("phase") in _READS
    ]
    comparisons = [
        _feeding(supply, demand, None)
        for supply, demand in _loaders_with(points, demands)
        if not _other_training(supply, demand)
    ]
    comparisons += [
        _feeding(supply, demand, sizes[demand.first.run.trial.workload])
        for supply in storages
        for demand in demands
        if demand.first.run.trial.workload in sizes
    ]
    return [feeding for feeding in comparisons if feeding is not None]


def different_trainings(results: Sequence[Result], metrics: Metrics) -> list[str]:
    """Loaders that read for another training than a demand of their workload, each with what differs."""
    points = list(_points(results, metrics))
    return [
        f"{supply.name} does not read for {demand.name}: {what}"
        for supply, demand in _loaders_with(points, _demands(points))
        if (what := _other_training(supply, demand))
    ]


def _demands(points: Iterable[_Measured]) -> list[_Measured]:
    return [point for point in points if _mode(point) in ("synthetic", "real") and _is(point, "throughput")]


def _loaders_with(
    points: Iterable[_Measured], demands: Sequence[_Measured]
) -> Iterator[tuple[_Measured, _Measured]]:
    """Each loader with each demand of its workload."""
    for supply in points:
        if _mode(supply) == "data-only" and _is(supply, "throughput"):
            for demand in demands:
                if supply.first.run.trial.workload == demand.first.run.trial.workload:
                    yield supply, demand


def _other_training(supply: _Measured, demand: _Measured) -> str:
    """The parameters in which two trainings of a workload differ, as text; "" if they are the same."""
    theirs, ours = (side.first.run.trial.params for side in (supply, demand))
    differing = sorted(name for name in {*theirs, *ours} - _MAY_DIFFER if theirs.get(name) != ours.get(name))
    return ", ".join(f"{name} {theirs.get(name)} and {ours.get(name)}" for name in differing)


def read_sample_bytes(results: Iterable[Result]) -> dict[str, float]:
    """Stored bytes of a sample by workload, from what its loader read: bytes over samples of its runs."""
    rates: dict[str, list[float]] = {}
    for result in results:
        if not result.counts or result.run.trial.params.get("mode") != "data-only":
            continue
        by_name = {measurement.metric: measurement.value for measurement in result.reading.measurements}
        if by_name.get("throughput", 0) > 0 and "read_rate" in by_name:
            rates.setdefault(result.run.trial.workload, []).append(
                by_name["read_rate"] / by_name["throughput"]
            )
    return {name: math.fsum(values) / len(values) for name, values in rates.items()}


def checkpoint_costs(results: Sequence[Result], metrics: Metrics, every_s: float) -> list[CheckpointCost]:
    """What the checkpoints of the workload `storage` cost, saved after each `every_s` seconds of work."""
    costs = []
    for measured in _points(results, metrics):
        trial = measured.first.run.trial
        labels = measured.group.point.labels
        if (
            trial.workload != "storage"
            or not _is(measured, "checkpoint_time")
            or labels.get("operation") != "save"
        ):
            continue
        save = one_side(measured.group)
        bytes_ = int(trial.params["checkpoint_bytes"]) * measured.ranks
        point = measured.group.point
        day = Estimate(
            _a_day(save.value, every_s),
            None if save.low is None else _a_day(save.low, every_s),
            None if save.high is None else _a_day(save.high, every_s),
            save.n,
            "s",
            save.confidence,
        )
        costs.append(
            CheckpointCost(measured.system, point.benchmark, point.shape, bytes_, save, every_s, day)
        )
    return costs


def _a_day(save_s: float, every_s: float) -> float:
    """Seconds of a day spent saving, if each save follows `every_s` of work."""
    return DAY_S * save_s / (every_s + save_s)


def _points(results: Iterable[Result], metrics: Metrics) -> Iterator[_Measured]:
    by_system: dict[str, list[Result]] = {}
    for result in results:
        by_system.setdefault(result.run.trial.system, []).append(result)
    for system, system_results in by_system.items():
        for point_group in group(system_results, metrics).values():
            if point_group.samples:
                yield _Measured(system, point_group)


def _mode(measured: _Measured) -> object:
    return measured.first.run.trial.params.get("mode")


def _is(measured: _Measured, metric: str) -> bool:
    return measured.group.point.metric == metric


def _feeding(supply: _Measured, demand: _Measured, sample_bytes: float | None) -> tuple[Feeding, Case] | None:
    """None if either mean is not above 0."""
    if why_no_ratio(demand.group, supply.group):
        return None
    supply_ratio = ratio(demand.group, supply.group)
    times, why = _allowed(supply, demand, supply_ratio)
    each = (1.0 if sample_bytes is None else sample_bytes) / demand.ranks
    unit = demand.group.point.unit if sample_bytes is None else "B/s"
    feeding = Feeding(
        supply.side(one_side(supply.group)),
        demand.side(scaled(one_side(demand.group), each, unit)),
        str(supply.group.point.labels.get("phase", "")),
        sample_bytes,
        scaled(times, 1 / each, ""),
        why,
    )
    return feeding, _case(supply, demand, supply_ratio)


def _case(supply: _Measured, demand: _Measured, supply_ratio: Ratio) -> Case:
    sides = (Side(demand.name, demand.group), Side(supply.name, supply.group))
    return Case(sides, supply_ratio.estimate, None, supply_ratio.interleaved, supply_ratio.dropped)


def _allowed(supply: _Measured, demand: _Measured, supply_ratio: Ratio) -> tuple[Estimate, str]:
    """Supply over demand, stretched by what each may have lost to others, or why it has no interval."""
    if supply_ratio.interval.why:
        why = supply_ratio.interval.why.replace("A has", "the demand has").replace("B has", "the supply has")
        return supply_ratio.estimate, why
    lost = lost_by_sides(demand.group.results, supply.group.results, DEFAULT_MARGIN)
    if too_much(lost):
        loss_text = lost_as_text(lost, (demand.name, supply.name))
        limit = f"nothing is promised above {percent(MOST_LOST)}"
        why = f"{loss_text}; {limit}: run again on an idle machine"
        return replace(supply_ratio.estimate, low=None, high=None), why
    return allowing_for(lost, supply_ratio.estimate, "higher"), ""
