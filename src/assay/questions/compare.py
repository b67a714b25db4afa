"""Whether B is as fast as A."""

from __future__ import annotations

from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Annotated

from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE, InputError
from assay.questions.evidence import RunSet, run_set, run_sets, runs_directory
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    Reads,
    Reference,
    argument,
    function,
    option,
    question,
    read_value,
)
from assay.records import DEFAULT_MARGIN, to_plain
from assay.units import counted, margin_of
from assay.view.blocks import Fold, Paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from assay.analyse.comparison.sides import OpenQuestion, SidePair
    from assay.analyse.mlperf.convergence import Convergence
    from assay.analyse.mlperf.decompose import Decomposition, UndecomposedBenchmark
    from assay.analyse.rankings import Ranking
    from assay.records import Comparison, Point, Result, Verdict
    from assay.view.blocks import Block, Chart

_OF_TRAINING = ("time_to_train", "time_per_epoch", "epochs_to_target")  # metrics that the split explains
_EXIT_CODES: Mapping[Verdict, int] = {
    "equivalent": EXIT_OK,
    "faster": EXIT_OK,
    "slower": EXIT_WORSE,
    "undecided": EXIT_UNDECIDED,
}
Margin = Annotated[str | float, Reads(margin_of, "SHARE")]
MARGIN = "Difference that counts as equal, such as 2%. [default: the suite's, or 2%]"  # help of `margin`


@question
class Compare(Question):
    """Compare B with A: a ratio, its 95 % interval from the runs, and a verdict.

    A and B are runs as `assay show` shows them: `suite` is a suite's newest session, `suite/session` is that
    session, `suite:system` is all of a system's finished runs since the suite last changed; or an imported
    set. With A alone, its other systems are compared with its baseline. The ratio is B/A, of geometric means.
    More than four systems without a baseline, such as an imported round, are ranked: in total, per
    accelerator, and by which of them may be the best, at 95 % for all jointly.

    \b
    Examples:
      assay compare quickstart                                   all systems with the baseline
      assay compare v4.0                                         a round: a ranking for each benchmark
      assay compare v4.0 --baseline dgxh100_ngc24.04_pytorch
      assay compare resnet50:bare-metal resnet50:openshift
      assay compare resnet50/2026-03-01T101500Z resnet50/2026-03-08T090000Z --margin 1%
      assay compare v3.0-ubuntu v3.1-openshift --metric time_to_train --json
      assay compare nccl:pods-of-8 nccl:pods-of-1 --layouts --metric busbw
      assay compare pod-sizes --layouts                         2x8 with 16x1 of one system
      assay compare one-node two-nodes --reference reference-256 --reference reference-512

    \b
    Verdicts: equivalent, the interval is within the margin; faster or slower, it excludes 1;
    undecided, neither, with the reason. JSON contains every metric. If a benchmark's primary metric was
    measured on only one side, it has no verdict, whatever else was compared.

    An exchange measured at several sizes is one line, with the sizes at which B is slower; its intervals hold
    at all sizes jointly. --all shows each size.

    For trainings to a target, the time to train is split into convergence (how many epochs: the
    seed's luck and the recipe) and system (time per epoch), with what is not like for like.

    \b
    Exit codes, by the primary metrics: 0 all equivalent or faster; 1 one is slower; 3 otherwise, one is
    undecided or was measured on only one side; 4 nothing to compare. A ranking exits with 0.
    """

    all_help = "Show all metrics, not only each benchmark's primary one."

    a: Reference = argument()
    b: Reference | None = argument(default=None)
    margin: Margin | None = option(MARGIN, default=None)
    metric: str | None = option("Only this metric.", default=None)
    baseline: str | None = option(
        "With A alone: what to compare its other systems with. [default: its own]",
        default=None,
        metavar="SYSTEM",
    )
    layouts: bool = option(
        "Also compare shapes with equal accelerators, such as 16x1 and 2x8.", default=False
    )
    reference: str | tuple[str, ...] = option(
        "Compare the convergence of both sides with these runs; repeatable.", default=(), metavar="SET"
    )
    runs: Reference | None = option(RUNS, default=None, local=True)

    def answer(self) -> Comparisons | Rankings:
        """Rankings of many systems without a baseline; else comparisons."""
        alone = self.b is None and self.baseline is None and not self.layouts
        rankings = rank(str(self.a), metric=self.metric, runs=self.runs) if alone else ()
        return Rankings(rankings) if rankings else self.comparisons()

    def comparisons(self) -> Comparisons:
        """B compared with A; with A alone, its other systems with its baseline."""
        runs_dir = runs_directory(self.runs)
        left, *others = run_sets(runs_dir, [self.a] if self.b is None else [self.a, self.b])
        return self.between(left, others[0] if others else None)

    def between(self, left: RunSet, right: RunSet | None = None) -> Comparisons:
        """The same of runs that were selected already."""
        from assay.analyse.comparison.sides import primary_metrics
        from assay.analyse.judgement import judge
        from assay.analyse.mlperf.decompose import decompose

        stated_margin = read_value("margin", self.margin, margin_of)
        margin = stated_margin or _agreed_margin(left, right)
        pairs = _pairs(left, right, layouts=self.layouts, baseline=self.baseline)
        metrics = left.metrics()
        primary = primary_metrics(
            (r for pair in pairs for side in (pair.a, pair.b) for r in side),
            metrics,
            left.plan.primary_metric if left.plan else {},
        )
        if self.metric is not None:
            primary = dict.fromkeys(primary, self.metric)
        judged = judge(pairs, metrics, margin=margin, primary=primary, layouts=self.layouts)
        comparisons, not_compared, undecided = judged.comparisons, judged.not_compared, judged.open
        splits = [decompose(pair.a, pair.b, margin=margin, names=pair.names) for pair in pairs]
        if self.metric is not None:
            comparisons = tuple(c for c in comparisons if c.point.metric == self.metric)
            not_compared = tuple((point, why) for point, why in not_compared if point.metric == self.metric)
            undecided = tuple(q for q in undecided if q.metric == self.metric)
            splits = splits if self.metric in _OF_TRAINING else []
        time_to_train = tuple(split for of_pair, _ in splits for split in of_pair)
        if not comparisons and not time_to_train and not undecided:
            raise InputError(_nothing(left, right, self.metric, not_compared))
        references = (self.reference,) if isinstance(self.reference, str) else tuple(self.reference)
        return Comparisons(
            comparisons=comparisons,
            primary=judged.primary,
            not_compared=not_compared,
            margin=margin,
            leading=primary,
            open=undecided,
            time_to_train=time_to_train,
            not_split=tuple(whole for _, of_pair in splits for whole in of_pair),
            convergence=tuple(_convergences(runs_directory(self.runs), pairs, references))
            if references
            else (),
            sides=judged.sides,
        )


compare = function(Compare, Compare.comparisons)


@dataclass(frozen=True)
class Comparisons(Answer):
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
        verdicts = {judged.verdict for judged in self.primary or self.time_to_train}
        if "slower" in verdicts:
            return "slower"
        if "undecided" in verdicts or self.open:
            return "undecided"
        return "faster" if verdicts == {"faster"} else "equivalent"

    @property
    def exit_code(self) -> int:
        """By the primary metrics."""
        return _EXIT_CODES[self.verdict]

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The ratios of the primary comparisons with the margin, for a notebook; empty if there are none."""
        from assay.view.charts.comparison import forest

        drawn = [c for c in self.primary if c.along is None and c.ratio.value == c.ratio.value]  # no NaN
        return (forest(drawn),) if drawn else ()

    def view(self) -> Iterator[Block]:
        """What to do; each pair's verdicts with their doubts; why; what was not compared; the splits."""
        from assay.view import figures, verdicts

        if self.primary or self.open:
            yield verdicts.advice(self.primary, open_questions=self.open)
        others = len(self.comparisons) - len(self.primary)
        yield Fold(
            tuple(verdicts.verdicts(self.primary, folded=True)) if self.primary else (),
            tuple(verdicts.verdicts(self.comparisons)) if self.comparisons else (),
            f"{others} more comparisons of other metrics" if others else "",
            "--all or --metric NAME",
        )
        yield from verdicts.whys(self.primary, self.sides, self.margin)
        for point, why in self.not_compared:
            place = f"{point.benchmark} {figures.metric(point.metric)}, {figures.where(point)}"
            yield Paragraph(f"Not compared: {place}: {why}.")
        if self.time_to_train or self.not_split or self.convergence:
            from assay.view.sentences.split import splits

            yield from splits(self.time_to_train, self.not_split, self.convergence)

    def document(self) -> dict[str, Any]:
        """The document `assay.compare/1`."""
        from assay.view.sentences import exchange as exchange_words
        from assay.view.sentences import why as why_words

        leading = {id(comparison) for comparison in self.primary}
        return {
            "schema": "assay.compare/1",
            "margin": self.margin,
            "comparisons": [_comparison_document(c, primary=id(c) in leading) for c in self.comparisons],
            "curves": exchange_words.plain(self.primary),
            "slower": why_words.plain(self.primary, self.sides, self.margin),
            "uncompared": [{"points": to_plain(point), "reason": why} for point, why in self.not_compared],
            "open": to_plain(self.open),
            "time_to_train": [to_plain(split) for split in self.time_to_train],
            "time_to_train_not_split": [to_plain(left) for left in self.not_split],
            "convergence": [to_plain(reference) for reference in self.convergence],
        }


@dataclass(frozen=True)
class Rankings(Answer):
    """Systems in order, one ranking for each benchmark."""

    rankings: tuple[Ranking, ...]

    def view(self) -> Iterator[Block]:
        """The best system of each benchmark, and the order."""
        from assay.view.sentences import ranking

        return ranking.blocks(self.rankings)

    def document(self) -> dict[str, Any]:
        """The document `assay.ranking/1`."""
        from assay.view.sentences import ranking

        return {"schema": "assay.ranking/1", "rankings": ranking.plain(self.rankings)}


def rank(
    reference: str, *, metric: str | None = None, runs: str | PathLike[str] | None = None
) -> tuple[Ranking, ...]:
    """The rankings of what a reference names; empty if its systems are few or have a baseline.

    metric  only this metric
    runs    directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if the name matches nothing.
    """
    from assay.analyse.comparison.sides import are_ranked
    from assay.analyse.judgement import ranking_with_doubts
    from assay.analyse.rankings import rankings

    selected = run_set(runs_directory(runs), reference)
    sides = selected.by_system()
    if not are_ranked(sides, selected.plan.baseline if selected.plan else None):
        return ()
    return tuple(map(ranking_with_doubts, rankings(sides, selected.metrics(), metric)))


def _convergences(
    runs_dir: Path, pairs: Sequence[SidePair], references: Sequence[str]
) -> Iterator[Convergence]:
    """Each side once, compared with the runs of all references."""
    from assay.analyse.mlperf.convergence import against_references

    known = [result for selected in run_sets(runs_dir, references) for result in selected.results]
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
        f"{left.reference} contains one system ({first}): name what to compare it with, like `assay show` "
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
    from assay.analyse.points.groups import cause

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


def _comparison_document(c: Comparison, *, primary: bool) -> dict[str, Any]:
    points = {"benchmark": c.point.benchmark, "shape": c.point.shape, "labels": dict(c.point.labels)}
    ratio = {"value": c.ratio.value, "low": c.ratio.low, "high": c.ratio.high}
    return {
        "a": c.a,
        "b": c.b,
        "metric": c.point.metric,
        "primary": primary,
        "unit": c.point.unit,
        "better": c.point.better,
        "points": points,
        "means": [c.mean_a, c.mean_b],
        "ratio": ratio | {"confidence": c.ratio.confidence},
        "n": list(c.n),
        "method": c.method,
        "margin": c.margin,
        "verdict": c.verdict,
        "reason": c.reason,
        "smallest_visible": c.smallest_visible,
        "by_margin": c.by_margin,
        "replication": c.replication,
        "sessions": list(c.sessions),
        "apart": c.apart,
        "new_session": None if c.new_session is None else to_plain(c.new_session),
        "allows_for": list(c.allows_for),
        "shift": c.shift,
        "lost_to_others": list(c.lost_to_others),
        "runs_needed": None if c.runs_needed is None else to_plain(c.runs_needed),
        "rank": None if c.rank is None else to_plain(c.rank),
        "deciding": {"low": c.deciding.low, "high": c.deciding.high},
        "family": None if c.family is None else to_plain(c.family),
        "doubts": to_plain(c.doubts),
    }
