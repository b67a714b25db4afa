"""Throughput, speed-up and efficiency over sizes, each relative to the smallest size with its interval."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from typing import Literal

from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import Group, Key, Metrics, Place, group
from assay.analyse.points.ratio import one_side, ratio
from assay.errors import InputError
from assay.records import Better, Estimate, Metric, Result, Run, Scaling, ScalingPoint, Shape


def curves(
    results: Iterable[Result],
    *,
    metrics: Metrics,
    metric: str | Sequence[str] | None = None,
    across: str | None = None,
) -> list[Curve]:
    """One curve per system, benchmark and swept point, over at least two sizes.

    metrics  what a run's workload declares
    metric   whose curves; None is each workload's first metric that scales with the ranks
    across   name of one curve over all systems, each of which is a size of it

    Metrics that don't scale (bus bandwidth, latency, accuracy), that have no direction,
    or that have values that are not above 0, have no curve.
    Raises InputError if two systems on one curve have the same size.
    """
    metric_names = (metric,) if isinstance(metric, str) else metric
    return [
        curve
        for name, runs in _by_curve(results, across).items()
        for curve in _curves_of(name, group(runs, metrics), metrics)
        if len(curve.groups) > 1 and _wanted(curve, metrics, metric_names)
    ]


def _curves_of(name: str, groups: Mapping[Key, Group], metrics: Metrics) -> list[Curve]:
    """The curves of all metrics that scale, each with the others that were measured at all of its sizes."""
    by_key: dict[Key, Curve] = {}
    for key, of_size in groups.items():
        declared = _declared(of_size, metrics)
        if declared is None or declared.better is None or not declared.scales or min(of_size.values) <= 0:
            continue
        anywhere = key._replace(place=key.place._replace(shape=""))
        by_key.setdefault(anywhere, Curve(name, declared.better, [])).groups.append(of_size)
    alike: dict[tuple[Place, str], list[Curve]] = {}
    for key, curve in by_key.items():
        alike.setdefault((key.place, key.labels), []).append(curve)
    return [
        replace(curve, beside=tuple(o for o in alike[key.place, key.labels] if _same_sizes(curve, o)))
        for key, curve in by_key.items()
    ]


def _same_sizes(curve: Curve, other: Curve) -> bool:
    return curve is not other and [g.point.shape for g in curve.groups] == [
        g.point.shape for g in other.groups
    ]


def _by_curve(results: Iterable[Result], across: str | None) -> dict[str, list[Result]]:
    owners: dict[tuple[str, Shape], str] = {}
    results_by_curve: dict[str, list[Result]] = {}
    for result in results:
        trial = result.run.trial
        results_by_curve.setdefault(across or trial.system, []).append(result)
        owner = owners.setdefault((trial.benchmark, trial.shape), trial.system)
        if across and owner != trial.system:
            raise InputError(
                f"{owner} and {trial.system} both have {trial.benchmark} at {trial.shape}: on one curve each "
                "size is of one system; compare these two with `assay compare`"
            )
    return results_by_curve


def _wanted(curve: Curve, metrics: Metrics, metric_names: Sequence[str] | None) -> bool:
    """Whether the curve is requested: by default, its workload's first metric that scales."""
    run: Run = curve.groups[0].samples[0].result.run
    primary = [m.name for m in metrics(run).values() if m.scales and m.better is not None][:1]
    return curve.groups[0].point.metric in (metric_names or primary)


def _declared(size_group: Group, metrics: Metrics) -> Metric | None:
    return metrics(size_group.samples[0].result.run).get(size_group.point.metric)


def sizes_of_one_system(sides: Mapping[str, Sequence[Result]]) -> dict[str, str]:
    """Benchmark → name of the system of which the sides are sizes.

    They are if each has exactly one shape and their systems' names have a part in common.
    """
    shapes: dict[str, dict[str, set[Shape]]] = {}
    for side, results in sides.items():
        for trial in (result.run.trial for result in results):
            shapes.setdefault(trial.benchmark, {}).setdefault(side, set()).add(trial.shape)
    systems = list(dict.fromkeys(r.run.trial.system for results in sides.values() for r in results))
    name = common_name(systems)
    return {
        benchmark: name
        for benchmark, by_side in shapes.items()
        if name and len(by_side) > 1 and len(set().union(*by_side.values())) == len(by_side)
        if all(len(own) == 1 for own in by_side.values())
    }


def common_name(systems: Sequence[str]) -> str:
    """The names' common prefix, or else suffix; "" if that is shorter than three letters.

    >>> common_name(["dgx_n1", "dgx_n2"])
    'dgx_n'
    >>> common_name(["XE8545", "2xXE8545"]), common_name(["2xA30", "4xA30"])
    ('XE8545', 'A30')
    """
    prefix = _prefix(systems).rstrip("-_. ")
    if len(prefix) > 2:
        return prefix
    suffix = _prefix([name[::-1] for name in systems])[::-1]
    if all(name.removesuffix(suffix).isdigit() for name in systems):
        suffix = suffix.removeprefix("x")
    suffix = suffix.lstrip("-_. ")
    return suffix if len(suffix) > 2 else ""


def _prefix(names: Sequence[str]) -> str:
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    return "".join(letters[0] for letters in alike)


@dataclass(frozen=True)
class Curve:
    """Groups of one system and metric at several sizes, the smallest first.

    beside  curves of other metrics over the same sizes
    """

    system: str
    better: Better
    groups: list[Group]
    beside: tuple[Curve, ...] = ()

    def scaling(self) -> Scaling:
        """Each size relative to the smallest.

        The speed-up's interval is paired by block if sizes were shuffled together, else Welch's; every one
        allows for interim looks if there were any.
        """
        first = self.groups[0]
        return Scaling(
            system=self.system,
            benchmark=first.point.benchmark,
            metric=first.point.metric,
            unit=first.point.unit,
            better=self.better,
            labels=first.point.labels,
            points=tuple(point for point, _ in self._sizes),
        )

    @property
    def cases(self) -> tuple[Case, ...]:
        """What each point of `scaling` rests on: the size's runs, compared with those of the smallest."""
        return tuple(case for _, case in self._sizes)

    def metrics_of_the_system(self) -> list[str]:
        """Metrics of the same runs that don't depend on how many samples the target takes."""
        return [name for curve in self.beside if (name := curve.groups[0].point.metric) != "time_to_train"]

    def per_rank(self) -> tuple[Estimate, ...]:
        """Each size's throughput per rank, from the metric or from what its runs also state; else empty."""
        for rate in (self, *self.beside):
            unit = rate.groups[0].point.unit
            if rate.better == "higher" and unit.endswith("/s"):
                return tuple(
                    _over(one_side(size_group.in_unit(unit)), size_group.ranks) for size_group in rate.groups
                )
        return ()

    @cached_property
    def _sizes(self) -> tuple[tuple[ScalingPoint, Case], ...]:
        return tuple(map(self._size, self.groups))

    def _size(self, group: Group) -> tuple[ScalingPoint, Case]:
        first = self.groups[0]
        group = group.in_unit(first.point.unit)
        shape, ranks, value = group.point.shape, group.ranks, one_side(group)
        if group is first:
            unity = Estimate(1.0, None, None, len(group.samples), "")
            alone = Case((Side(self.system, group),), value)
            return ScalingPoint(shape, ranks, value, unity, unity, ""), alone
        to_first = ratio(first, group)
        sign = 1 if self.better == "higher" else -1  # a time is inverted
        speedup = replace(to_first.interval, centre=sign * to_first.interval.centre)
        ideal = math.log(ranks / first.ranks)
        estimate = speedup.estimate("", to_first.confidence)
        point = ScalingPoint(
            shape=shape,
            ranks=ranks,
            value=value,
            speedup=estimate,
            efficiency=replace(speedup, centre=speedup.centre - ideal).estimate("", to_first.confidence),
            method=to_first.method,
        )
        sides = (Side(first.point.shape, to_first.a), Side(shape, to_first.b))
        return point, Case(sides, estimate, None, to_first.interleaved, to_first.dropped)


def _over(estimate: Estimate, ranks: int) -> Estimate:
    low, high = (None if end is None else end / ranks for end in (estimate.low, estimate.high))
    return replace(estimate, value=estimate.value / ranks, low=low, high=high)


By = Literal["name", "accelerator", "none"]
ONE_DIGIT = 9  # a single number up to this is usually the model's, as in DGX-1


def machines(results: Iterable[Result], by: By) -> dict[str, list[Result]]:
    """The runs of each machine by its name, its sizes in the order of their first occurrence.

    by  `name`: submitter, and the system's name without its count; `accelerator`: submitter and model;
        `none`: each system separately

    A second system of a size that a machine already has is kept separate.
    """
    runs_by_machine: dict[str, list[Result]] = {}
    owners: dict[tuple[str, str, Shape], str] = {}
    for result in results:
        trial = result.run.trial
        name = _machine(result, by)
        if owners.setdefault((name, trial.benchmark, trial.shape), trial.system) != trial.system:
            name = trial.system
        runs_by_machine.setdefault(name, []).append(result)
    return runs_by_machine


def _machine(result: Result, by: By) -> str:
    facts = result.provenance.nodes[0] if result.provenance and result.provenance.nodes else {}
    run: Run = result.run
    model = facts.get("mlperf.accelerator_model_name", facts.get("gpu.0.name"))
    if by == "none" or (by == "accelerator" and not isinstance(model, str)):
        return run.trial.system
    submitter = facts.get("mlperf.submitter")
    what = str(model) if by == "accelerator" else without_count(run.trial.system, run.trial.shape)
    return f"{submitter} {what}" if isinstance(submitter, str) else what


def without_count(name: str, shape: Shape) -> str:
    """The name without the part that says how many nodes or accelerators it has.

    >>> without_count("dgxa100_n64_ngc21.09_mxnet", Shape(64, 8)), without_count("8xXE8545", Shape(8, 4))
    ('dgxa100_ngc21.09_mxnet', 'XE8545')
    >>> without_count("ipu-pod64-TF1", Shape(1, 64)), without_count("nd96_v4_n4_ngc", Shape(4, 8))
    ('ipu-TF1', 'nd96_v4_ngc')
    >>> without_count("dgxa100_ngc21.09_mxnet", Shape(1, 8)), without_count("HLS-1H-N2", Shape(2, 8))
    ('dgxa100_ngc21.09_mxnet', 'HLS-1H')
    >>> without_count("DGX-1", Shape(1, 8)), without_count("tpu-v4-4096", Shape(512, 8))
    ('DGX-1', 'tpu-v4')
    """
    for count in {shape.workers, shape.ranks}:
        bare = rf"|{count}(?![a-z0-9.])" if count > ONE_DIGIT else ""
        marked = rf"(?<![a-z0-9.])(?:(?:n|pod|x){count}|{count}x{bare})(?![0-9.])"
        shorter = re.sub(marked, "", name, flags=re.IGNORECASE)
        shorter = re.sub(r"([-_ .])[-_ .]+", r"\1", shorter).strip("-_ .")
        name = shorter or name
    return name
