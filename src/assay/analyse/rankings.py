"""Many systems at once: their order, which of them may be the best, and which the runs can't distinguish.

Picking the fastest of 90 systems also picks luck, so a statement about the best has to hold for all of them
jointly. A system may be the best unless another one is certainly better. Its p for that is the smallest
one-sided p of its pairs (Welch's t on the logarithms, or paired t if the sides ran in the same blocks) times
the number of rivals (Bonferroni, because spreads differ), and Holm's step-down goes over these p. So in at
least 95 % of cases no system that is as good as the best is excluded, however many are equally good.

How far a system is behind the best of the others: multiple comparisons with the best, each pair two-sided at
5 % divided by the number of rivals. In at least 95 % of cases all of these intervals hold.

Groups: going down the order, a group contains the systems that can't be distinguished from its first one.
That takes all pairs, each at 5 % divided by their number.

A system with a value that is not above 0 has no logarithm and is not ranked. It may be the best, so
no best system is named then; of the others, only those that certainly are not the best are reported.

The first by the mean was picked for its mean, which on average is therefore too good: by the expected maximum
of the errors of those that may be the best, if they are equal, and by less if they differ.

Sources: Holm, Scandinavian Journal of Statistics 6 (1979) 65-70; the intervals: Hsu, Annals of Statistics 12
(1984) 1136-1144; unequal spreads: Edwards and Hsu, Journal of the
American Statistical Association 78 (1983) 965-971.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Literal, NamedTuple

from assay.analyse.mlperf.score import score
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import Group, Metrics, group
from assay.analyse.points.ratio import Ratio, logs, one_side, ratio
from assay.analyse.statistics.intervals import one_mean, ratio_end, t_quantile
from assay.records import DEFAULT_MARGIN, Better, Doubt, Estimate, Result, Scalar
from assay.units import counted

_FARTHEST, _STEPS = 8.0, 801  # standard errors over which the largest error is averaged
_OPEN = 1e-12  # next to 0, which an open bound excludes
ERROR = 0.05  # of a ranking: that the best is not among those that may be, or that an interval does not hold
SCORED = "time_to_train"  # what MLPerf ranks by, whatever a benchmark's verdicts rest on
Basis = Literal["total", "accelerator"]


@dataclass(frozen=True)
class RankPosition:
    """A system's place in one order.

    place     from 1, by the mean
    behind    its value relative to that of the best other system, as slowness: 1.1 is 10 % worse, 0.9
              is 10 % better. The interval holds for all systems jointly; None without a spread
    may_lead  whether no other system is certainly better; None if its own runs show no spread, or if that is
              unknown because other systems are not ranked
    group     number of its group, from 1; None if its own runs show no spread
    """

    place: int
    behind: Estimate
    may_lead: bool | None
    group: int | None


@dataclass(frozen=True)
class RankedSystem:
    """One system at one size.

    value            mean with its own 95 % interval
    per_accelerator  a time multiplied by the accelerators, a rate or an amount divided by them
    total, each      its place among all, by `value` and by `per_accelerator`
    minutes          MLPerf's score by the rules of the round; None if there is none
    scaled_minutes   the same multiplied by the set's scaling factor; None if the set states none
    """

    name: str
    shape: str
    ranks: int
    accelerator: str
    value: Estimate
    per_accelerator: Estimate
    total: RankPosition
    each: RankPosition
    minutes: float | None = None
    scaled_minutes: float | None = None


@dataclass(frozen=True)
class UnrankedSystem:
    """A system at one size that has the metric but is not ranked.

    value   arithmetic mean, without an interval
    reason  as text
    """

    name: str
    shape: str
    value: Estimate
    reason: str


@dataclass(frozen=True)
class Ranking:
    """All systems that have a metric of a benchmark, at one set of labels, the best first.

    not_ranked  systems that have the metric but are not ranked; any of them may be the best
    doubts      because of which values of ranked systems are probably wrong
    error       probability, at most, that a system as good as the best is not among those that may be
    flattered   share by which the first's mean is too good on average, at most, because it was picked for it
    """

    benchmark: str
    metric: str
    unit: str
    better: Better
    labels: Mapping[str, Scalar]
    systems: tuple[RankedSystem, ...]
    not_ranked: tuple[UnrankedSystem, ...] = ()
    doubts: tuple[Doubt, ...] = ()
    error: float = ERROR
    flattered: float = 0.0

    def best(self, basis: Basis = "total") -> RankedSystem | None:
        """The first by the mean; None if some system is not ranked."""
        if self.not_ranked:
            return None
        return min(self.systems, key=lambda s: standing(s, basis).place)

    def may_lead(self, basis: Basis = "total") -> tuple[RankedSystem, ...]:
        """Those that may be the best, in order."""
        leading = [s for s in self.systems if standing(s, basis).may_lead]
        return tuple(sorted(leading, key=lambda s: standing(s, basis).place))


@dataclass(frozen=True)
class RankedCases:
    """A ranking with what it rests on: each system's value, and each pair of systems compared."""

    ranking: Ranking
    systems: tuple[Case, ...]
    pairs: tuple[Case, ...]


def standing(system: RankedSystem, basis: Basis) -> RankPosition:
    """The system's place by one of the two measures."""
    return system.total if basis == "total" else system.each


def rankings(
    sides: Mapping[str, Sequence[Result]], metrics: Metrics, metric: str | None = None
) -> tuple[RankedCases, ...]:
    """One ranking per benchmark that at least two systems have, by name.

    metric  overrides time to train, or each benchmark's first metric with a direction
    """
    entries_by_point: dict[tuple[str, str, str], list[tuple[str, Group]]] = {}
    for name, results in sides.items():
        for here in group(results, metrics).values():
            point = here.point
            if here.samples and point.better is not None:
                labels = repr(sorted(point.labels.items()))
                entries_by_point.setdefault((point.benchmark, point.metric, labels), []).append((name, here))
    chosen_metric: dict[str, str] = {}
    for benchmark, name, _ in entries_by_point:
        if metric is None and (benchmark not in chosen_metric or name == SCORED):
            chosen_metric[benchmark] = name
    benchmark_rankings = [
        _ranking(entries)
        for (benchmark, name, _), entries in entries_by_point.items()
        if len({side for side, _ in entries}) > 1 and name == (metric or chosen_metric[benchmark])
    ]
    return tuple(sorted(benchmark_rankings, key=lambda ranked: ranked.ranking.benchmark))


def _ranking(measured: Sequence[tuple[str, Group]]) -> RankedCases:
    point = measured[0][1].point
    entries = [(name, here) for name, here in measured if min(here.values) > 0]
    left_out = tuple(
        _not_ranked(name, here.in_unit(point.unit)) for name, here in measured if min(here.values) <= 0
    )
    groups = [here.in_unit(point.unit) for _, here in entries]
    ratios = {(a, b): ratio(groups[a], groups[b]) for a, b in combinations(range(len(groups)), 2)}
    sign = 1 if point.better == "lower" else -1
    # Log of slowness: for a rate or an amount, a higher value means less slowness.
    values = [one_side(here) for here in groups]
    pairs = _pairs(values, ratios, sign)
    ranks = [here.ranks for here in groups]
    slow = [sign * math.log(value.value) for value in values]
    whole = not left_out
    total = _standings(slow, pairs, whole=whole)
    cost = [math.log(n) for n in ranks]
    each = _standings([a + b for a, b in zip(slow, cost, strict=True)], _shifted(pairs, cost), whole=whole)
    systems = [
        RankedSystem(
            name,
            here.point.shape,
            ranks[index],
            _accelerator(here),
            values[index],
            _per_accelerator(values[index], ranks[index], sign),
            total[index],
            each[index],
            *_scores(here),
        )
        for index, (name, here) in enumerate(entries)
    ]
    assert point.better is not None
    ordered = tuple(sorted(systems, key=lambda system: system.total.place))
    sides = [
        Side(f"{name} ({here.point.shape})", here) for (name, _), here in zip(entries, groups, strict=True)
    ]
    ranking = Ranking(
        point.benchmark,
        point.metric,
        point.unit,
        point.better,
        point.labels,
        ordered,
        left_out,
        flattered=_flattered([groups[index] for index, position in enumerate(total) if position.may_lead]),
    )
    return RankedCases(
        ranking,
        tuple(Case((side,), value) for side, value in zip(sides, values, strict=True)),
        tuple(
            Case((sides[a], sides[b]), of_pair.estimate, DEFAULT_MARGIN) for (a, b), of_pair in ratios.items()
        ),
    )


def _flattered(leading: Sequence[Group]) -> float:
    """The expected maximum of the errors of these means, as a share."""
    errors = [error for here in leading if (error := one_mean(logs(here)).error)]
    if len(errors) < 2:
        return 0.0

    import numpy as np
    from scipy.special import ndtr

    x, step = np.linspace(-_FARTHEST, _FARTHEST, _STEPS, retstep=True)
    below = ndtr(x[:, None] * max(errors) / np.asarray(errors)).prod(axis=1)
    return math.expm1(max(errors) * float(step) * float(np.where(x > 0, 1 - below, -below).sum()))


def _not_ranked(name: str, here: Group) -> UnrankedSystem:
    low = sum(value <= 0 for value in here.values)
    reason = f"{low} of {counted(len(here.values), 'value')} {'is' if low == 1 else 'are'} not above 0"
    return UnrankedSystem(name, here.point.shape, one_side(here), reason)


class _Pair(NamedTuple):
    """How much slower B is than A: difference of logarithms, its standard error, degrees of freedom."""

    centre: float
    error: float
    degrees: float


Pairs = Mapping[tuple[int, int], _Pair]


def _pairs(values: Sequence[Estimate], ratios: Mapping[tuple[int, int], Ratio], sign: int) -> Pairs:
    """For each pair that both show a spread, in both directions."""
    pairs: dict[tuple[int, int], _Pair] = {}
    for (a, b), of_two in ratios.items():
        if values[a].low is None or values[b].low is None:
            continue
        interval = of_two.interval
        if interval.error is not None and interval.degrees is not None:
            pairs[a, b] = _Pair(sign * interval.centre, interval.error, interval.degrees)
            pairs[b, a] = _Pair(-sign * interval.centre, interval.error, interval.degrees)
    return pairs


def _shifted(pairs: Pairs, cost: Sequence[float]) -> Pairs:
    return {(a, b): pair._replace(centre=pair.centre + cost[b] - cost[a]) for (a, b), pair in pairs.items()}


def _standings(slow: Sequence[float], pairs: Pairs, *, whole: bool) -> list[RankPosition]:
    """The standings of all.

    whole  whether these are all systems; else none of them is known to be possibly the best
    """
    order = sorted(range(len(slow)), key=slow.__getitem__)
    place = {index: number for number, index in enumerate(order, start=1)}
    judged = [index for index in order if any(index == a for a, _ in pairs)]
    bounds = behind_the_best(judged, pairs)
    groups = apart(judged, pairs)
    return [
        RankPosition(
            place[index],
            _behind(index, order, slow, bounds.get(index)),
            _may_lead(bounds.get(index), whole=whole),
            groups.get(index),
        )
        for index in range(len(slow))
    ]


def _may_lead(bounds: tuple[float, float] | None, *, whole: bool) -> bool | None:
    if bounds is None:
        return None
    leads = bounds[0] <= 0
    return None if leads and not whole else leads


def _behind(
    index: int, order: Sequence[int], slow: Sequence[float], bounds: tuple[float, float] | None
) -> Estimate:
    rival = next((other for other in order if other != index), index)
    low, high = (None, None) if bounds is None else (ratio_end(bounds[0]), ratio_end(bounds[1]))
    return Estimate(math.exp(slow[index] - slow[rival]), low, high, 1, "", 1 - ERROR)


def behind_the_best(judged: Sequence[int], pairs: Pairs) -> dict[int, tuple[float, float]]:
    """How far each may be behind the best of the others, on the log scale; all hold jointly.

    Below 0 is ahead. A system whose lower bound is above 0 is certainly not the best, and one whose upper
    bound is below 0 certainly is; a bound of `_OPEN` says no more than that. What holds rests on the
    pairs with the true best, one of those that may lead; because it is unknown which one, the widest counts.
    """
    level = 1 - ERROR / (2 * max(1, len(judged) - 1))
    reach = {key: t_quantile(level, pair.degrees) * pair.error for key, pair in pairs.items()}
    rivals = {index: [b for b in judged if (index, b) in pairs] for index in judged}
    excluded = surely_not_the_best(judged, pairs)
    bounds = {}
    for index in judged:
        best = [b for b in rivals[index] if b not in excluded]
        most = max((reach[index, b] - pairs[index, b].centre for b in best), default=-_OPEN)
        least = min((-reach[index, b] - pairs[index, b].centre for b in best), default=0.0)
        ahead = min((pairs[index, b].centre + reach[index, b] for b in rivals[index]), default=0.0)
        low = max(_OPEN, least) if index in excluded else min(0.0, -ahead)
        bounds[index] = (low, max(low, most))
    return bounds


def surely_not_the_best(judged: Sequence[int], pairs: Pairs) -> set[int]:
    """The systems that another one is better than; in 95 % of cases none of them is as good as the best."""
    p = {
        index: min((_p_worse(pairs[index, b]) for b in judged if (index, b) in pairs), default=1.0)
        for index in judged
    }
    excluded: set[int] = set()
    for index in sorted(judged, key=p.__getitem__):
        left = len(judged) - len(excluded)
        if left == 1 or p[index] * (len(judged) - 1) > ERROR / left:
            break
        excluded.add(index)
    return excluded


def _p_worse(pair: _Pair) -> float:
    """One-sided p that the first of a pair is slower than the second."""
    from scipy.special import stdtr

    if pair.error == 0:
        return float(pair.centre >= 0)
    return float(stdtr(pair.degrees, pair.centre / pair.error))


def apart(judged: Sequence[int], pairs: Pairs) -> dict[int, int]:
    """The number of each system's group, from 1, going down the order."""
    level = 1 - ERROR / max(1, len(judged) * (len(judged) - 1))
    group_of: dict[int, int] = {}
    first, number = -1, 0
    for index in judged:
        pair = pairs.get((first, index))
        if pair is None or pair.centre > t_quantile(level, pair.degrees) * pair.error:
            first, number = index, number + 1
        group_of[index] = number
    return group_of


def _per_accelerator(value: Estimate, ranks: int, sign: int) -> Estimate:
    def over(figure: float | None) -> float | None:
        return None if figure is None else figure * ranks if sign == 1 else figure / ranks

    return Estimate(over(value.value) or 0.0, over(value.low), over(value.high), value.n, value.unit)


def _accelerator(here: Group) -> str:
    """The model that the system's description names; "" if none."""
    for sample in here.samples:
        for table in sample.result.provenance.nodes if sample.result.provenance else ():
            for fact in ("mlperf.accelerator_model_name", "gpu.0.name"):
                if isinstance(model := table.get(fact), str):
                    return model
    return ""


def _scores(here: Group) -> tuple[float | None, float | None]:
    """MLPerf's score of these runs in minutes, and the scaled one; only for imported training logs."""
    results = [*here.results, *here.left_out]
    runs = [r.reading.training for r in results if r.reading.training is not None]
    if here.point.metric != SCORED or not runs or len(runs) < len(results):
        return None, None
    tables = [table for r in results if r.provenance for table in r.provenance.nodes]
    factors = {table.get("mlperf.scaling_factor", 1.0) for table in tables}  # stored if it is not 1
    factor = factors.pop() if len(factors) == 1 else None
    of_set = score(runs, benchmark=runs[0].benchmark, round_=runs[0].round, scaling_factor=None)
    minutes = of_set.minutes or of_set.official
    scaled = minutes * factor if minutes is not None and isinstance(factor, float) else None
    return minutes, scaled
