"""Everything about one session, imported set or trial, or which there are."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from assay.errors import UnreadableError
from assay.questions.evidence import RunSet, run_set, runs_directory
from assay.questions.list_runs import ListRuns, RunListing
from assay.questions.question import Answer, Reference, argument, question
from assay.units import counted
from assay.view.blocks import Doubts, Heading, Paragraph, Table, TableBody, TableRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from assay.analyse.exchange.curves import ExchangeCurve
    from assay.analyse.expectations.shares import Usage
    from assay.analyse.points.groups import Group
    from assay.analyse.rankings import Ranking
    from assay.records import Doubt, Estimate, Result
    from assay.view.blocks import Block

# What people ask first about a machine; `assay diff` shows the rest.
_FACTS = (
    "host", "cpu.model", "cpu.allowed", "memory.total_bytes", "gpu.0.name", "gpu.count", "gpu.driver", "os",
    "kernel", "virtualisation", "container", "python.version", "python.torch", "python.torch_cuda",
    "mlperf.number_of_nodes", "mlperf.accelerators_per_node", "mlperf.accelerator_model_name",
    "mlperf.operating_system", "mlperf.framework", "mlperf.software.nvidia_kernel_driver",
    "mlperf.software.cuda_driver_version", "mlperf.software.cuda_version", "mlperf.software.nccl_version",
    "mlperf.software.rocm_version", "mlperf.software.rccl_version",
)  # fmt: skip


@question
class Show(ListRuns):
    """Show RUN, which is a session, an imported set, `suite:system` or one trial: numbers with their spread,
    series, doubts, failed runs and the machines. Without RUN, list runs and imported sets, newest first: each
    line begins with what `show` and `compare` accept.

    \b
    Examples:
      assay show
      assay show --suite resnet50-scaling --since 7d
      assay show --trials --state failed
      assay show quickstart
      assay show resnet50-scaling:dgx-openshift
      assay show quickstart/2026-03-01T101500Z/resnet50-1x2-r03
    """

    all_help = "Show every system of a ranking."

    run: Reference | None = argument(default=None)

    def __post_init__(self) -> None:
        unused = [f"--{name}" for name in self.options() if name != "run"]
        if self.run is not None and unused:
            raise ValueError(f"{', '.join(unused)}: for a list of runs, without RUN")

    def answer(self) -> RunDetails | RunListing:
        """The runs, or the list of those that there are."""
        return self.listing() if self.run is None else show(self.run, runs=self.runs)

    @contextmanager
    def answering(self) -> Iterator[RunDetails | RunListing]:
        """After a list was shown, raises UnreadableError for runs that it lacks."""
        answer = self.answer()
        yield answer
        if isinstance(answer, RunListing) and answer.unreadable:
            raise UnreadableError(answer.unreadable)


def show(run: Reference, *, runs: Reference | None = None) -> RunDetails:
    """The runs that a reference names, like `assay show RUN`.

    run   a session, an imported set, `suite:system` or one trial
    runs  directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if the name matches nothing.
    """
    from assay.analyse.comparison.sides import are_ranked
    from assay.analyse.judgement import ranking_with_doubts
    from assay.analyse.rankings import rankings

    chosen = run_set(runs_directory(runs), run)
    sides = chosen.by_system()
    ranked = are_ranked(sides, chosen.plan.baseline if chosen.plan else None)
    ranking = map(ranking_with_doubts, rankings(sides, chosen.metrics())) if ranked else ()
    return RunDetails(chosen, tuple(ranking))


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
class RunDetails(Answer):
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

    def view(self) -> Iterator[Block]:
        """A ranking, or each system's machine, numbers and series; shares, failures, doubts."""
        from assay.view.sentences.run_details import describe_usages

        yield Paragraph(_what_there_is(self.runs), "strong", wraps=False)
        if self.rankings:
            yield from self._ranked()
            return
        for system in self.systems:
            yield from _of_system(system)
        if lines := describe_usages(self.usage):
            yield Heading("Share of the maximum:")
            yield from _lines(f"  {line}" for line in lines)
        yield from _failed(self.runs)
        yield Doubts(self.doubts, self.points)
        if len(self.runs.results) == 1:
            yield from _sources(self.runs.results[0])

    def _ranked(self) -> Iterator[Block]:
        """The order of many systems, and failed runs; each system's own results are one command away."""
        from assay.view.sentences import ranking as words

        yield from words.blocks(self.rankings)
        first = self.rankings[0]
        system = [*(s.name for s in first.systems), *(s.name for s in first.not_ranked)][0]
        command = f"assay show {self.runs.reference}:{system}"
        yield Paragraph(f"Results, series and doubts of one system: {command}", wraps=False)
        yield from _failed(self.runs)

    def document(self) -> dict[str, Any]:
        """The document, as its schema describes it."""
        from assay.analyse.points.groups import cause
        from assay.records import to_plain
        from assay.view.sentences import ranking as ranking_words

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


def _lines(lines: Iterable[str]) -> Iterator[Block]:
    return (Paragraph(line, wraps=False) for line in lines)


def _what_there_is(runs: RunSet) -> str:
    """What exists, and what should have been measured but was not: it affects every value below."""
    from assay.view.sentences.exchange import first_transport_line

    sessions = sorted({f"{r.run.suite}/{r.run.session}" for r in runs.results})
    good = sum(r.counts for r in runs.results)
    failed = sum(r.failed for r in runs.results)
    rest = len(runs.results) - good - failed
    parts = [counted(good, "run")] + [f"{failed} failed"] * bool(failed) + [f"{rest} unfinished"] * bool(rest)
    parts += filter(None, [first_transport_line(runs.results)])
    return f"{', '.join(sessions)}: {', '.join(parts)}"


def _of_system(system: SystemFigures) -> Iterator[Block]:
    from assay.view import figures, runs
    from assay.view.sentences import exchange as exchange_words
    from assay.view.sentences.run_details import describe_nodes, placement_lines

    results = system.results
    yield Heading(system.name)
    yield Paragraph(_facts(results), "dim")
    if (nodes := describe_nodes(results)) is not None:
        yield Paragraph(nodes, "dim")
    yield _numbers(system)
    yield from runs.operators((p.group.point, p.estimate.value) for p in system.points)
    exchanges = (
        f"  {f'{curve.benchmark} {curve.shape} {figures.labels(curve.labels)}'.rstrip()}: "
        f"{exchange_words.describe_curve(curve)}"
        for curve in system.exchanges
    )
    yield from _lines(
        (
            *placement_lines(results),
            *runs.series(results),
            *runs.confusions(results),
            *exchanges,
            *exchange_words.transport_lines(results),
        )
    )


def _facts(results: Sequence[Result]) -> str:
    """A few facts about the first node, if any run knows them; "(varies)" if runs differ."""
    from assay.units import human

    tables = [p.nodes[0] for p in (r.provenance for r in results) if p is not None and p.nodes]
    parts = []
    for name in _FACTS:
        values = {table.get(name) for table in tables} - {None}
        if values:
            value = values.pop()
            text = human(float(value), "B") if name.endswith("_bytes") and value is not None else str(value)
            parts.append(f"{name} {text}{' (varies)' if values else ''}")
    return " · ".join(parts) or "nothing is known about the machine"


def _numbers(system: SystemFigures) -> Table:
    """One row per metric and point."""
    from assay.view import figures
    from assay.view.figures import gathered
    from assay.view.runs import OPERATOR

    rows = []
    shown = [here for here in system.points if OPERATOR not in here.group.point.labels]
    for of_metric in gathered(shown, lambda here: (here.group.point.benchmark, here.group.point.metric)):
        measured = figures.measured_together([here.estimate for here in of_metric])
        for here, (mean, interval, n) in zip(of_metric, measured, strict=True):
            point = here.group.point
            place = f"{point.shape} {figures.labels(point.labels)}".strip()
            spread = "" if here.spread is None else figures.percent(here.spread)
            name = f"{point.benchmark} {figures.metric(point.metric)}, {place}"
            rows.append(TableRow((name, mean, interval, spread, n)))
    return Table("", ("", "mean", "95 % interval", "spread", "n"), (TableBody("", tuple(rows)),))


def _failed(runs: RunSet) -> Iterator[Block]:
    from assay.analyse.points.groups import cause

    failed = [r for r in runs.results if r.failed]
    if failed:
        yield Heading("Runs without a result:")
    yield from _lines(f"  {r.run.trial.id} (attempt {r.run.attempt}): {cause(r)}" for r in failed)


def _sources(result: Result) -> Iterator[Block]:
    """Where each measurement of one run is in its logs."""
    yield Heading(f"Measurements of attempt {result.run.attempt}, by log line:")
    for m in result.reading.measurements:
        labels = "".join(f" {name}={value}" for name, value in m.labels.items())
        line = f"  {m.file}:{m.line}  {m.metric}{labels} = {m.value:g} {m.unit}".rstrip()
        yield Paragraph(line, wraps=False)
    if result.reading.notes:
        yield Heading("How its log was read:")
    yield from _lines(f"  {note}" for note in result.reading.notes)


def _figures(here: Group) -> PointFigures:
    from assay.analyse.points.ratio import logs, one_side
    from assay.analyse.statistics.intervals import spread

    return PointFigures(here, one_side(here), spread(logs(here)) if min(here.values) > 0 else None)
