"""The training runs of one side: how far they trained, how fast, and where the time went."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assay.analyse.mlperf.likeness import Unit
from assay.analyse.mlperf.lmdi import Amounts, mean_run
from assay.analyse.statistics.intervals import ROUNDING, one_mean
from assay.records import Estimate, Result, TrainingPhases, TrainingRun

Replicate = tuple[str, str]
_Trained = tuple[TrainingRun, TrainingPhases]


@dataclass(frozen=True)
class TrainingSet:
    """One benchmark's runs on one side.

    shape            workers × accelerators
    runs, converged  that reached their run_stop, and those of them that reached the target
    unit             in which lengths are counted
    minutes          to train: geometric mean of the runs, = length × minutes_per_unit exactly
    length           to the target, in `unit`
    minutes_per_unit including start, evaluation and rest
    mean             each phase in minutes, evaluations and length: arithmetic means per run
    overlap_minutes  of evaluation in open epochs, counted once in training or evaluation
    init_minutes     before run_start, outside all of the above
    grid             step between the last two evaluations in `unit`: the resolution of a length
    tied             all runs stopped at the same point of that grid
    notes            decisions where the logs are ambiguous

    minutes and length are None if a run didn't converge: its time is not a time to train.
    """

    name: str
    shape: str
    runs: int
    converged: int
    unit: Unit
    minutes: Estimate | None
    length: Estimate | None
    minutes_per_unit: Estimate
    mean: Amounts
    overlap_minutes: float
    init_minutes: float | None
    grid: float | None
    tied: bool
    notes: tuple[str, ...]


def trained(results: Sequence[Result]) -> list[Result]:
    """Those that trained to a run_stop: results, and runs whose only fault is that they didn't converge."""
    return [
        r
        for r in results
        if (run := r.reading.training) is not None
        and run.phases is not None
        and (r.counts if run.status == "success" else run.status == "aborted")
        and run.phases.minutes > 0
    ]


def phases_of(result: Result) -> tuple[TrainingRun, TrainingPhases]:
    """The phases of a run from `trained`."""
    run = result.reading.training
    if run is None or run.phases is None:
        raise ValueError(f"{result.run.id} has no training phases")
    return run, run.phases


def common_unit(results: Sequence[Result]) -> Unit | None:
    """Epochs if all runs state them, because a sample differs between logs; else samples; else None."""
    return _common_unit([phases_of(r)[1] for r in results])


def _common_unit(phases: Sequence[TrainingPhases]) -> Unit | None:
    if all(p.epochs for p in phases):
        return "epochs"
    return "samples" if all(p.samples for p in phases) else None


def amounts(result: Result, unit: Unit) -> Amounts:
    """What one run took; for one that didn't converge, up to its last evaluation."""
    return _amounts(*phases_of(result), unit)


def _amounts(run: TrainingRun, p: TrainingPhases, unit: Unit) -> Amounts:
    length = p.epochs if unit == "epochs" else p.samples
    after = 0.0 if run.status == "success" else p.after_minutes
    return Amounts(
        length or 0.0,
        p.evaluations,
        p.start_minutes,
        p.training_minutes,
        p.evaluation_minutes,
        p.rest_minutes - after,
    )


def replicates(results: Sequence[Result], unit: Unit, *, by_session: bool) -> list[Amounts]:
    """One per run, or the mean run of each session, in the order of their first occurrence."""
    gathered: dict[Replicate, list[Amounts]] = {}
    for index, r in enumerate(results):
        key = (r.run.suite, r.run.session) if by_session else ("", str(index))
        gathered.setdefault(key, []).append(amounts(r, unit))
    return [mean_run(of_replicate) for of_replicate in gathered.values()]


def sessions(results: Sequence[Result]) -> int:
    """The number of sessions that the runs come from."""
    return len({(r.run.suite, r.run.session) for r in results})


def training_set(name: str, results: Sequence[Result], unit: Unit) -> TrainingSet:
    """What a side's runs of one benchmark took; `results` from `trained`, at least one."""
    shapes = dict.fromkeys(str(r.run.trial.shape) for r in results)
    return _training_set(name, ", ".join(shapes), [phases_of(r) for r in results], unit)


def set_of_runs(name: str, runs: Sequence[TrainingRun]) -> TrainingSet | None:
    """The same for runs that were only read; None if none reached its run_stop or stated its length."""
    trained_runs = [(run, run.phases) for run in runs if run.phases is not None and run.phases.minutes > 0]
    unit = _common_unit([p for _, p in trained_runs])
    return _training_set(name, "", trained_runs, unit) if trained_runs and unit is not None else None


def _training_set(name: str, shape: str, trained_runs: Sequence[_Trained], unit: Unit) -> TrainingSet:
    each = [_amounts(run, p, unit) for run, p in trained_runs]
    converged = sum(run.status == "success" for run, _ in trained_runs)
    all_converged = converged == len(trained_runs)
    inits = [run.init_minutes for run, _ in trained_runs if run.init_minutes is not None]
    return TrainingSet(
        name=name,
        shape=shape,
        runs=len(trained_runs),
        converged=converged,
        unit=unit,
        minutes=_geometric([a.minutes for a in each], "min") if all_converged else None,
        length=_geometric([a.length for a in each], unit) if all_converged else None,
        minutes_per_unit=_geometric([a.minutes / a.length for a in each], f"min/{unit[:-1]}"),
        mean=mean_run(each),
        overlap_minutes=math.fsum(p.overlap_minutes for _, p in trained_runs) / len(trained_runs),
        init_minutes=math.fsum(inits) / len(inits) if inits else None,
        grid=max(
            (
                step
                for run_and_phases in trained_runs
                if (step := _grid_step(*run_and_phases, unit)) is not None
            ),
            default=None,
        ),
        tied=max(a.length for a in each) - min(a.length for a in each) < ROUNDING * each[0].length,
        notes=_noted(trained_runs),
    )


def _geometric(values: Sequence[float], unit: str) -> Estimate:
    return one_mean([math.log(value) for value in values]).estimate(unit)


def _grid_step(run: TrainingRun, p: TrainingPhases, unit: Unit) -> float | None:
    """From the last evaluation but one, or the start, to the one that ended the run."""
    places = sorted({place for place, _ in run.evaluations})
    if not places:
        return None
    in_epochs = p.epochs is not None  # evaluations are in epochs wherever these are known
    if in_epochs and unit == "samples":
        return None
    return places[-1] - (places[-2] if len(places) > 1 else 0.0)


def _noted(trained_runs: Sequence[_Trained]) -> tuple[str, ...]:
    """What the logs' readers decided, each once, with the number of runs concerned if not all."""
    notes: dict[str, int] = {}
    for run, p in trained_runs:
        for note in (*run.notes, *p.notes):
            notes[note] = notes.get(note, 0) + 1
    return tuple(
        note if n == len(trained_runs) else f"{note} (in {n} of {len(trained_runs)} runs)"
        for note, n in notes.items()
    )


def by_benchmark(results: Sequence[Result]) -> Mapping[str, list[Result]]:
    """Results by benchmark, in the order of their first occurrence."""
    runs_by_benchmark: dict[str, list[Result]] = {}
    for result in results:
        runs_by_benchmark.setdefault(result.run.trial.benchmark, []).append(result)
    return runs_by_benchmark
