"""Whether B is as fast as A."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from assay.errors import InputError
from assay.questions.evidence import RunSet, run_set, run_sets, runs_directory
from assay.records import DEFAULT_MARGIN
from assay.units import counted, margin_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from os import PathLike
    from pathlib import Path

    from assay.analyse.comparison.sides import OpenQuestion, SidePair
    from assay.analyse.mlperf.convergence import Convergence
    from assay.analyse.mlperf.decompose import Decomposition, UndecomposedBenchmark
    from assay.analyse.rankings.ranking import Ranking
    from assay.records import Comparison, Point, Result, Verdict
    from assay.report.charts.chart import Chart

_OF_TRAINING = ("time_to_train", "time_per_epoch", "epochs_to_target")  # metrics that the split explains


@dataclass(frozen=True)
class Comparisons:
    """The result of `compare`; iterating gives every comparison, of all metrics.

    comparisons   each metric at each point that both sides have
    primary       those of them that the verdict rests on: each benchmark's leading metric
    not_compared  points without a comparison, each with the reason as text
    margin        share that counts as equal: 0.02
    leading       benchmark → its primary metric, whichever of the sides measured it
    open          benchmarks without a verdict, although other metrics were compared
    time_to_train trainings to a target, split into convergence and system
    not_split     trainings to a target that can't be split, with the reason
    convergence   the sides compared with the references
    sides         all runs of each side, by its name in the comparisons
    """

    comparisons: tuple[Comparison, ...]
    primary: tuple[Comparison, ...]
    not_compared: tuple[tuple[Point, str], ...]
    margin: float
    leading: Mapping[str, str] = field(default_factory=dict)
    open: tuple[OpenQuestion, ...] = ()
    time_to_train: tuple[Decomposition, ...] = ()
    not_split: tuple[UndecomposedBenchmark, ...] = ()
    convergence: tuple[Convergence, ...] = ()
    sides: Mapping[str, Sequence[Result]] = field(default_factory=dict, repr=False)

    def __iter__(self) -> Iterator[Comparison]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    @property
    def verdict(self) -> Verdict:
        """The overall verdict: slower if any is, else undecided if any is, else faster or equivalent."""
        verdicts = {one.verdict for one in self.primary or self.time_to_train}
        if "slower" in verdicts:
            return "slower"
        if "undecided" in verdicts or self.open:
            return "undecided"
        return "faster" if verdicts == {"faster"} else "equivalent"

    def __str__(self) -> str:
        from rich.console import Group

        from assay.report.terminal import split as split_terminal
        from assay.report.terminal import verdicts as terminal

        judged = bool(self.primary or self.open)
        first = [terminal.advice(self.primary, open_questions=self.open)] if judged else []
        table = [terminal.verdicts(self.primary)] if self.primary or not judged else []
        below = split_terminal.splits(self.time_to_train, (), self.convergence)
        return terminal.plain(Group(*first, *table, below))

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The ratios of the primary comparisons with the margin, for a notebook; empty if there are none."""
        from assay.report.charts.forest import forest

        drawn = [c for c in self.primary if c.along is None and c.ratio.value == c.ratio.value]  # no NaN
        return (forest(drawn),) if drawn else ()

    def _repr_html_(self) -> str:
        from assay.report import notebook

        return notebook.comparisons(self.primary, self.time_to_train, self.convergence, self.open)


def compare(
    a: str | PathLike[str],
    b: str | PathLike[str] | None = None,
    *,
    margin: str | float | None = None,
    metric: str | None = None,
    baseline: str | None = None,
    layouts: bool = False,
    reference: str | Sequence[str] = (),
    runs: str | PathLike[str] | None = None,
) -> Comparisons:
    """Whether B is as fast as A, like `assay compare A B`; with A alone, its other systems and its baseline.

    margin     share that counts as equal, `"2%"` or 0.02; None means the suite's, or 2 %
    metric     only this metric, which is then the primary one
    baseline   with A alone: what its other systems are compared with; None means its own
    layouts    also compare shapes with the same number of accelerators, such as 16x1 and 2x8
    reference  runs, of one name or several, to compare the convergence of both sides with
    runs       directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if a name matches nothing, a margin is invalid, or nothing can be compared.
    """
    from assay.analyse.comparison.sides import judge, primary_metrics
    from assay.analyse.mlperf.decompose import decompose

    width, directory = _margin(margin), runs_directory(runs)
    left, *others = run_sets(directory, [a] if b is None else [a, b])
    right = others[0] if others else None
    width = width or _agreed_margin(left, right)
    pairs = _pairs(left, right, layouts=layouts, baseline=baseline)
    metrics = left.metrics()
    stated = left.plan.primary_metric if left.plan else {}
    primary = primary_metrics(
        (r for pair in pairs for side in (pair.a, pair.b) for r in side), metrics, stated
    )
    if metric is not None:
        primary = dict.fromkeys(primary, metric)
    found = judge(pairs, metrics, margin=width, primary=primary, layouts=layouts)
    comparisons, not_compared = found.comparisons, found.not_compared
    splits = [decompose(pair.a, pair.b, margin=width, names=pair.names) for pair in pairs]
    if metric is not None:
        comparisons = tuple(c for c in comparisons if c.point.metric == metric)
        not_compared = tuple((point, why) for point, why in not_compared if point.metric == metric)
        splits = splits if metric in _OF_TRAINING else []
    time_to_train = tuple(one for split, _ in splits for one in split)
    open_ = found.open if metric is None else tuple(q for q in found.open if q.metric == metric)
    if not comparisons and not time_to_train and not open_:
        raise InputError(_nothing(left, right, metric, not_compared))
    references = (reference,) if isinstance(reference, str) else tuple(reference)
    return Comparisons(
        comparisons=comparisons,
        primary=found.primary,
        not_compared=not_compared,
        margin=width,
        leading=primary,
        open=open_,
        time_to_train=time_to_train,
        not_split=tuple(one for _, whole in splits for one in whole),
        convergence=tuple(_convergences(directory, pairs, references)) if references else (),
        sides=found.sides,
    )


def rank(
    reference: str, *, metric: str | None = None, runs: str | PathLike[str] | None = None
) -> tuple[Ranking, ...]:
    """The rankings of what a reference names; empty if its systems are few or have a baseline.

    metric  only this metric
    runs    directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if the name matches nothing.
    """
    from assay.analyse.comparison.sides import are_ranked
    from assay.analyse.rankings.ranking import rankings

    found = run_set(runs_directory(runs), reference)
    sides = found.by_system()
    if not are_ranked(sides, found.plan.baseline if found.plan else None):
        return ()
    return rankings(sides, found.metrics(), metric)


def _margin(margin: str | float | None) -> float | None:
    try:
        return None if margin is None else margin_of(margin)
    except ValueError as error:
        raise InputError(f"margin: {error}") from error


def _convergences(
    runs_dir: Path, pairs: Sequence[SidePair], references: Sequence[str]
) -> Iterator[Convergence]:
    """Each side once, compared with the runs of all references."""
    from assay.analyse.mlperf.convergence import against_references

    known = [result for one in run_sets(runs_dir, references) for result in one.results]
    once: dict[str, dict[str, Result]] = {}
    for pair in pairs:
        for name, side in zip(pair.names, (pair.a, pair.b), strict=True):
            once.setdefault(name, {}).update({result.run.id: result for result in side})
    for name, runs in once.items():
        yield from against_references(name, [*runs.values()], known)


def _pairs(left: RunSet, right: RunSet | None, *, layouts: bool, baseline: str | None) -> list[SidePair]:
    """Which runs are compared with which: two systems, each with a baseline, or one system's layouts."""
    from assay.analyse.comparison import sides

    a = left.by_system()
    if baseline is not None and (right is not None or baseline not in a):
        why = f"it has {', '.join(a)}" if right is None else "--baseline needs one reference alone; omit B"
        raise InputError(f"--baseline {baseline}: not a system of {left.reference}: {why}")
    if right is not None:
        return sides.between(left.reference, a, right.reference, right.by_system())
    first = sides.baseline_of(a, baseline or (left.plan.baseline if left.plan else None))
    if len(a) > 1:
        return sides.against(a, first)
    if layouts:
        return sides.layouts(left.reference, first, left.results)
    raise InputError(
        f"{left.reference} contains one system ({first}): name what to compare it with, like `assay list` "
        "shows it, or compare its shapes with the same number of accelerators: --layouts"
    )


def _agreed_margin(left: RunSet, right: RunSet | None) -> float:
    """The suite's margin, if both sides come from one suite with one margin; else 2 %."""
    plans = [side.plan for side in (left, right or left)]
    agreed = {None if plan is None else (plan.suite, plan.margin) for plan in plans}
    first = agreed.pop()
    return DEFAULT_MARGIN if agreed or first is None else first[1]


def _nothing(
    left: RunSet, right: RunSet | None, metric: str | None, not_compared: Sequence[tuple[Point, str]]
) -> str:
    """Why there is no comparison at all, with the failures on each side."""
    from assay.analyse.comparison.groups import cause

    sides = [left] if right is None else [left, right]
    parts = ["nothing to compare: no metric was measured at the same point on both sides"]
    if metric is not None:
        parts = [f"nothing to compare: {metric} was not measured at the same point on both sides"]
    parts += [f"{point.benchmark} {point.metric} at {point.shape}: {why}" for point, why in not_compared[:5]]
    for side in sides:
        failed = [result for result in side.results if not result.counts]
        if failed:
            why = cause(failed[0]) or f"not finished: {failed[0].run.state}"
            parts.append(
                f"{side.reference}: {len(failed)} of {counted(len(side.results), 'run')} "
                f"gave no result ({why})"
            )
    return "\n  ".join(parts)
