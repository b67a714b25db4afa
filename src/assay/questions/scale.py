"""What more workers gain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from assay.errors import InputError
from assay.questions.evidence import RunSet, each, run_sets, runs_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from os import PathLike

    from assay.analyse.scaling.curve import By
    from assay.analyse.scaling.study import Study
    from assay.records import Scaling
    from assay.report.charts.chart import Chart


@dataclass(frozen=True)
class ScalingCurves:
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

    def __str__(self) -> str:
        from assay.report.terminal import scaling as scaling_terminal
        from assay.view import terminal

        return terminal.plain(scaling_terminal.studies(self.studies))

    @property
    def charts(self) -> tuple[Chart, ...]:
        """The speed-up of all curves with the ideal, for a notebook; empty if there are none."""
        from assay.report.charts.scaling import scaling

        return (scaling(self.curves, ()),) if self.curves else ()

    def _repr_html_(self) -> str:
        from assay.report import notebook

        return notebook.studies(self.studies)

    def document(self) -> dict[str, Any]:
        """The curves, and each again with its conclusions."""
        from assay.records import to_plain

        plain = to_plain(self.studies)
        return {
            "schema": "assay.scale/1",
            "curves": [study.pop("curve") for study in plain],
            "studies": plain,
        }


def scale(
    run: str | Sequence[str],
    *more: str,
    metric: str | Sequence[str] | None = None,
    at: Sequence[int] = (),
    price_per_accelerator_hour: float | None = None,
    power_w: float | None = None,
    group: By | None = None,
    runs: str | PathLike[str] | None = None,
) -> ScalingCurves:
    """Throughput, speed-up and efficiency over worker counts, and conclusions, like `assay scale RUN…`.

    run, more  of the same curve, one by one or as a list
    metric   of the curves; None means each benchmark's primary one that scales
    at       ranks to predict for; default: twice and four times the largest size
    power_w  power of an accelerator, watts
    group    which systems of one run are sizes of one machine: by `name`, by `accelerator` or `none`; None
             means `name` for imported sets, else `none`
    runs     directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if a name matches nothing, or nothing was measured at two sizes.
    """
    from assay.analyse.judgement import study_with_doubts
    from assay.analyse.scaling.curve import common_name, curves, machines
    from assay.analyse.scaling.study import study
    from assay.analyse.spending import Prices
    from assay.read import flops

    prices = Prices(price_per_accelerator_hour, power_w)
    sets = run_sets(runs_directory(runs), dict.fromkeys(each(run, *more)))
    results = list({r.run.id: r for run_set in sets for r in run_set.results}.values())
    systems = list(dict.fromkeys(r.run.trial.system for r in results))
    several = len(sets) > 1 and len(systems) > 1
    across = common_name(systems) or " + ".join(systems) if several else None
    metrics, by = sets[0].metrics(), _grouped_by(sets, group)
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
    studies = tuple(
        study_with_doubts(study(curve, ranks_requested=at, prices=prices, flops=flops, beside=results), curve)
        for curve in scaled
    )
    return ScalingCurves(studies, by)


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
