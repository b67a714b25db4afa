"""Absolute requirements checked against runs: an acceptance test with a one-sided verdict.

For runs with interim looks, the interval is the plan's repeated one: each of its ends is a
bound that holds at all looks jointly, in 97.5 % of cases and so in more than the promised 95 %.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import stdev
from typing import Literal

from assay.analyse.comparison.verdict import MOST_LOST
from assay.analyse.points import encounters
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import Group, Metrics, group, place_of
from assay.analyse.points.ratio import logs, looks_of, one_side
from assay.analyse.statistics import intervals
from assay.analyse.statistics.sequential import allowance
from assay.records import DEFAULT_MARGIN, Estimate, Expectation, Point, Requirement, Result
from assay.units import convert, human, percent, significant

CONFIDENCE = 0.9  # at least: two-sided, so that each end is a one-sided 95 % bound
FEWEST_BEYOND = 10  # requests above a percentile, on average
UNEQUAL_REQUESTS = 1.5  # times as many on one side: the percentiles are then off by different shares


@dataclass(frozen=True)
class CheckedRequirement:
    """A requirement's verdict with what it rests on.

    case        the runs at the point; None if there are none
    may_change  whether the time that others may have taken from the runs could change the verdict
    """

    requirement: Requirement
    case: Case | None
    may_change: bool = True


def check(
    results: Sequence[Result], expectations: Mapping[str, Sequence[Expectation]], *, metrics: Metrics
) -> tuple[CheckedRequirement, ...]:
    """One verdict per system, requirement and point of the sweep that ran.

    expectations  by benchmark, each in a unit of the metric's kind
    metrics       what a run's workload declares

    A point whose runs all failed, or don't report the metric, is `undecided`, not omitted.
    Raises ValueError if a requirement's unit can't be that of its metric (a plan rejects such a unit).
    """
    by_system: dict[str, list[Result]] = {}
    for result in results:
        if result.run.state.final:
            by_system.setdefault(result.run.trial.system, []).append(result)
    return tuple(
        requirement
        for system in sorted(by_system)
        for requirement in _of_system(system, by_system[system], expectations, metrics)
    )


def _of_system(
    system: str,
    results: Sequence[Result],
    expectations: Mapping[str, Sequence[Expectation]],
    metrics: Metrics,
) -> Iterator[CheckedRequirement]:
    groups = group(results, metrics)
    places = {place_of(result.run): result.run for result in results}
    for benchmark, required in expectations.items():
        for expectation in required:
            here = {
                key: point_group
                for key, point_group in groups.items()
                if (key.place.benchmark, key.metric) == (benchmark, expectation.metric)
            }
            yield from (_checked(system, point_group, expectation) for point_group in here.values())
            measured = {key.place for key in here}
            for place, run in places.items():
                if place.benchmark == benchmark and place not in measured:
                    point = Point(
                        benchmark, place.shape, expectation.metric, expectation.unit, None, run.trial.varied
                    )
                    why = f"no run that counts reports {expectation.metric}"
                    yield CheckedRequirement(
                        Requirement(system, point, expectation, None, "undecided", why), None
                    )


def _checked(system: str, runs: Group, expectation: Expectation) -> CheckedRequirement:
    estimate, why = _estimate(runs)
    needed = convert(expectation.value, expectation.unit, runs.point.unit)
    case = Case((Side(system, runs),), estimate)
    lost = encounters.lost_to_others(runs.results, DEFAULT_MARGIN)
    verdict, reason = decide(estimate, expectation.relation, needed, lost)
    if looks := looks_of(runs.samples):
        reason += f" ({allowance(estimate.confidence, looks)})"
    if too_few := few_beyond(case):
        verdict, reason = "undecided", too_few
    requirement = Requirement(system, runs.point, expectation, estimate, verdict, why or reason)
    may_change = verdict == "undecided" or _may_change(runs, estimate, expectation.relation, needed)
    return CheckedRequirement(requirement, case, may_change)


def few_beyond(case: Case) -> str | None:
    """A percentile with fewer than ten requests beyond it; in a comparison, if the sides' numbers differ."""
    percentile = case.sides[0].group.point.labels.get("percentile")
    if not isinstance(percentile, int | float):
        return None
    counts = {
        side.name: min((_answered(sample.result) for sample in side.group.samples), default=0)
        for side in case.sides
    }
    most, (fewest, name) = max(counts.values()), min((count, name) for name, count in counts.items())
    share = min(percentile, 100 - percentile) / 100
    if not fewest or round(fewest * share, 9) >= FEWEST_BEYOND:
        return None
    if len(counts) > 1 and most < UNEQUAL_REQUESTS * fewest:
        return None
    requests = "1 request" if fewest == 1 else f"{fewest} requests"
    whose = f" of {name}" if len(counts) > 1 else ""
    return (
        f"percentile {percentile:g} of {requests} in a run{whose}: "
        f"{significant(fewest * share, 2)} of them beyond it, "
        f"{FEWEST_BEYOND} take {math.ceil(round(FEWEST_BEYOND / share, 6))} requests"
    )


def _answered(result: Result) -> int:
    """Requests behind the run's percentiles; 0 if not stated."""
    sent, failed = (result.reading.facts.get(name) for name in ("requests", "failed_requests"))
    return sent - failed if isinstance(sent, int) and isinstance(failed, int) else 0


def _may_change(measured: Group, estimate: Estimate, relation: Literal[">=", "<="], needed: float) -> bool:
    """Whether a verdict may be another one without the time that the runs may have lost to others.

    Each run may be off by up to its own loss. That moves the mean by at most the mean loss, and as much of
    the spread as the losses can explain may be due to them. Either may move a bound in either direction: a
    metric may get better or worse by a loss.
    """
    low, high = estimate.low, estimate.high
    shares = encounters.lost_by_run(measured.results)
    if low is None or high is None or any(share is None or share > MOST_LOST for share in shares):
        return True
    spread = stdev(logs(measured))
    if spread == 0:  # equal figures don't say how the bounds depend on a spread
        return True
    lost = [-math.log1p(-(share or 0.0)) for share in shares]
    per_spread = math.log(high / low) / 2 / spread
    by_loss = math.sqrt(math.fsum(loss**2 for loss in lost) / (len(lost) - 1))
    off = math.exp(math.fsum(lost) / len(lost) + per_spread * by_loss)
    alone = replace(estimate, low=low / off, high=high * off)
    return decide(alone, relation, needed)[0] != decide(estimate, relation, needed)[0]


def decide(
    estimate: Estimate, relation: Literal[">=", "<="], needed: float, lost: float = 0.0
) -> tuple[Literal["holds", "fails", "undecided"], str]:
    """Whether the requirement holds by the one-sided bounds at the interval's ends, and why, as text.

    needed  in the estimate's unit
    lost    share of their time that the runs may have lost to others: a requirement that they do not meet
            next to others fails only if they would not meet it alone
    """
    low, high, unit = estimate.low, estimate.high, estimate.unit
    if low is None or high is None:
        return "undecided", "there is no bound"
    requirement = f"{relation} {human(needed, unit)}"
    sign = 1 if relation == ">=" else -1
    safe, hopeful = (low, high) if relation == ">=" else (high, low)
    if sign * (safe - needed) >= 0:
        return "holds", f"the 95 % bound {human(safe, unit)} is {requirement}"
    if sign * (hopeful - needed) < 0 and lost:
        alone = hopeful / (1 - lost) ** sign if lost <= MOST_LOST else None
        if alone is None or sign * (alone - needed) >= 0:
            taken = (
                f"these runs may have waited for {percent(lost)} of the time because others used their CPUs"
            )
            return (
                "undecided",
                f"{human(hopeful, unit)} is not {requirement}, but {taken}: run again on an idle machine",
            )
    if sign * (hopeful - needed) < 0:
        return "fails", f"even the favorable 95 % bound {human(hopeful, unit)} is not {requirement}"
    between = f"{human(low, unit)} and {human(high, unit)}"
    return "undecided", f"{human(needed, unit)} is between the 95 % bounds {between}: new runs"


def _estimate(measured: Group) -> tuple[Estimate, str]:
    """Geometric mean with its bounds, or the reason why there are none."""
    estimate = one_side(measured, CONFIDENCE)
    if min(measured.values) <= 0:
        return estimate, "a value is not above 0: no bound"
    return estimate, f"{why}: no bound" if (why := intervals.one_mean(logs(measured)).why) else ""
