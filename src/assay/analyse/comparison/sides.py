"""Which runs are compared with which, and on which metric: decided here for every caller.

`assay compare`, `assay gate`, `assay report` and a run until decided take their sides, their baseline and
their primary metrics from here, so that they can't disagree about the same runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from assay.analyse.points.groups import Metrics, cause
from assay.errors import InputError
from assay.records import Comparison, Metric, Result, Run, Shape
from assay.units import counted

MOST_PAIRED = 4  # systems that are compared pair by pair; with more, a ranking is shorter and clearer
Runs = Sequence[Result]


@dataclass(frozen=True)
class SidePair:
    """Two sides: `b` is compared with `a`, under these names."""

    a: Runs
    b: Runs
    names: tuple[str, str]


@dataclass(frozen=True)
class OpenQuestion:
    """A benchmark that two sides ran, without a comparison of the metric that the verdict rests on.

    reason  why its primary metric is not compared, as text
    """

    benchmark: str
    metric: str
    a: str
    b: str
    reason: str

    def __str__(self) -> str:
        return f"{self.benchmark}, {self.b} and {self.a}: not compared: {self.reason}"


def baseline_of(systems: Iterable[str], stated: str | None) -> str:
    """The system that the others are compared with: the stated one if it is among them, else the first."""
    known = list(systems)
    return stated if stated in known else known[0]


def are_ranked(systems: Collection[str], stated: str | None) -> bool:
    """Whether there are too many sides for a baseline that nobody stated."""
    return len(systems) > MOST_PAIRED and stated not in systems


def against(sides: Mapping[str, Runs], baseline: str) -> list[SidePair]:
    """Each other side with the baseline."""
    return [
        SidePair(sides[baseline], runs, (baseline, name)) for name, runs in sides.items() if name != baseline
    ]


def between(a: str, of_a: Mapping[str, Runs], b: str, of_b: Mapping[str, Runs]) -> list[SidePair]:
    """The sides that two references name, system by system; single systems may have different names.

    a, b        the references, as written
    of_a, of_b  the runs of each of their systems

    Raises InputError if they contain different systems.
    """
    if len(of_a) == len(of_b) == 1:
        (name_a, side_a), (name_b, side_b) = *of_a.items(), *of_b.items()
        return [SidePair(side_a, side_b, (name_a, name_b) if name_a != name_b else (a, b))]
    if of_a.keys() == of_b.keys():
        return [SidePair(of_a[system], of_b[system], (f"{a}:{system}", f"{b}:{system}")) for system in of_a]
    several, systems = (a, list(of_a)) if len(of_a) > 1 else (b, list(of_b))
    raise InputError(
        f"{several} contains the systems {', '.join(systems)}: name one of them, like {several}:{systems[0]}"
    )


def layouts(reference: str, system: str, runs: Runs) -> list[SidePair]:
    """Each pair of shapes of one system with the same number of accelerators, fewer workers first: 2x8, 16x1.

    Raises InputError if there are no two such shapes.
    """
    by_shape: dict[Shape, list[Result]] = {}
    for result in runs:
        by_shape.setdefault(result.run.trial.shape, []).append(result)
    ordered = sorted(by_shape, key=lambda shape: (shape.ranks, shape.workers))
    alike = [(a, b) for a, b in combinations(ordered, 2) if a.ranks == b.ranks]
    if not alike:
        shapes = ", ".join(map(str, ordered))
        raise InputError(f"{reference}: no two of its shapes have the same number of accelerators: {shapes}")
    return [SidePair(by_shape[a], by_shape[b], (system, system)) for a, b in alike]


def led_by(stated: Mapping[str, str], metrics: Metrics) -> Metrics:
    """The same declarations, with the metric that a suite states as primary of a benchmark first.

    stated  benchmark → metric
    """

    def declared(run: Run) -> Mapping[str, Metric]:
        table = metrics(run)
        first = stated.get(run.trial.benchmark)
        return table if first is None or first not in table else {first: table[first], **table}

    return declared


def primary_metrics(
    runs: Iterable[Result], metrics: Metrics, stated: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Benchmark → the metric that its verdict rests on, whichever of the sides measured it.

    It is the stated one, else the first that the workload declares, else the first by name, among those that
    any run measured. A stated one is kept even if nothing of its benchmark was measured.
    """
    first = dict(stated or {})
    measured: dict[str, set[str]] = {}
    rank: dict[tuple[str, str], int] = {}
    known: set[tuple[str, str]] = set()
    for result in (r for r in runs if r.counts):
        trial = result.run.trial
        measured.setdefault(trial.benchmark, set()).update(m.metric for m in result.reading.measurements)
        if (trial.benchmark, trial.digest) not in known:
            known.add((trial.benchmark, trial.digest))
            rank |= {(trial.benchmark, name): position for position, name in enumerate(metrics(result.run))}
    for benchmark, names in measured.items():
        if names and first.get(benchmark) not in names:
            last = len(rank)
            first[benchmark] = min(names, key=lambda name: (rank.get((benchmark, name), last), name))
    return first


def open_questions(
    pair: SidePair, comparisons: Sequence[Comparison], primary: Mapping[str, str]
) -> Iterator[OpenQuestion]:
    """Benchmarks that both sides ran and whose primary metric is not compared, although it could be.

    That is where other metrics are compared, or where one side gave no result at all.
    """
    compared: dict[str, set[str]] = {}
    for c in comparisons:
        compared.setdefault(c.point.benchmark, set()).add(c.point.metric)
    of_a, of_b = ([r for r in side if not r.counts] for side in (pair.a, pair.b))
    for benchmark in dict.fromkeys([*compared, *(r.run.trial.benchmark for r in (*of_a, *of_b))]):
        metric = primary.get(benchmark)
        if metric is None or metric in compared.get(benchmark, ()):
            continue
        if benchmark in compared or _one_gave_nothing(pair, benchmark, metric):
            yield OpenQuestion(benchmark, metric, *pair.names, _why(pair, benchmark, metric))


def _one_gave_nothing(pair: SidePair, benchmark: str, metric: str) -> bool:
    """Whether one side measured it, and all runs of the other failed or have not ended."""
    sides = [[r for r in side if r.run.trial.benchmark == benchmark] for side in (pair.a, pair.b)]
    silent = [bool(side) and not any(r.counts for r in side) for side in sides]
    return any(silent) and any(_measured(side, benchmark, metric) for side in sides)


def _why(pair: SidePair, benchmark: str, metric: str) -> str:
    measured = sum(_measured(side, benchmark, metric) for side in (pair.a, pair.b))
    where_measured = {0: "on neither side", 1: "on one side only", 2: "at no common point that has a ratio"}
    failed = []
    for name, side in zip(pair.names, (pair.a, pair.b), strict=True):
        runs = [r for r in side if r.run.trial.benchmark == benchmark]
        lost = [r for r in runs if not r.counts]
        if lost and not _measured(side, benchmark, metric):
            why = cause(lost[0]) or f"not finished: {lost[0].run.state}"
            failed.append(f"; {name}: {len(lost)} of {counted(len(runs), 'run')} gave no result ({why})")
    return f"{metric} was measured {where_measured[measured]}{''.join(failed)}"


def _measured(side: Runs, benchmark: str, metric: str) -> bool:
    return any(
        measurement.metric == metric
        for result in side
        if result.counts and result.run.trial.benchmark == benchmark
        for measurement in result.reading.measurements
    )
