"""B against A: the ratio of geometric means at every common point, its interval, and one verdict from it.

The run is the unit of replication. Welch's t on the logarithms, or paired t on the log-ratios of blocks
where, and only where, both sides were run in the same shuffled blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.analyse import doubts, intervals
from assay.analyse.doubts import percent
from assay.analyse.groups import Group, Metrics, group
from assay.analyse.pairing import pairing
from assay.errors import InputError
from assay.records import Better, Comparison, Estimate, Point, Result, Verdict


def compare(
    a: Sequence[Result], b: Sequence[Result], *, margin: float, names: tuple[str, str], metrics: Metrics
) -> tuple[Comparison, ...]:
    """One comparison a common metric and point, in the order in which the workloads declare their metrics.

    margin   share that counts as equal: 0.02
    names    of A and B, as they are shown
    metrics  what a run's workload declares: it tells which direction is better

    Points that only one side has, or that have no ratio, are left out: `uncompared` tells which and why.
    Raises InputError when a run is on both sides.
    """
    shared = {r.run.id for r in a} & {r.run.id for r in b}
    if shared:
        raise InputError(
            f"{min(shared)} is on both sides ({names[0]} and {names[1]}): compare two different sets of runs"
        )
    side_a, side_b = group(a, metrics), group(b, metrics)
    return tuple(
        _compare_point(side_a[key], side_b[key].in_unit(side_a[key].point.unit), margin, names)
        for key in side_a
        if key in side_b and _have_ratio(side_a[key], side_b[key])
    )


def uncompared(
    a: Sequence[Result], b: Sequence[Result], *, names: tuple[str, str], metrics: Metrics
) -> tuple[tuple[Point, str], ...]:
    """Points that `compare` leaves out, each with the reason in words."""
    side_a, side_b = group(a, metrics), group(b, metrics)
    found = [(side_a[key].point, f"no run of {names[1]} has it") for key in side_a if key not in side_b]
    found += [(side_b[key].point, f"no run of {names[0]} has it") for key in side_b if key not in side_a]
    found += [
        (side_a[key].point, "a mean that is not above 0 has no ratio")
        for key in side_a
        if key in side_b and not _have_ratio(side_a[key], side_b[key])
    ]
    return tuple(found)


def compare_systems(
    results: Sequence[Result], *, baseline: str | None, margin: float, metrics: Metrics
) -> tuple[Comparison, ...]:
    """Every other system of these runs against the baseline, or against the first one seen."""
    by_system: dict[str, list[Result]] = {}
    for result in results:
        by_system.setdefault(result.run.trial.system, []).append(result)
    first = baseline if baseline in by_system else next(iter(by_system), None)
    if first is None:
        return ()
    return tuple(
        comparison
        for system in by_system
        if system != first
        for comparison in compare(
            by_system[first], by_system[system], margin=margin, names=(first, system), metrics=metrics
        )
    )


@dataclass(frozen=True)
class _Basis:
    """What a verdict at one point rests on: the runs that count there, and the interval from them."""

    a: Group
    b: Group
    ratio: Estimate
    smallest_visible: float | None
    method: str
    why: str  # there is no interval
    paired: bool
    dropped: int


def _compare_point(a: Group, b: Group, margin: float, names: tuple[str, str]) -> Comparison:
    basis = _basis(a, b)
    verdict, reason = decide(basis.ratio, margin, a.point.better)
    sides = (doubts.Side(names[0], basis.a), doubts.Side(names[1], basis.b))
    case = doubts.Case(sides, basis.ratio, margin, basis.paired, basis.dropped)
    return Comparison(
        point=a.point,
        a=names[0],
        b=names[1],
        mean_a=_mean(basis.a.values),
        mean_b=_mean(basis.b.values),
        ratio=basis.ratio,
        n=(len(basis.a.samples), len(basis.b.samples)),
        method=basis.method,
        margin=margin,
        verdict=verdict,
        reason=basis.why or reason,
        smallest_visible=basis.smallest_visible,
        doubts=doubts.of(case),
    )


def _basis(a: Group, b: Group) -> _Basis:
    """The interval by the method that the design fixes; what it gives is never looked at to choose."""
    design = pairing(a.samples, b.samples)
    paired, dropped = design is not None, 0 if design is None else design.dropped
    if min(*a.values, *b.values) <= 0:
        value = _mean(b.values) / _mean(a.values)
        why = f"{a.point.metric} is not above 0 in every run, so there is no interval of its ratio"
        return _Basis(a, b, _bare(value, a, b), None, "", why, paired, dropped)
    if design is not None and not design.pairs:
        why = "no block holds a run of both sides, so there is no interval"
        return _Basis(a, b, _bare(_mean(b.values) / _mean(a.values), a, b), None, "", why, paired, dropped)
    if design is not None:
        a = replace(a, samples=tuple(pair[0] for pair in design.pairs))
        b = replace(b, samples=tuple(pair[1] for pair in design.pairs))
        interval = intervals.paired(list(zip(_logs(a), _logs(b), strict=True)))
    else:
        interval = intervals.welch(_logs(a), _logs(b))
    half = interval.half
    if half is None:
        return _Basis(a, b, interval.estimate(""), None, "", f"{interval.why}: no interval", paired, dropped)
    method = "paired" if paired else "welch"
    return _Basis(a, b, interval.estimate(""), math.expm1(half), method, "", paired, dropped)


def decide(ratio: Estimate, margin: float, better: Better | None) -> tuple[Verdict, str]:
    """The verdict on B from the interval alone, and why, in words.

    Inside [1/(1 + margin), 1 + margin] it is `equivalent`; else, where the interval excludes 1, `faster` or
    `slower`; else, and where there is no interval, `undecided`.
    """
    low, high = ratio.low, ratio.high
    if low is None or high is None:
        return "undecided", "there is no interval"
    least, most = 1 / (1 + margin), 1 + margin
    reach = f"the interval {_ratio(low)} to {_ratio(high)}"
    if least <= low and high <= most:
        return "equivalent", f"{reach} lies within the margin of ±{percent(margin)}"
    if low <= 1 <= high:
        if high / low > most / least:
            return "undecided", f"{reach} is wider than the margin of ±{percent(margin)}: more runs"
        return "undecided", f"{reach} holds 1 and reaches beyond the margin of ±{percent(margin)}: more runs"
    if better is None:
        return "undecided", f"{reach} differs from 1, and neither direction is better"
    verdict: Verdict = "faster" if (low > 1) == (better == "higher") else "slower"
    beyond = low > most or high < least
    by = f"by more than the margin of ±{percent(margin)}" if beyond else "though perhaps within the margin"
    return verdict, f"{reach} excludes 1, {by}"


def _bare(value: float, a: Group, b: Group) -> Estimate:
    return Estimate(value, None, None, len(a.samples) + len(b.samples), "")


def _have_ratio(a: Group, b: Group) -> bool:
    return _mean(a.values) > 0 and _mean(b.values) > 0


def _logs(side: Group) -> list[float]:
    return [math.log(value) for value in side.values]


def _mean(values: Sequence[float]) -> float:
    """Geometric; arithmetic where a value is not above 0."""
    if min(values) <= 0:
        return math.fsum(values) / len(values)
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def _ratio(value: float) -> str:
    return f"{value:.3f}" if abs(value - 1) >= 0.002 else f"{value:.4f}"
