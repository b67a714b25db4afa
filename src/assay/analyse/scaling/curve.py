"""Throughput, speed-up and efficiency over sizes, each relative to the smallest size with its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from assay.analyse import doubts
from assay.analyse.points.groups import Group, Key, Metrics, Place, group
from assay.analyse.points.ratio import one_side, ratio
from assay.errors import InputError
from assay.records import Better, Estimate, Metric, Result, Run, Scaling, ScalingPoint, Shape


def scale(
    results: Iterable[Result],
    *,
    metrics: Metrics,
    metric: str | Sequence[str] | None = None,
    across: str | None = None,
) -> tuple[Scaling, ...]:
    """One curve per system, benchmark and swept point, over at least two sizes.

    metrics  what a run's workload declares
    metric   whose curves; None is each workload's first metric that scales with the ranks
    across   name of one curve over all systems, each of which is a size of it

    The speed-up's interval is paired by block if sizes were shuffled together, else Welch's; every one
    allows for interim looks if there were any.
    Metrics that don't scale (bus bandwidth, latency, accuracy), that have no direction,
    or that have values that are not above 0, have no curve.
    Raises InputError if two systems on one curve have the same size.
    """
    return tuple(c.scaling() for c in curves(results, metrics=metrics, metric=metric, across=across))


def curves(
    results: Iterable[Result],
    *,
    metrics: Metrics,
    metric: str | Sequence[str] | None = None,
    across: str | None = None,
) -> list[Curve]:
    """The same with the runs behind each point."""
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
        """Each size relative to the smallest."""
        first = self.groups[0]
        return Scaling(
            system=self.system,
            benchmark=first.point.benchmark,
            metric=first.point.metric,
            unit=first.point.unit,
            better=self.better,
            labels=first.point.labels,
            points=tuple(self._point(size_group) for size_group in self.groups),
        )

    def metrics_of_the_system(self) -> list[str]:
        """Metrics of the same runs that don't depend on how many samples the target takes."""
        return [name for curve in self.beside if (name := curve.groups[0].point.metric) != "time_to_train"]

    def per_rank(self) -> tuple[Estimate, ...]:
        """Each size's throughput per rank, from the metric or from what its runs also state; else empty."""
        for rate in (self, *self.beside):
            unit = rate.groups[0].point.unit
            if rate.better == "higher" and unit.endswith("/s"):
                return tuple(
                    _over(one_side(size_group.in_unit(unit)), _ranks(size_group))
                    for size_group in rate.groups
                )
        return ()

    def _point(self, size_group: Group) -> ScalingPoint:
        first, size_group = self.groups[0], size_group.in_unit(self.groups[0].point.unit)
        ranks = _ranks(size_group)
        value = one_side(size_group)
        if size_group is first:
            unity = Estimate(1.0, None, None, len(size_group.samples), "")
            alone = doubts.Case((doubts.Side(self.system, size_group),), value)
            return ScalingPoint(size_group.point.shape, ranks, value, unity, unity, "", doubts.of(alone))
        size_ratio = ratio(first, size_group)
        sign = 1 if self.better == "higher" else -1  # a time is inverted
        speedup = replace(size_ratio.interval, centre=sign * size_ratio.interval.centre)
        ideal = math.log(ranks / _ranks(first))
        sides = (
            doubts.Side(first.point.shape, size_ratio.a),
            doubts.Side(size_group.point.shape, size_ratio.b),
        )
        estimate = speedup.estimate("", size_ratio.confidence)
        return ScalingPoint(
            shape=size_group.point.shape,
            ranks=ranks,
            value=value,
            speedup=estimate,
            efficiency=replace(speedup, centre=speedup.centre - ideal).estimate("", size_ratio.confidence),
            method=size_ratio.method,
            doubts=doubts.of(doubts.Case(sides, estimate, None, size_ratio.interleaved, size_ratio.dropped)),
        )


def _ranks(size_group: Group) -> int:
    return Shape.parse(size_group.point.shape).ranks


def _over(estimate: Estimate, ranks: int) -> Estimate:
    low, high = (None if end is None else end / ranks for end in (estimate.low, estimate.high))
    return replace(estimate, value=estimate.value / ranks, low=low, high=high)
