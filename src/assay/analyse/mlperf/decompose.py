"""The time to train of B relative to A, split into the luck of convergence and the speed of the system.

The verdict is only about the system factor: how many epochs a run needs depends on the seed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from assay.analyse.comparison.verdict import Lost, decide
from assay.analyse.mlperf.likeness import Likeness, likeness
from assay.analyse.mlperf.lmdi import Factor, Factors, factors, log_mean, mean_run
from assay.analyse.mlperf.training_sets import (
    TrainingSet,
    by_benchmark,
    common_unit,
    replicates,
    sessions,
    trained,
    training_set,
)
from assay.analyse.points.encounters import lost_to_others
from assay.analyse.points.groups import Place, Sample, place_of
from assay.analyse.points.ratio import looked_at
from assay.analyse.points.replication import pairing
from assay.records import Estimate, Result, Verdict
from assay.units import counted, significant

_CAUSES: Final = {
    "length": "{unit} to the target",
    "evaluations": "number of evaluations",
    "start": "start",
    "training": "training time per {unit_one}",
    "evaluation": "time per evaluation",
    "rest": "rest",
}


@dataclass(frozen=True)
class TimeCause:
    """One step on the way from A's mean minutes to B's: what it adds, and the corresponding factor."""

    name: str
    factor_of: Factor
    minutes: float
    factor: float


@dataclass(frozen=True)
class Decomposition:
    """Time to train of B relative to A for one benchmark: time = convergence × system, up to rounding.

    time, convergence   None if runs didn't converge: their times are not times to train
    system              minutes per epoch or sample, including everything that comes with it
    undecided           why convergence has no interval, as text; "" if it has one
    grid                range of the convergence factor that the evaluation grid allows
    causes              from A's mean minutes to B's, adding up; empty if runs didn't converge
    verdict             on the system factor: `faster` is less time; `reason` explains it
    replication         what n of the intervals are
    """

    benchmark: str
    a: TrainingSet
    b: TrainingSet
    time: Estimate | None
    convergence: Estimate | None
    system: Estimate
    undecided: str
    grid: tuple[float, float] | None
    causes: tuple[TimeCause, ...]
    margin: float
    verdict: Verdict
    reason: str
    replication: str
    likeness: Likeness


@dataclass(frozen=True)
class UndecomposedBenchmark:
    """A benchmark that both sides trained and that can't be split, and why."""

    benchmark: str
    why: str


def decompose(
    a: Sequence[Result], b: Sequence[Result], *, margin: float, names: tuple[str, str]
) -> tuple[tuple[Decomposition, ...], tuple[UndecomposedBenchmark, ...]]:
    """The split at every point that both sides trained; sizes may differ if each side has only one.

    margin  share that counts as equal
    names   of A and B, as they are shown
    """
    decompositions: list[Decomposition] = []
    undecomposed: list[UndecomposedBenchmark] = []
    for benchmark, side_a, side_b in _pairs(trained(a), trained(b)):
        unit = common_unit([*side_a, *side_b])
        if unit is None:
            why = "the logs don't state how many epochs or samples every run trained"
            undecomposed.append(UndecomposedBenchmark(benchmark, why))
            continue
        design = pairing(_samples(side_a), _samples(side_b))
        if design is not None:
            side_a, side_b = ([pair[side].result for pair in design.pairs] for side in (0, 1))
            if not design.pairs:
                undecomposed.append(
                    UndecomposedBenchmark(benchmark, "no block contains a training of both sides")
                )
                continue
        by_session = min(sessions(side_a), sessions(side_b)) > 1
        confidence = 0.95
        if not by_session:  # the number of sessions was not determined by looking
            looked = looked_at((_samples(side_a), _samples(side_b)), paired=design is not None)
            confidence = max(confidence, looked)
        counted = tuple(replicates(side, unit, by_session=by_session) for side in (side_a, side_b))
        split = factors(
            *counted,
            paired=design is not None,
            confidence=confidence,
        )
        sets = (
            replace(training_set(names[0], side_a, unit), mean=mean_run(counted[0])),
            replace(training_set(names[1], side_b, unit), mean=mean_run(counted[1])),
        )
        alike = likeness(side_a, side_b, names=names, unit=unit)
        lost = lost_to_others(side_a, margin), lost_to_others(side_b, margin)
        decompositions.append(
            _decomposition(benchmark, sets, split, margin, alike, lost, by_session=by_session)
        )
    return tuple(decompositions), tuple(undecomposed)


def _samples(results: Sequence[Result]) -> list[Sample]:
    """Runs as the units of blocks, whatever value they gave."""
    return [Sample(result, 1.0) for result in results]


def _pairs(a: Sequence[Result], b: Sequence[Result]) -> Iterator[tuple[str, list[Result], list[Result]]]:
    """Runs of both sides at the same point; a benchmark with one point per side is paired at any size."""
    in_b = by_benchmark(b)
    for benchmark, side_a in by_benchmark(a).items():
        points_a, points_b = _by_place(side_a), _by_place(in_b.get(benchmark, []))
        if len(points_a) == len(points_b) == 1:
            yield benchmark, side_a, in_b[benchmark]
            continue
        for place, runs in points_a.items():
            if place in points_b:
                yield benchmark, runs, points_b[place]


def _by_place(results: Sequence[Result]) -> dict[Place, list[Result]]:
    by_place: dict[Place, list[Result]] = {}
    for result in results:
        by_place.setdefault(place_of(result.run), []).append(result)
    return by_place


def _decomposition(
    benchmark: str,
    sets: tuple[TrainingSet, TrainingSet],
    split: Factors,
    margin: float,
    alike: Likeness,
    lost: Lost,
    *,
    by_session: bool,
) -> Decomposition:
    a, b = sets
    censored = _censored(sets)
    tied = a.tied and b.tied
    verdict, reason = _verdict(split, margin, alike, lost)
    convergence = split.convergence.estimate("", split.confidence)
    if tied:
        convergence = replace(convergence, low=None, high=None)
    return Decomposition(
        benchmark=benchmark,
        a=a,
        b=b,
        time=None if censored else split.time.estimate("", split.confidence),
        convergence=None if censored else convergence,
        system=split.system.estimate("", split.confidence),
        undecided=censored or (_on_grid(sets) if tied else split.convergence.why),
        grid=None if censored else _grid_range(sets, split),
        causes=() if censored else _causes(split, a),
        margin=margin,
        verdict=verdict,
        reason=reason,
        replication="sessions" if by_session else "runs",
        likeness=alike,
    )


def _verdict(split: Factors, margin: float, alike: Likeness, lost: Lost) -> tuple[Verdict, str]:
    """The verdict on the system factor, if it compares the systems at all."""
    if alike.stands == "none":
        return "undecided", alike.claim
    if split.system.why:
        return "undecided", f"{split.system.why}: no interval"
    return decide(split.system.estimate("", split.confidence), margin, "lower", lost)


def _censored(sets: Sequence[TrainingSet]) -> str:
    """Which runs didn't reach the target: how far they would have had to train is unknown."""
    not_converged = [
        f"{s.runs - s.converged} of {counted(s.runs, 'run')} of {s.name}"
        for s in sets
        if s.converged < s.runs
    ]
    return (
        f"{' and '.join(not_converged)} did not converge: only a lower bound of the length is known"
        if not_converged
        else ""
    )


def _on_grid(sets: Sequence[TrainingSet]) -> str:
    stops = ", ".join(f"{s.name} at {s.mean.length:g} {s.unit}{_grid_words(s)}" for s in sets)
    return f"all runs of a side stopped at the same evaluation: {stops}"


def _grid_words(s: TrainingSet) -> str:
    return (
        ""
        if s.grid is None
        else f" of a grid of {s.grid:g} ({significant(s.grid / s.mean.length * 100, 2)} %)"
    )


def _grid_range(sets: tuple[TrainingSet, TrainingSet], split: Factors) -> tuple[float, float] | None:
    """The convergence factors compatible with the evaluations at which tied runs stopped.

    Runs that all stop at one evaluation reached the target any time since the previous one.
    """
    a, b = sets
    if not (a.tied or b.tied):
        return None
    least = [s.mean.length - (s.grid or 0.0) if s.tied else s.mean.length for s in sets]
    if min(least) <= 0:  # the only evaluation: the time is unknown
        return None
    weight = _length_weight(split, a, b)
    centre = split.parts.log_of("convergence")
    low = centre + weight * math.log(least[1] / b.mean.length)
    high = centre - weight * math.log(least[0] / a.mean.length)
    return math.exp(low), math.exp(high)


def _length_weight(split: Factors, a: TrainingSet, b: TrainingSet) -> float:
    """Share of the time that is proportional to the length: w_P."""
    return log_mean(b.mean.training, a.mean.training) / split.parts.mean_minutes


def _causes(split: Factors, a: TrainingSet) -> tuple[TimeCause, ...]:
    units = {"unit": a.unit, "unit_one": a.unit[:-1]}
    return tuple(
        TimeCause(
            _CAUSES[part.name].format(**units),
            part.factor,
            part.minutes,
            math.exp(part.minutes / split.parts.mean_minutes),
        )
        for part in split.parts.parts
    )
