"""Throughput, speed-up and efficiency over sizes, each against the smallest size with its interval."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from assay.analyse import doubts
from assay.analyse.groups import Group, Key, Metrics, group
from assay.analyse.ratio import one_side, ratio
from assay.errors import InputError
from assay.records import Better, Estimate, Metric, Result, Run, Scaling, ScalingPoint, Shape


def scale(
    results: Iterable[Result],
    *,
    metrics: Metrics,
    metric: str | Sequence[str] | None = None,
    across: str | None = None,
) -> tuple[Scaling, ...]:
    """One curve a system, benchmark and swept point, over at least two sizes.

    metrics  what a run's workload declares
    metric   whose curves; None is each workload's first metric that scales with the ranks
    across   name of one curve over all systems, each of which is a size of it

    The speed-up's interval is paired by block where sizes were shuffled together, else Welch's; every one
    allows for the looks where the runs were looked at before all were in.
    Metrics that don't scale (bus bandwidth, latency, accuracy), or of which neither direction is better,
    and those with values that are not above 0, have no curve.
    Raises InputError where two systems that are to be one curve have the same size.
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
    found: dict[tuple[str, str, Key], Curve] = {}
    wanted = (metric,) if isinstance(metric, str) else metric
    for name, runs in _by_curve(results, across).items():
        for key, of_size in group(runs, metrics).items():
            better = _scales(of_size, metrics, wanted)
            if better is None or min(of_size.values) <= 0:
                continue
            anywhere = key._replace(place=key.place._replace(shape=""))
            found.setdefault((name, key.metric, anywhere), Curve(name, better, [])).groups.append(of_size)
    return [curve for curve in found.values() if len(curve.groups) > 1]


def _by_curve(results: Iterable[Result], across: str | None) -> dict[str, list[Result]]:
    owners: dict[tuple[str, Shape], str] = {}
    found: dict[str, list[Result]] = {}
    for result in results:
        trial = result.run.trial
        found.setdefault(across or trial.system, []).append(result)
        owner = owners.setdefault((trial.benchmark, trial.shape), trial.system)
        if across and owner != trial.system:
            raise InputError(
                f"{owner} and {trial.system} both have {trial.benchmark} at {trial.shape}: on one curve each "
                "size is of one system; compare these two with `assay compare`"
            )
    return found


def _scales(found: Group, metrics: Metrics, wanted: Sequence[str] | None) -> Better | None:
    """The metric's better-direction where it is one whose curve is asked for."""
    run: Run = found.samples[0].result.run
    declared = metrics(run)
    names = wanted or [m.name for m in declared.values() if m.scales and m.better is not None][:1]
    here: Metric | None = declared.get(found.point.metric)
    if here is None or here.name not in names or not here.scales:
        return None
    return here.better


@dataclass(frozen=True)
class Curve:
    """Groups of one system and metric at several sizes, the smallest first."""

    system: str
    better: Better
    groups: list[Group]

    def scaling(self) -> Scaling:
        """Each size against the smallest."""
        first = self.groups[0]
        return Scaling(
            system=self.system,
            benchmark=first.point.benchmark,
            metric=first.point.metric,
            unit=first.point.unit,
            better=self.better,
            labels=first.point.labels,
            points=tuple(self._point(at) for at in self.groups),
        )

    def _point(self, at: Group) -> ScalingPoint:
        first, at = self.groups[0], at.in_unit(self.groups[0].point.unit)
        ranks = Shape.parse(at.point.shape).ranks
        value = one_side(at)
        if at is first:
            one = Estimate(1.0, None, None, len(at.samples), "")
            alone = doubts.Case((doubts.Side(self.system, at),), value)
            return ScalingPoint(at.point.shape, ranks, value, one, one, "", doubts.of(alone))
        found = ratio(first, at)
        sign = 1 if self.better == "higher" else -1  # a time is inverted
        speedup = replace(found.interval, centre=sign * found.interval.centre)
        ideal = math.log(ranks / Shape.parse(first.point.shape).ranks)
        sides = (doubts.Side(first.point.shape, found.a), doubts.Side(at.point.shape, found.b))
        estimate = speedup.estimate("", found.confidence)
        return ScalingPoint(
            shape=at.point.shape,
            ranks=ranks,
            value=value,
            speedup=estimate,
            efficiency=replace(speedup, centre=speedup.centre - ideal).estimate("", found.confidence),
            method=found.method,
            doubts=doubts.of(doubts.Case(sides, estimate, None, found.paired, found.dropped)),
        )
