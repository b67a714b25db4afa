"""Whether a set converges as its references do: epochs to the target, compared at the same batch size.

A set far faster than its references may train something else (a leak of the evaluation data, an easier
target); a slower one has a worse recipe, or a numerical fault. The interval contains the mean of this many
runs if they converge like the references; between two batch sizes it is interpolated, beyond the largest
there is none. Runs stop only at evaluations: no spread is taken to be smaller than that grid allows, and
if all runs of a side stopped at the same evaluation, each may have reached the target any time since the
previous one.

Source: MLPerf training rules, "Reference Convergence Points", in spirit; the interval is the ordinary
prediction interval of a mean. Its false alarms are simulated in tests/analyse/mlperf/test_convergence.py.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from assay.analyse.mlperf.likeness import Unit
from assay.analyse.mlperf.training_sets import (
    TrainingSet,
    by_benchmark,
    common_unit,
    phases_of,
    trained,
    training_set,
)
from assay.analyse.statistics.intervals import t_quantile
from assay.records import Estimate, Result
from assay.units import counted, significant

FEWEST: Final = 3  # reference runs needed for a meaningful spread
Speed = Literal["as the references", "suspiciously fast", "slow", "unknown"]


@dataclass(frozen=True)
class ReferenceConvergence:
    """Converged runs at one batch size.

    std     no smaller than the evaluation grid allows
    hidden  step of the grid if all stopped at the same evaluation; else 0
    """

    batch_size: int
    runs: int
    mean: float
    std: float
    hidden: float


@dataclass(frozen=True)
class Convergence:
    """How far a set's runs trained, compared with the references.

    expected  mean length of the references at that batch size, with the 95 % interval for the mean of this
              many runs; None if there is none
    at        batch sizes of the references used: one, or the two that it was interpolated between
    speed     `unknown` if it can't be determined; `reason` explains it, as text
    """

    name: str
    benchmark: str
    batch_size: int | None
    unit: Unit | None
    runs: int
    mean: float | None
    expected: Estimate | None
    at: tuple[int, ...]
    speed: Speed
    reason: str


def against_references(
    name: str, results: Sequence[Result], references: Sequence[Result]
) -> tuple[Convergence, ...]:
    """Each benchmark and batch size of a side compared with the references of the same benchmark.

    name        of the side, as it is shown
    references  runs of all sets that the user calls references, of any batch sizes
    """
    known = by_benchmark(trained(references))
    convergences = []
    for benchmark, runs in by_benchmark(trained(results)).items():
        for batch_size, at_size in _by_batch_size(runs).items():
            convergences.append(_one(name, benchmark, batch_size, at_size, known.get(benchmark, [])))
    return tuple(convergences)


def _one(
    name: str, benchmark: str, batch_size: int | None, runs: Sequence[Result], known: Sequence[Result]
) -> Convergence:
    unit = common_unit([*runs, *known])

    def unknown(why: str, mean: float | None = None) -> Convergence:
        return Convergence(name, benchmark, batch_size, unit, len(runs), mean, None, (), "unknown", why)

    if not known:
        return unknown(f"no reference trained {benchmark}")
    if unit is None:
        return unknown("the logs don't state how far every run trained")
    if batch_size is None:
        return unknown("the logs don't state one batch size")
    own = training_set(name, runs, unit)
    if own.converged < own.runs:
        return unknown(f"{own.runs - own.converged} of {counted(own.runs, 'run')} did not converge")
    mean = own.mean.length
    references = _references(known, unit)
    near = _nearest(batch_size, references)
    if not near:
        sizes = ", ".join(str(r.batch_size) for r in references) or "none with three converged runs"
        return unknown(
            f"no reference at or on both sides of batch size {batch_size} (available: {sizes})", mean
        )
    expected = _expected(batch_size, near, own)
    batch_sizes = tuple(r.batch_size for r in near)
    speed, reason = _judged(mean, expected, unit)
    return Convergence(
        name, benchmark, batch_size, unit, len(runs), mean, expected, batch_sizes, speed, reason
    )


def _by_batch_size(runs: Sequence[Result]) -> dict[int | None, list[Result]]:
    runs_by_size: dict[int | None, list[Result]] = {}
    for result in runs:
        runs_by_size.setdefault(phases_of(result)[0].global_batch_size, []).append(result)
    return runs_by_size


def _references(known: Sequence[Result], unit: Unit) -> list[ReferenceConvergence]:
    """One per batch size, smallest first; only converged runs show how far they trained."""
    references = []
    for batch_size, runs in _by_batch_size(known).items():
        converged = [r for r in runs if phases_of(r)[0].status == "success"]
        if batch_size is None or len(converged) < FEWEST:
            continue
        of_set = training_set("", converged, unit)
        lengths = [length for r in converged if (length := _length(r, unit)) is not None]
        mean = of_set.mean.length
        variance = math.fsum((x - mean) ** 2 for x in lengths) / (len(lengths) - 1)
        std = max(math.sqrt(variance), _rounding(of_set))
        references.append(ReferenceConvergence(batch_size, len(lengths), mean, std, _hidden(of_set)))
    return sorted(references, key=lambda r: r.batch_size)


def _length(result: Result, unit: Unit) -> float | None:
    _, phases = phases_of(result)
    return phases.epochs if unit == "epochs" else phases.samples


def _rounding(of_set: TrainingSet) -> float:
    """Standard deviation of what a grid hides: anything within a step is equally likely."""
    return (of_set.grid or 0.0) / math.sqrt(12)


def _hidden(of_set: TrainingSet) -> float:
    return of_set.grid or 0.0 if of_set.tied else 0.0


def _nearest(batch_size: int, references: Sequence[ReferenceConvergence]) -> list[ReferenceConvergence]:
    """The reference at that size, else the next smaller and the next larger; none beyond them."""
    exact = [r for r in references if r.batch_size == batch_size]
    if exact:
        return exact
    below = [r for r in references if r.batch_size < batch_size]
    above = [r for r in references if r.batch_size > batch_size]
    return [below[-1], above[0]] if below and above else []


def _expected(batch_size: int, near: Sequence[ReferenceConvergence], own: TrainingSet) -> Estimate:
    """Prediction interval of the mean of this many runs, widened by what tied runs hide."""
    first, last = near[0], near[-1]
    share = 0.0 if first is last else (batch_size - first.batch_size) / (last.batch_size - first.batch_size)
    mean = first.mean + share * (last.mean - first.mean)
    spread = max(first.std, last.std, _rounding(own))
    runs = min(r.runs for r in near)
    half = t_quantile(0.975, runs - 1) * spread * math.sqrt(1 / runs + 1 / own.runs)
    low, high = mean - half - max(r.hidden for r in near), mean + half + _hidden(own)
    return Estimate(mean, low, high, runs, own.unit)


def _judged(mean: float, expected: Estimate, unit: Unit) -> tuple[Speed, str]:
    low, high = expected.low or 0.0, expected.high or 0.0
    range_of_references = f"{significant(low, 4)} to {significant(high, 4)}"
    where = f"{significant(mean, 4)} {unit}, and the references predict {range_of_references}"
    if mean < low:
        return "suspiciously fast", f"{where}: check the target, the evaluation data and the recipe"
    if mean > high:
        return "slow", f"{where}: check the recipe and the numerics"
    return "as the references", where
