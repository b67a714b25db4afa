"""Whether something is still as good as its baseline, for CI."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.questions.compare import compare

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from assay.analyse.comparison.gate import Answer, GateVerdict
    from assay.analyse.comparison.sides import OpenQuestion
    from assay.records import Point, Result


@dataclass(frozen=True)
class GateSide:
    """Where the runs of one side come from.

    name      as in the comparisons
    runs      number of runs that gave a result, of all benchmarks
    sessions  `suite/session` of each of their sessions, sorted by name
    """

    name: str
    runs: int
    sessions: tuple[str, ...]


@dataclass(frozen=True)
class GateResult:
    """The result of `gate`.

    answer   `holds`, `worse` or `undecided`
    judged   each primary comparison, with A as its B, and whether A is worse there by more than the margin
    missing  points of the primary metrics that one side lacks, each with the reason as text
    open     benchmarks without a verdict, although other metrics were compared
    margin   share that counts as equal: 0.02
    sides    the runs that were pooled, of the baseline and of A
    """

    answer: Answer
    judged: tuple[GateVerdict, ...]
    missing: tuple[tuple[Point, str], ...]
    open: tuple[OpenQuestion, ...]
    margin: float
    sides: tuple[GateSide, ...] = ()

    def _repr_html_(self) -> str:
        from assay.report import figures, notebook

        lacking = [
            (f"{p.benchmark} {figures.metric(p.metric)}, {figures.where(p)}", why) for p, why in self.missing
        ]
        answer = f"{self.answer} at a margin of {figures.percent(self.margin)}"
        return notebook.gate(answer, self.judged, [*lacking, *(("undecided", str(one)) for one in self.open)])


def gate(
    a: str,
    *,
    baseline: str,
    margin: str | float | None = None,
    metric: str | None = None,
    runs: str | PathLike[str] | None = None,
) -> GateResult:
    """Whether A is no worse than its baseline, within a margin, like `assay gate A --baseline B`.

    margin  share that counts as equal, `"2%"` or 0.02; None means the suite's, or 2 %
    metric  only this metric, instead of each benchmark's primary one
    runs    directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if a name matches nothing, a margin is invalid, or nothing can be compared.
    """
    from assay.analyse.comparison.gate import judge, overall

    found = compare(baseline, a, margin=margin, metric=metric, runs=runs)
    judged = tuple(map(judge, found.primary))
    missing = tuple((point, why) for point, why in found.not_compared if _leads(point, found.leading))
    answer = overall(judged, len(missing) + len(found.open))
    return GateResult(answer, judged, missing, found.open, found.margin, _sides(found.sides))


def _sides(runs: Mapping[str, Sequence[Result]]) -> tuple[GateSide, ...]:
    counting = {name: [r.run for r in results if r.counts] for name, results in runs.items()}
    return tuple(
        GateSide(name, len(side), tuple(sorted({f"{run.suite}/{run.session}" for run in side})))
        for name, side in counting.items()
    )


def _leads(point: Point, leading: Mapping[str, str]) -> bool:
    return leading.get(point.benchmark) == point.metric
