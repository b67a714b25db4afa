"""What more workers gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.analyse.scaling.curve import By
from assay.errors import InputError
from assay.questions.evidence import RunSet, run_sets, runs_directory
from assay.questions.question import (
    RUNS,
    Answer,
    Count,
    Positive,
    Question,
    Reference,
    argument,
    function_of_many,
    option,
    question,
)
from assay.units import counted
from assay.view.blocks import Doubts, Heading, Paragraph, Table, TableBody, TableRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assay.analyse.scaling.study import Study
    from assay.records import Scaling
    from assay.view.blocks import Block, Chart

MOST_TOGETHER = 4  # curves in one table


@question
class Scale(Question):
    """Show throughput, speed-up and efficiency of RUN over worker counts, what limits them, what they cost.

    Efficiency is the speed-up divided by the ratio of ranks. Times are inverted, so that above 1 is faster.
    Metrics without an ideal in proportion to the ranks (bus bandwidth, latency) have no curve.
    A training's step is compared with an all-reduce benchmark if its sessions have one in the same shape.
    Several RUNs, such as imported sets of one machine at several sizes, form one curve. The systems of one
    imported RUN, such as a whole round, are grouped: each machine's sizes form a curve.

    If a size is faster than the next smaller one by more than its ranks, the smaller one lost speed:
    at least how much, and what to repeat, comes first. Sizes with another batch size are left out of the law.

    \b
    Examples:
      assay scale quickstart
      assay scale resnet50-scaling:dgx-openshift --metric throughput --at 64
      assay scale ssd-8-gpus ssd-16-gpus ssd-32-gpus --metric time_per_epoch --metric time_to_train
      assay scale resnet50-scaling --price-per-accelerator-hour 2.5 --power-w 700
      assay scale quickstart --json
      assay scale v4.0 --group accelerator
    """

    run: tuple[str, ...] = argument(metavar="RUN…", parameters=("run", "more"))
    metric: str | tuple[str, ...] | None = option(
        "Metric of the curves. [default: each primary metric that scales]", default=None
    )
    at: tuple[Count, ...] = option("Predict for N ranks. [default: 2×, 4× the largest]", default=())
    price_per_accelerator_hour: Positive | None = option(
        "In your currency; adds the cost of a result.", default=None
    )
    power_w: Positive | None = option(
        "Power of an accelerator, watts: adds the energy of a result.", default=None
    )
    group: By | None = option(
        "Which systems of one RUN are sizes of one machine: same submitter and name except for the count, or "
        "same accelerator. [default: name for imported sets, else none]",
        default=None,
    )
    runs: Reference | None = option(RUNS, default=None, local=True)

    def answer(self) -> ScalingCurves:
        """The curves with their conclusions. Raises InputError if nothing was measured at two sizes."""
        return self.of_sets(run_sets(runs_directory(self.runs), dict.fromkeys(self.run)))

    def of_sets(self, sets: Sequence[RunSet]) -> ScalingCurves:
        """The same of runs that were selected already."""
        from assay.analyse.judgement import study_with_doubts
        from assay.analyse.scaling.curve import common_name, curves, machines
        from assay.analyse.scaling.study import study
        from assay.analyse.spending import Prices
        from assay.read import flops

        prices = Prices(self.price_per_accelerator_hour, self.power_w)
        metric = self.metric or None
        results = list({r.run.id: r for run_set in sets for r in run_set.results}.values())
        systems = list(dict.fromkeys(r.run.trial.system for r in results))
        several = len(sets) > 1 and len(systems) > 1
        across = common_name(systems) or " + ".join(systems) if several else None
        metrics, by = sets[0].metrics(), _grouped_by(sets, self.group)
        if by == "none":
            scaled = curves(results, metrics=metrics, metric=metric, across=across)
        else:
            scaled = [
                curve
                for name, sizes in machines(results, by).items()
                for curve in curves(sizes, metrics=metrics, metric=metric, across=name)
            ]
        if not scaled:
            raise InputError(_no_curve(sets, systems, metric))
        studies = (
            study(curve, ranks_requested=self.at, prices=prices, flops=flops, beside=results)
            for curve in scaled
        )
        return ScalingCurves(tuple(map(study_with_doubts, studies, scaled)), by)


scale = function_of_many(Scale, Scale.answer)


@dataclass(frozen=True)
class ScalingCurves(Answer):
    """The result of `scale`; iterating gives the curves, one per system, benchmark and swept point.

    studies     the same curves, each with its laws, limit, predictions, layouts and accelerator-hours
    grouped_by  what made systems of one reference sizes of one machine; `none` if each is separate
    """

    studies: tuple[Study, ...]
    grouped_by: By = "none"

    @property
    def curves(self) -> tuple[Scaling, ...]:
        """The curves without their conclusions."""
        return tuple(study.curve for study in self.studies)

    def __iter__(self) -> Iterator[Scaling]:
        return iter(self.curves)

    def __len__(self) -> int:
        return len(self.curves)

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The speed-up of the curves of each benchmark and metric, with the ideal."""
        from assay.view.charts.scaling import scaling
        from assay.view.figures import gathered

        sides = tuple(dict.fromkeys(curve.system for curve in self.curves))
        groups = gathered(self.curves, lambda curve: (curve.benchmark, curve.metric))
        return tuple(scaling(group, sides) for group in groups)

    def view(self) -> Iterator[Block]:
        """Each curve in a sentence, the table of all, what follows from each, and then the doubts.

        With many curves, each is shown separately with its own table.
        """
        from assay.view import verdicts

        if self.grouped_by != "none":
            yield Paragraph(self._grouping())
        apart = [[study] for study in self.studies] if len(self.studies) > MOST_TOGETHER else [self.studies]
        for together in apart:
            yield from _curves_in_one_table(together)
        yield verdicts.doubts_of_curves(self.curves)

    def _grouping(self) -> str:
        by_name = self.grouped_by == "name"
        what = "name without its count" if by_name else "accelerator"
        others = "--group accelerator or none" if by_name else "--group name or none"
        machines = counted(len({curve.system for curve in self.curves}), "machine")
        return f"Sizes of {machines}, by submitter and {what}; {others} groups differently."

    def document(self) -> dict[str, Any]:
        """The curves, and each again with its conclusions."""
        from assay.records import to_plain

        plain = to_plain(self.studies)
        return {
            "schema": "assay.scale/1",
            "curves": [study.pop("curve") for study in plain],
            "studies": plain,
        }


def _curves_in_one_table(studies: Sequence[Study]) -> Iterator[Block]:
    from assay.view import verdicts
    from assay.view.sentences import scaling as words

    for study in studies:
        yield from (Heading(words.heading(study)), Paragraph(words.lead(study)))
    yield from verdicts.scaling([study.curve for study in studies], doubted=False)
    for study in studies:
        yield Heading(words.heading(study))
        rows = tuple(TableRow(conclusion) for conclusion in words.list_conclusions(study))
        yield Table("", ("", "conclusion"), (TableBody("", rows),), frozenset({0, 1}))
        yield Doubts(tuple((doubt, 0) for doubt in study.doubts), 0)


def _grouped_by(sets: Sequence[RunSet], group: By | None) -> By:
    imported = all(r.run.source is not None for run_set in sets for r in run_set.results)
    several = len({r.run.trial.system for run_set in sets for r in run_set.results}) > 1
    return "none" if len(sets) > 1 or not several else group or ("name" if imported else "none")


def _no_curve(sets: Sequence[RunSet], systems: Sequence[str], metric: str | Sequence[str] | None) -> str:
    shapes = sorted({str(result.run.trial.shape) for run_set in sets for result in run_set.results})
    metrics = (metric,) if isinstance(metric, str) else metric
    what = "its primary metrics" if metrics is None else ", ".join(metrics)
    message = (
        f"{' '.join(run_set.reference for run_set in sets)}: no curve: {what} must scale with the ranks "
        f"and have results at at least two sizes (its runs have the shapes {', '.join(shapes)})"
    )
    if len(sets) == 1 and len(systems) > 1 and len(shapes) > 1:
        message += (
            f". To use its {len(systems)} systems as sizes of one curve, name each: "
            f"`assay scale {sets[0].reference}:{systems[0]} {sets[0].reference}:{systems[1]} …`"
        )
    return message
