"""How many accelerators a storage feeds, and what its checkpoints cost a day.

The supply is what was read without training: samples per second of a training's own loader (`data-only`),
or bytes per second of the workload `storage`. The demand is a training's samples per second and accelerator.
Their ratio is the number of accelerators at which the storage becomes the limit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.analyse.comparison import lost_time
from assay.analyse.comparison.groups import Group, Metrics, group
from assay.analyse.doubts import KINDS, Case, Side, percent, rank
from assay.analyse.doubts import of as of_case
from assay.analyse.statistics.ratio import one_side, ratio, why_no_ratio
from assay.records import DEFAULT_MARGIN, Doubt, Estimate, Result

DAY_S = 86400.0
LOADED = ("batch_size", "image_size", "patch_size", "length")  # precision and network change no loader
_READS = ("random-read", "sequential-read")


@dataclass(frozen=True)
class Feeding:
    """How many of a training's accelerators one supply feeds.

    supply, demand  their systems, benchmarks, shapes and means: samples/s, or B/s of `storage`; the demand
                    of one accelerator in the same unit
    pattern         how `storage` read: `random-read`; "" for a loader
    sample_bytes    bytes of a sample that the demand rests on; None for a loader
    accelerators    number at which the supply is used up; its bounds are None if the runs allow none, and
                    wider if others used a side's CPUs
    why             why there is no interval; "" if there is one
    doubts          of the demand and of the supply, the gravest first
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
    """One side: where it was measured, and its mean."""

    system: str
    benchmark: str
    shape: str
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

    def side(self, rate: Estimate) -> FeedingSide:
        point = self.group.point
        return FeedingSide(self.system, point.benchmark, point.shape, rate)


def feedings(results: Sequence[Result], metrics: Metrics, sample_bytes: Mapping[str, float]) -> list[Feeding]:
    """Every supply with every demand that it can be compared with.

    A loader's supply is compared with trainings of its own workload, the storage's with every training
    whose bytes per sample are known.

    sample_bytes  of a workload's samples; what loaders read is added by `read_sample_bytes`
    """
    sizes = {**read_sample_bytes(results), **sample_bytes}
    points = list(_points(results, metrics))
    demands = [one for one in points if _mode(one) in ("synthetic", "real") and _is(one, "throughput")]
    loaders = [one for one in points if _mode(one) == "data-only" and _is(one, "throughput")]
    storages = [
        one
        for one in points
        if one.first.run.trial.workload == "storage"
        and _is(one, "read_bandwidth")
        and one.group.point.labels.get("phase") in _READS
    ]
    found = [
        _feeding(supply, demand, None)
        for supply in loaders
        for demand in demands
        if supply.first.run.trial.workload == demand.first.run.trial.workload
    ]
    found += [
        _feeding(supply, demand, sizes[demand.first.run.trial.workload])
        for supply in storages
        for demand in demands
        if demand.first.run.trial.workload in sizes
    ]
    return [one for one in found if one is not None]


def read_sample_bytes(results: Iterable[Result]) -> dict[str, float]:
    """Stored bytes of a sample by workload, from what its loader read: bytes over samples of its runs."""
    rates: dict[str, list[float]] = {}
    for result in results:
        if not result.counts or result.run.trial.params.get("mode") != "data-only":
            continue
        by_name = {one.metric: one.value for one in result.reading.measurements}
        if by_name.get("throughput", 0) > 0 and "read_rate" in by_name:
            rates.setdefault(result.run.trial.workload, []).append(
                by_name["read_rate"] / by_name["throughput"]
            )
    return {name: math.fsum(values) / len(values) for name, values in rates.items()}


def checkpoint_costs(results: Sequence[Result], metrics: Metrics, every_s: float) -> list[CheckpointCost]:
    """What the checkpoints of the workload `storage` cost, saved after each `every_s` seconds of work."""
    found = []
    for one in _points(results, metrics):
        trial = one.first.run.trial
        labels = one.group.point.labels
        if (
            trial.workload != "storage"
            or not _is(one, "checkpoint_time")
            or labels.get("operation") != "save"
        ):
            continue
        save = one_side(one.group)
        bytes_ = int(trial.params["checkpoint_bytes"]) * one.ranks
        point = one.group.point
        day = Estimate(
            _a_day(save.value, every_s),
            None if save.low is None else _a_day(save.low, every_s),
            None if save.high is None else _a_day(save.high, every_s),
            save.n,
            "s",
            save.confidence,
        )
        found.append(CheckpointCost(one.system, point.benchmark, point.shape, bytes_, save, every_s, day))
    return found


def _a_day(save_s: float, every_s: float) -> float:
    """Seconds of a day spent saving, if each save follows `every_s` of work."""
    return DAY_S * save_s / (every_s + save_s)


def _points(results: Iterable[Result], metrics: Metrics) -> Iterator[_Measured]:
    by_system: dict[str, list[Result]] = {}
    for result in results:
        by_system.setdefault(result.run.trial.system, []).append(result)
    for system, of in by_system.items():
        for found in group(of, metrics).values():
            if found.samples:
                yield _Measured(system, found)


def _mode(one: _Measured) -> object:
    return one.first.run.trial.params.get("mode")


def _is(one: _Measured, metric: str) -> bool:
    return one.group.point.metric == metric


def _feeding(supply: _Measured, demand: _Measured, sample_bytes: float | None) -> Feeding | None:
    """None if either mean is not above 0."""
    if why_no_ratio(demand.group, supply.group):
        return None
    found = ratio(demand.group, supply.group)
    scale = demand.ranks / (1.0 if sample_bytes is None else sample_bytes)
    doubts, lost = _doubted(demand, supply)
    different = _different(demand, supply) if sample_bytes is None else ""
    why = found.interval.why.replace("A has", "the demand has").replace("B has", "the supply has")
    times = lost_time.allowing_for(lost, found.estimate, "higher")
    if lost_time.too_much(lost):
        times = replace(times, low=None, high=None)
        limit = f"above {percent(lost_time.MOST_LOST)} nothing is promised: run again on an idle machine"
        why = f"{lost_time.words(lost, ('the demand', 'the supply'))}; {limit}"
    if different:
        times = replace(times, low=None, high=None)
        why = f"loader and training differ in {different}: measure both with the same"
        doubts = (KINDS["different-work"].doubt(f"the demand differs in {different}"), *doubts)
    accelerators = replace(
        times,
        value=times.value * scale,
        low=None if times.low is None else times.low * scale,
        high=None if times.high is None else times.high * scale,
        unit="",
    )
    asked = one_side(demand.group)
    each = (1.0 if sample_bytes is None else sample_bytes) / demand.ranks
    wanted = replace(
        asked,
        value=asked.value * each,
        low=None if asked.low is None else asked.low * each,
        high=None if asked.high is None else asked.high * each,
        unit=asked.unit if sample_bytes is None else "B/s",
    )
    return Feeding(
        supply.side(one_side(supply.group)),
        demand.side(wanted),
        str(supply.group.point.labels.get("phase", "")),
        sample_bytes,
        accelerators,
        why,
        doubts,
    )


def _different(demand: _Measured, supply: _Measured) -> str:
    """Parameters that decide what a loader prepares, and that differ; "" if none."""
    a, b = (one.first.run.trial.params for one in (demand, supply))
    return ", ".join(
        f"{name} ({b.get(name)} loaded, {a.get(name)} trained on)"
        for name in LOADED
        if a.get(name) != b.get(name)
    )


def _doubted(demand: _Measured, supply: _Measured) -> tuple[tuple[Doubt, ...], lost_time.Lost]:
    """The doubts of both sides, and the time that others may have taken from them.

    A demand that was measured beside others is too low, and what the storage feeds would be too much.
    """
    sides = [("the demand", demand.group), ("the supply", supply.group)]
    raised = [doubt for name, own in sides for doubt in of_case(Case((Side(name, own),), one_side(own)), {})]
    results = [[sample.result for sample in own.samples] for _, own in sides]
    lost = lost_time.lost_to_others(results[0], results[1], DEFAULT_MARGIN, raised)
    first = {doubt.code: doubt for doubt in reversed(raised)}
    return tuple(sorted(first.values(), key=lambda doubt: rank(doubt.code))), lost
