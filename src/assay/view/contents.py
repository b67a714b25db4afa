"""The contents of a report, gathered once from the results, independent of the output format."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median_low
from typing import TYPE_CHECKING

from assay.analyse import doubts
from assay.analyse.comparison.sides import (
    OpenQuestion,
    SidePair,
    against,
    are_ranked,
    baseline_of,
    led_by,
    primary_metrics,
)
from assay.analyse.expectations.requirements import check
from assay.analyse.expectations.shares import Flops
from assay.analyse.judgement import judge, ranking_with_doubts, requirement_with_doubts, study_with_doubts
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import SIZE, Group, Key, Metrics, cause, group
from assay.analyse.points.ratio import one_side
from assay.analyse.scaling.curve import Curve, curves, sizes_of_one_system
from assay.errors import InputError
from assay.records import (
    DEFAULT_MARGIN,
    Comparison,
    Doubt,
    Estimate,
    Expectation,
    Plan,
    Point,
    Price,
    Requirement,
    Result,
    Scaling,
)
from assay.view import figures
from assay.view.sentences.sentences import ComparedBenchmark, questions

if TYPE_CHECKING:
    from assay.analyse.exchange.curves import ExchangeCurve
    from assay.analyse.mlperf.decompose import Decomposition
    from assay.analyse.rankings import Ranking
    from assay.analyse.scaling.study import Study
    from assay.formats.run_timeline import RunTimeline
    from assay.telemetry.profile import TelemetryProfile
    from assay.telemetry.stalls import Stall


@dataclass(frozen=True)
class Summary:
    """One side's runs at one point: geometric mean with its 95 % interval, and each run's value."""

    side: str
    point: Point
    estimate: Estimate
    values: tuple[float, ...]
    runs: tuple[str, ...]


def summaries_of(side: str, groups: Mapping[Key, Group]) -> list[Summary]:
    """A summary of each point at which the side has results."""
    return [
        Summary(side, g.point, one_side(g), tuple(g.values), tuple(s.result.run.id for s in g.samples))
        for g in groups.values()
        if g.samples
    ]


@dataclass(frozen=True)
class ReportedFact:
    """One provenance fact, with each side's values as text; `matters`: it could have changed a number."""

    name: str
    group: str
    values: tuple[str, ...]
    differs: bool
    matters: bool


@dataclass(frozen=True)
class Recipe:
    """How to reproduce a session: the command line, its input files, and one trial's command of each kind.

    git       state of the repository that holds the suite, as text; "" if unknown
    files     name → text of the user's files at the time
    commands  trial → the exact command that its launcher started
    """

    session: str
    command_line: str
    seed: int | None
    plan_digest: str
    suite_digest: str
    assay_version: str
    git: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """A run without a result, and why."""

    side: str
    run: str
    cause: str


@dataclass(frozen=True)
class RunTime:
    """One run over its time.

    run_id    of the run; trial: the name within its session
    drawn     the run whose primary result is its side's median is drawn, the others are only searched for
              stalls
    problem   why a part of it can't be read, "" if all can
    """

    side: str
    run_id: str
    trial: str
    begin_at: float
    end_at: float
    timeline: RunTimeline
    telemetry: TelemetryProfile | None
    stalls: tuple[Stall, ...]
    drawn: bool
    problem: str = ""


@dataclass(frozen=True)
class Contents:
    """Everything that a report holds; its writers add only form.

    title      the suites' names
    sides      systems (or sets) in column order, the baseline first
    uncompared what was measured on one side only, and why it is not compared
    primary    benchmark → the metric that its question is about
    questions  about the primary metrics; `comparisons` has every metric
    open       benchmarks without a verdict, although other metrics were compared
    studies    the curves, each with its conclusions
    splits     trainings to a target, split into convergence and system
    exchanges  time and bus bandwidth of exchanges by message size
    run_times  what happened while runs ran, for one run of each side and those that had a stall
    prices     side → the system's price, if systems.yaml states one
    logs       run → its logs as links next to the page, name → relative URL
    hide       removes names of machines and people from a text
    left_out   what it removes, as text; "" if nothing
    rankings   for many sides without a baseline, instead of comparisons with the first
    alone      for a report on one side: each point of a primary metric, and its doubts
    """

    title: str
    sides: Mapping[str, tuple[Result, ...]]
    margin: float
    primary: Mapping[str, str]
    comparisons: tuple[Comparison, ...]
    questions: tuple[ComparedBenchmark, ...]
    requirements: tuple[Requirement, ...]
    curves: tuple[Scaling, ...]
    summaries: tuple[Summary, ...]
    failures: tuple[Failure, ...]
    open: tuple[OpenQuestion, ...] = ()
    uncompared: tuple[tuple[str, str], ...] = ()
    facts: tuple[ReportedFact, ...] = ()
    recipes: tuple[Recipe, ...] = ()
    splits: tuple[Decomposition, ...] = ()
    studies: tuple[Study, ...] = ()
    exchanges: tuple[ExchangeCurve, ...] = ()
    rankings: tuple[Ranking, ...] = ()
    alone: tuple[tuple[Point, tuple[Doubt, ...]], ...] = ()
    run_times: tuple[RunTime, ...] = ()
    prices: Mapping[str, Price] = field(default_factory=dict)
    logs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    hide: Callable[[str], str] = str
    left_out: str = ""

    @property
    def runs(self) -> int:
        """Runs that the report is about, including failed and unfinished ones."""
        return sum(len(results) for results in self.sides.values())

    @property
    def unfinished(self) -> int:
        """Those of them that have not ended; they count in no result yet."""
        return sum(not r.run.state.final for results in self.sides.values() for r in results)

    @property
    def doubts(self) -> tuple[tuple[Doubt, tuple[str, ...]], ...]:
        """Each doubt with the places that it concerns; equal evidence appears once."""
        return together(self._doubted())

    def _doubted(self) -> list[tuple[Doubt, str]]:
        compared = [
            (d, f"{_task(c.point)}, {c.b} compared with {c.a}") for c in self.comparisons for d in c.doubts
        ]
        required = [(d, f"{_task(r.point)}, {r.system}") for r in self.requirements for d in r.doubts]
        alone = [(d, _task(point)) for point, point_doubts in self.alone for d in point_doubts]
        return compared + required + of_scaling(self.curves, self.studies) + alone


def of_scaling(curves: Sequence[Scaling], studies: Sequence[Study]) -> list[tuple[Doubt, str]]:
    """The doubts about the sizes of curves, and about their conclusions, each with its place."""
    scaled = [
        (d, f"{c.benchmark} {figures.metric(c.metric)} scaling to {figures.shape(p.shape)}, {c.system}")
        for c in curves
        for p in c.points
        for d in p.doubts
    ]
    followed = [
        (d, f"{s.curve.benchmark} {figures.metric(s.curve.metric)} scaling, {s.curve.system}")
        for s in studies
        for d in s.doubts
    ]
    return scaled + followed


def together(doubted: Iterable[tuple[Doubt, str]]) -> tuple[tuple[Doubt, tuple[str, ...]], ...]:
    """Each doubt with the places that it concerns; equal evidence appears once."""
    merged: dict[tuple[str, str], tuple[Doubt, dict[str, None]]] = {}
    for doubt, place in doubted:
        merged.setdefault((doubt.code, doubt.evidence), (doubt, {}))[1][place] = None
    return tuple((doubt, tuple(places)) for doubt, places in merged.values())


def gather(
    sides: Mapping[str, Sequence[Result]],
    metrics: Metrics,
    *,
    plan: Plan | None = None,
    margin: float | None = None,
    facts: Sequence[ReportedFact] = (),
    recipes: Sequence[Recipe] = (),
    flops: Flops | None = None,
    prices: Mapping[str, Price] | None = None,
    baseline: str | None = None,
) -> Contents:
    """The contents of a report on these sides, compared with the plan's baseline, or else the first side.

    sides    name → runs of one system
    metrics  what a run's workload declares, for directions and the order of metrics
    margin   overrides the plan's
    prices   side → the system's price
    flops    what one sample of a run's workload needs, for MFU
    baseline overrides the plan's; without either, more than MOST_PAIRED sides are ranked

    Raises InputError when there is no run at all.
    """
    held = baseline_first(sides, plan, baseline)
    stated = plan.primary_metric if plan is not None else {}
    metrics = led_by(stated, metrics)
    width = margin if margin is not None else plan.margin if plan is not None else DEFAULT_MARGIN
    groups = {name: group(results, metrics) for name, results in held.items()}
    primary = primary_metrics((r for results in held.values() for r in results), metrics, stated)
    rank = {benchmark: index for index, benchmark in enumerate(primary)}
    across = sizes_of_one_system(held)
    compared = _without(held, across)
    ranked = _ranked(compared, metrics) if are_ranked(held, _stated(plan, baseline)) else ()
    pairs = [] if ranked else against(compared, next(iter(compared)))
    judged = judge(pairs, metrics, margin=width, primary=primary)
    studies = sorted(_studies(held, metrics, flops, across), key=lambda study: rank[study.curve.benchmark])
    summaries = [s for name, of_side in groups.items() for s in summaries_of(name, of_side)]
    return Contents(
        title=" · ".join(dict.fromkeys(r.run.suite for results in held.values() for r in results)),
        sides=held,
        margin=width,
        primary=primary,
        comparisons=_ordered(judged.comparisons, rank),
        questions=questions(_ordered(judged.primary, rank)),
        requirements=tuple(_requirements(held, metrics, plan)),
        curves=tuple(study.curve for study in studies),
        summaries=tuple(sorted(summaries, key=lambda s: rank[s.point.benchmark])),
        failures=tuple(failure for name, results in held.items() for failure in failures(name, results)),
        open=judged.open,
        uncompared=tuple((_task(point), why) for point, why in judged.not_compared),
        facts=tuple(facts),
        recipes=tuple(recipes),
        prices=dict(prices or {}),
        splits=tuple(_splits(pairs, width)),
        studies=tuple(studies),
        exchanges=tuple(_exchanges(groups)),
        rankings=ranked,
        alone=tuple(_alone(groups, primary)),
    )


def baseline_first(
    sides: Mapping[str, Sequence[Result]], plan: Plan | None, baseline: str | None = None
) -> dict[str, tuple[Result, ...]]:
    """The sides that have runs, and the one to compare the others with: `baseline`, or else the plan's.

    Raises InputError if there are no runs.
    """
    held = {name: tuple(results) for name, results in sides.items() if results}
    if not held:
        raise InputError("a report needs runs, and there are none; run `assay show` to see what is available")
    first = baseline_of(held, _stated(plan, baseline))
    return {first: held[first], **held}


def _stated(plan: Plan | None, baseline: str | None) -> str | None:
    return baseline if baseline is not None or plan is None else plan.baseline


def _requirements(
    sides: Mapping[str, Sequence[Result]], metrics: Metrics, plan: Plan | None
) -> Iterator[Requirement]:
    expectations: Mapping[str, Sequence[Expectation]] = {} if plan is None else plan.expectations
    for name, results in sides.items():
        for checked in check(results, expectations, metrics=metrics):
            yield replace(requirement_with_doubts(checked), system=name)


def _without(
    sides: Mapping[str, Sequence[Result]], benchmarks: Container[str]
) -> dict[str, tuple[Result, ...]]:
    """The sides' runs of benchmarks other than these."""
    return {
        name: tuple(r for r in results if r.run.trial.benchmark not in benchmarks)
        for name, results in sides.items()
    }


def _ranked(sides: Mapping[str, Sequence[Result]], metrics: Metrics) -> tuple[Ranking, ...]:
    from assay.analyse.rankings import rankings

    return tuple(map(ranking_with_doubts, rankings(sides, metrics)))


def _exchanges(groups: Mapping[str, Mapping[Key, Group]]) -> Iterator[ExchangeCurve]:
    for name, points in groups.items():
        if any(SIZE in here.point.labels for here in points.values()):
            from assay.analyse.exchange.curves import exchange_curves

            yield from exchange_curves(name, points.values())


def _studies(
    sides: Mapping[str, Sequence[Result]], metrics: Metrics, flops: Flops | None, across: Mapping[str, str]
) -> Iterator[Study]:
    """Each side's curves with their conclusions, and the curves whose sizes are the sides.

    across  benchmark → name of its one curve over all sides
    """
    for benchmark, name in across.items():
        runs = [r for side in sides.values() for r in side if r.run.trial.benchmark == benchmark]
        for curve in curves(runs, metrics=metrics, across=name):
            yield _study(curve, flops=flops, beside=runs)
    for name, results in sides.items():
        for curve in curves(results, metrics=metrics):
            study = _study(curve, flops=flops, beside=results)
            yield replace(study, curve=replace(study.curve, system=name))


def _study(curve: Curve, *, flops: Flops | None, beside: Sequence[Result]) -> Study:
    from assay.analyse.scaling.study import study

    return study_with_doubts(study(curve, flops=flops, beside=beside), curve)


def _splits(pairs: Sequence[SidePair], margin: float) -> Iterator[Decomposition]:
    for pair in pairs:
        from assay.analyse.mlperf.decompose import decompose

        decompositions, _ = decompose(pair.a, pair.b, margin=margin, names=pair.names)
        yield from decompositions


def _ordered(comparisons: Sequence[Comparison], rank: Mapping[str, int]) -> tuple[Comparison, ...]:
    """Grouped by benchmark, in the report's order."""
    return tuple(sorted(comparisons, key=lambda c: rank[c.point.benchmark]))


def _alone(
    groups: Mapping[str, Mapping[Key, Group]], primary: Mapping[str, str]
) -> Iterator[tuple[Point, tuple[Doubt, ...]]]:
    if len(groups) > 1:
        return
    for name, own_groups in groups.items():
        for point_group in own_groups.values():
            if point_group.samples and primary[point_group.point.benchmark] == point_group.point.metric:
                case = Case((Side(name, point_group),), one_side(point_group))
                yield point_group.point, doubts.of(case)


def failures(side: str, results: Iterable[Result]) -> list[Failure]:
    """A side's runs that ended and count in no result."""
    return [Failure(side, r.run.id, cause(r)) for r in results if r.failed]


def _task(point: Point) -> str:
    return f"{point.benchmark} {figures.metric(point.metric)} on {figures.where(point)}"


def median_runs(summaries: Sequence[Summary], primary: Mapping[str, str]) -> list[str]:
    """The run of each side's median, at its first point of each primary metric."""
    run_of_side: dict[str, str] = {}
    for summary in summaries:
        if primary.get(summary.point.benchmark) == summary.point.metric:
            middle = median_low(summary.values)
            run_of_side.setdefault(summary.side, summary.runs[summary.values.index(middle)])
    return list(run_of_side.values())
