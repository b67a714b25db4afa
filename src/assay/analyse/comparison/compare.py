"""B compared with A: the ratio of geometric means at every common point, its interval, and one verdict.

The run is the unit of replication: Welch's t on the logarithms, or paired t on the log-ratios of blocks
if, and only if, both sides were run in the same shuffled blocks. Once a side has several sessions, the
session is the unit: its mean counts once, paired if both sides have the same sessions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from assay.analyse.comparison.families import Curve, curve_of
from assay.analyse.comparison.verdict import decide, lost_by_sides, more_would_decide, surely_beyond
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import Group, Key, Metrics, group
from assay.analyse.points.ratio import Allowance, Ratio, looks_of, ratio, why_no_ratio
from assay.analyse.statistics import bands, power, rank
from assay.analyse.statistics.intervals import LogInterval, ratio_end, share_of
from assay.analyse.statistics.sequential import allowance
from assay.errors import InputError
from assay.records import Comparison, Estimate, Point, Result, RunsNeeded, Shape
from assay.units import percent


@dataclass(frozen=True)
class Outcome:
    """The result of comparing B with A.

    cases     what each comparison rests on, in the same order
    left_out  points that only one side has, or that have no ratio, each with the reason as text
    """

    comparisons: tuple[Comparison, ...]
    cases: tuple[Case, ...]
    left_out: tuple[tuple[Point, str], ...]


def compare(
    a: Sequence[Result],
    b: Sequence[Result],
    *,
    margin: float,
    names: tuple[str, str],
    metrics: Metrics,
    confidence: float = 0.95,
    layouts: bool = False,
) -> Outcome:
    """One comparison per common metric and point: by benchmark, its metrics as declared, then by size.

    margin      share that counts as equal: 0.02
    names       of A and B, as they are shown
    metrics     what a run's workload declares, including which direction is better
    confidence  of each interval; for repeated looks, 1 − `sequential.nominal_p`
    layouts     also compare shapes with the same number of ranks, if each side has one: 16x1 with 2x8

    Raises InputError when a run is on both sides.
    """
    shared = {r.run.id for r in a} & {r.run.id for r in b}
    if shared:
        raise InputError(
            f"{min(shared)} is on both sides ({names[0]} and {names[1]}): compare two different sets of runs"
        )
    side_a: Groups = group(a, metrics, among=(*a, *b))
    side_b: Groups = group(b, metrics, among=(*a, *b))
    if layouts:
        side_b = _laid_out_as(side_a, side_b)
    ratios = [ratio(*sides, confidence) for sides in _shared(side_a, side_b) if not why_no_ratio(*sides)]
    cases = tuple(_case(r, margin, _with_shapes(names, r.a, r.b)) for r in ratios)
    comparisons = [_compare_point(r, case, margin) for r, case in zip(ratios, cases, strict=True)]
    return Outcome(tuple(_along_curves(comparisons, ratios)), cases, _left_out(side_a, side_b, names))


Groups = Mapping[Key, Group]


def _shared(a: Groups, b: Groups) -> Iterator[tuple[Group, Group]]:
    """Both sides' runs at every common point, in A's unit."""
    for key, group_a in a.items():
        if key in b:
            yield group_a, b[key].in_unit(group_a.point.unit)


def _along_curves(comparisons: Sequence[Comparison], ratios: Sequence[Ratio]) -> Iterator[Comparison]:
    """The comparisons; those that are sizes of one curve with their number of independent claims."""
    curves: dict[Curve, list[Ratio]] = {}
    for c, r in zip(comparisons, ratios, strict=True):
        curve = curve_of(c)
        if curve is not None and c.error is not None:
            curves.setdefault(curve, []).append(r)
    worth = {
        curve: bands.along([r.replicates for r in curve_ratios], paired=curve_ratios[0].paired)
        for curve, curve_ratios in curves.items()
    }
    for c in comparisons:
        curve = curve_of(c)
        yield c if curve is None or c.error is None else replace(c, along=worth[curve])


def _laid_out_as(a: Groups, b: Groups) -> Groups:
    """B under A's keys even if shapes differ but have the same ranks, and each side has one such shape."""
    alone_a, alone_b = (
        _alone(key for key in groups if key not in other) for groups, other in ((a, b), (b, a))
    )
    renamed = {
        theirs: ours for ranks_key, theirs in alone_b.items() if (ours := alone_a.get(ranks_key)) is not None
    }
    return {renamed.get(key, key): runs for key, runs in b.items()}


def _alone(keys: Iterable[Key]) -> dict[Key, Key]:
    """Keys with the number of ranks in place of the shape, without those that then coincide."""
    keys_by_ranks: dict[Key, list[Key]] = {}
    for key in keys:
        ranks = str(Shape.parse(key.place.shape).ranks)
        keys_by_ranks.setdefault(key._replace(place=key.place._replace(shape=ranks)), []).append(key)
    return {ranks_key: alike[0] for ranks_key, alike in keys_by_ranks.items() if len(alike) == 1}


def _with_shapes(names: tuple[str, str], a: Group, b: Group) -> tuple[str, str]:
    """The sides' names, with their shapes if these differ."""
    if a.point.shape == b.point.shape:
        return names
    return f"{names[0]} as {a.point.shape}", f"{names[1]} as {b.point.shape}"


def _left_out(a: Groups, b: Groups, names: tuple[str, str]) -> tuple[tuple[Point, str], ...]:
    return (
        *((a[key].point, f"{names[1]} has no such run") for key in a if key not in b),
        *((b[key].point, f"{names[0]} has no such run") for key in b if key not in a),
        *((sides[0].point, why) for sides in _shared(a, b) if (why := why_no_ratio(*sides))),
    )


def _case(of_sides: Ratio, margin: float, names: tuple[str, str]) -> Case:
    sides = (Side(names[0], of_sides.a), Side(names[1], of_sides.b))
    return Case(sides, of_sides.estimate, margin, of_sides.interleaved, of_sides.dropped)


def _compare_point(measured_ratio: Ratio, case: Case, margin: float) -> Comparison:
    interval, estimate, better = (
        measured_ratio.interval,
        measured_ratio.estimate,
        measured_ratio.a.point.better,
    )
    names = (case.sides[0].name, case.sides[1].name)
    lost = lost_by_sides(measured_ratio.a.results, measured_ratio.b.results, margin, measured_ratio.blocks)
    shift = share_of(measured_ratio.allowance.hidden.shift)
    verdict, reason = decide(estimate, margin, better, lost, names, shift)
    more = more_would_decide(verdict, estimate, lost, shift)
    looks = looks_of((*measured_ratio.a.samples, *measured_ratio.b.samples))
    if looks and not interval.why and measured_ratio.replication == "runs":
        reason += f" ({allowance(measured_ratio.confidence, looks)})"
    mean_a, mean_b = measured_ratio.means
    return Comparison(
        point=measured_ratio.a.point,
        a=names[0],
        b=names[1],
        mean_a=mean_a,
        mean_b=mean_b,
        ratio=estimate,
        n=(len(measured_ratio.a.samples), len(measured_ratio.b.samples)),
        method=measured_ratio.method,
        margin=margin,
        verdict=verdict,
        reason=f"{interval.why}: no interval" if interval.why else reason,
        smallest_visible=_visible(interval),
        by_margin=surely_beyond(estimate, margin, better, lost),
        replication=measured_ratio.replication,
        sessions=measured_ratio.sessions,
        error=interval.error,
        degrees=interval.degrees,
        runs_needed=_runs_needed(measured_ratio, margin) if more else None,
        rank=_rank(measured_ratio),
        apart=measured_ratio.apart,
        new_session=measured_ratio.new_session,
        allows_for=_allowed_for(measured_ratio, names),
        shift=shift,
        lost_to_others=lost,
    )


def _allowed_for(measured_ratio: Ratio, names: tuple[str, str]) -> tuple[str, ...]:
    """What makes the interval wider than the spread of the runs does, and what to do about it."""
    allowance, runs = measured_ratio.allowance, len(measured_ratio.a.samples) + len(measured_ratio.b.samples)
    sentences = []
    if allowance.step:
        sentences.append(
            f"The values come in steps of {percent(share_of(allowance.step))}, which hide how far the runs "
            "differ, so the interval is wider: print more digits, or measure for longer."
        )
    sentences += [
        f"{name} {'rose' if change > 0 else 'fell'} by {percent(abs(share_of(change)))} over its runs, so "
        f"the interval is wider by {_drifted(allowance)}: run both sides shuffled within blocks."
        for name, change in zip(names, allowance.drifts, strict=True)
        if change and allowance.drifted
    ]
    if (worth := max(2, round(runs * allowance.hidden.worth))) < runs:
        sentences.append(
            f"Successive runs may resemble each other, so the {runs} runs count as {worth} in the interval: "
            "shuffled blocks prevent that."
        )
    return tuple(sentences)


def _drifted(allowance: Allowance) -> str:
    """By how much drift widens the interval: by its size, unless the sides ran in turn."""
    if allowance.drifted == max(map(abs, allowance.drifts)):
        return "as much"
    return f"{percent(share_of(allowance.drifted))}, because of the order in which both sides ran"


def _visible(interval: LogInterval) -> float | None:
    """Half-width as a ratio − 1; None without an interval, or if it exceeds any number."""
    above = None if interval.half is None else ratio_end(interval.half)
    return None if above is None or interval.half is None else share_of(interval.half)


def _runs_needed(measured_ratio: Ratio, margin: float) -> RunsNeeded:
    """The number of runs that would decide; the spread is that of the unit of replication."""
    a, b = measured_ratio.replicates
    if measured_ratio.allowance.step or min(len(a), len(b)) == 1:
        spread = power.of_interval(measured_ratio.interval, len(a), len(b), paired=measured_ratio.paired)
    elif measured_ratio.paired:
        spread = power.of_pairs(a, b)
    else:
        spread = power.of_sides(a, b, measured_ratio.allowance.hidden.worth)
    return power.runs_needed(
        spread, margin, measured_ratio.confidence, replication=measured_ratio.replication
    )


def _rank(measured_ratio: Ratio) -> Estimate | None:
    """The rank estimate, next to an interval of the means; None if the spread is hidden or no pair exists."""
    a, b = measured_ratio.replicates
    if measured_ratio.interval.half is None:
        return None
    if measured_ratio.paired:
        return rank.paired(list(zip(a, b, strict=True)), measured_ratio.confidence)
    return rank.unpaired(a, b, measured_ratio.confidence)
