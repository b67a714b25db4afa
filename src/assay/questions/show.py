"""Everything about one session, imported set or trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.questions.evidence import RunSet, run_set, runs_directory

if TYPE_CHECKING:
    from os import PathLike

    from assay.analyse.exchange.curves import ExchangeCurve
    from assay.analyse.expectations.shares import Usage
    from assay.analyse.points.groups import Group
    from assay.analyse.rankings import Ranking
    from assay.records import Doubt, Estimate, Result


@dataclass(frozen=True)
class PointFigures:
    """One metric at one point.

    estimate  mean of the runs with its 95 % interval
    spread    from run to run, as a share; None if unknown
    """

    group: Group
    estimate: Estimate
    spread: float | None


@dataclass(frozen=True)
class SystemFigures:
    """One system's runs, their measurements, and the curves of its exchanges by message size."""

    name: str
    results: tuple[Result, ...]
    points: tuple[PointFigures, ...]
    exchanges: tuple[ExchangeCurve, ...]


@dataclass(frozen=True)
class RunDetails:
    """The result of `show`; what follows from the runs is computed on first use.

    runs      the runs, with the plan of the newest session
    rankings  of many systems without a baseline; else empty
    """

    runs: RunSet
    rankings: tuple[Ranking, ...]

    @cached_property
    def systems(self) -> tuple[SystemFigures, ...]:
        """Each system, in the plan's order."""
        from assay.analyse.exchange.curves import exchange_curves
        from assay.analyse.points.groups import group

        metrics = self.runs.metrics()
        figures = []
        for system, results in self.runs.by_system().items():
            points = group(results, metrics).values()
            curves = exchange_curves(system, points)
            figures.append(SystemFigures(system, tuple(results), tuple(map(_figures, points)), tuple(curves)))
        return tuple(figures)

    @property
    def points(self) -> int:
        """Points of all systems, counting each metric."""
        return sum(len(system.points) for system in self.systems)

    @cached_property
    def usage(self) -> tuple[Usage, ...]:
        """The measurements compared with what the hardware can do and with published results."""
        from assay.analyse.expectations.shares import usage
        from assay.read import flops

        points = {system.name: [point.group for point in system.points] for system in self.systems}
        return usage(points, flops)

    @cached_property
    def doubts(self) -> tuple[tuple[Doubt, int], ...]:
        """Each doubt by code, the gravest first, with its first evidence and the number of its points."""
        from assay.analyse import doubts
        from assay.analyse.points.case import Case, Side

        by_code: dict[str, tuple[Doubt, int]] = {}
        about_runs: dict[doubts.Runs, tuple[Doubt, ...]] = {}
        for system in self.systems:
            for here in system.points:
                case = Case((Side(system.name, here.group),), here.estimate)
                for doubt in doubts.of(case, about_runs):
                    kept, times = by_code.get(doubt.code, (doubt, 0))
                    by_code[doubt.code] = (kept, times + 1)
        return tuple(sorted(by_code.values(), key=lambda doubt_count: doubts.rank(doubt_count[0].code)))

    def _repr_html_(self) -> str:
        from assay.report import notebook

        rows = [_row(system, here) for system in self.systems for here in system.points]
        return notebook.points(rows, [doubt for doubt, _ in self.doubts])

    def document(self) -> Mapping[str, Any]:
        """The document, as its schema describes it."""
        from assay.analyse.points.groups import cause
        from assay.records import to_plain
        from assay.report.sentences import ranking as ranking_words

        return {
            "schema": "assay.show/1",
            "reference": self.runs.reference,
            "rankings": ranking_words.plain(self.rankings),
            "runs": [
                {
                    "id": r.run.id,
                    "attempt": r.run.attempt,
                    "system": r.run.trial.system,
                    "benchmark": r.run.trial.benchmark,
                    "shape": str(r.run.trial.shape),
                    "state": r.run.state.value,
                    "counts": r.counts,
                    "cause": cause(r),
                    "measurements": [to_plain(m) for m in r.reading.measurements],
                    "series": [to_plain(s) for s in r.reading.series],
                    "confusion": None if r.reading.confusion is None else to_plain(r.reading.confusion),
                    "facts": dict(r.reading.facts),
                    "notes": list(r.reading.notes),
                    "links": [to_plain(links) for links in r.reading.links],
                    "places": list(r.run.places),
                    "nodes": [to_plain(node) for node in r.run.nodes],
                    "provenance": None if r.provenance is None else to_plain(r.provenance)["nodes"],
                }
                for r in self.runs.results
            ],
            "points": [
                {
                    "system": system.name,
                    **to_plain(here.group.point),
                    "estimate": to_plain(here.estimate),
                    "spread": here.spread,
                    "values": here.group.values,
                }
                for system in self.systems
                for here in system.points
            ],
            "exchanges": [to_plain(curve) for system in self.systems for curve in system.exchanges],
            "usage": [to_plain(usage) for usage in self.usage],
            "doubts": [{**to_plain(doubt), "points": times} for doubt, times in self.doubts],
        }


def _row(system: SystemFigures, here: PointFigures) -> tuple[str, str, str, str, str]:
    from assay.report import figures
    from assay.units import human

    point, e = here.group.point, here.estimate
    span = "" if e.low is None or e.high is None else f" ({human(e.low, e.unit)} to {human(e.high, e.unit)})"
    value = f"{human(e.value, e.unit)}{span}, n = {e.n}"
    return system.name, point.benchmark, figures.where(point), figures.metric(point.metric), value


def show(run: str | PathLike[str], *, runs: str | PathLike[str] | None = None) -> RunDetails:
    """One session, imported set, `suite:system` or trial, like `assay show RUN`.

    runs  directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if the name matches nothing.
    """
    from assay.analyse.comparison.sides import are_ranked
    from assay.analyse.judgement import ranking_with_doubts
    from assay.analyse.rankings import rankings

    chosen = run_set(runs_directory(runs), run)
    sides = chosen.by_system()
    ranked = are_ranked(sides, chosen.plan.baseline if chosen.plan else None)
    return RunDetails(
        chosen, tuple(map(ranking_with_doubts, rankings(sides, chosen.metrics()))) if ranked else ()
    )


def _figures(here: Group) -> PointFigures:
    from assay.analyse.points.ratio import logs, one_side
    from assay.analyse.statistics.intervals import spread

    return PointFigures(here, one_side(here), spread(logs(here)) if min(here.values) > 0 else None)
