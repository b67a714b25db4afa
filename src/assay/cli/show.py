"""`assay show`: everything about one session, set or trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.api.comparisons import rank
from assay.api.evidence import RunSet, run_set
from assay.cli.options import JSON, RUNS, echo_json
from assay.units import counted

if TYPE_CHECKING:
    from rich.console import Console

    from assay.analyse.expected import Usage
    from assay.analyse.groups import Group
    from assay.analyse.ranking import Ranking
    from assay.records import Doubt, Estimate, Point, Result

# What people ask first of a machine; `assay diff` has the rest
_FACTS = (
    "host", "cpu.model", "cpu.allowed", "memory.total_bytes", "gpu.0.name", "gpu.count", "gpu.driver", "os",
    "kernel", "virtualisation", "container", "python.version", "python.torch", "python.torch_cuda",
    "mlperf.number_of_nodes", "mlperf.accelerators_per_node", "mlperf.accelerator_model_name",
    "mlperf.operating_system", "mlperf.framework", "mlperf.software.nvidia_kernel_driver",
    "mlperf.software.cuda_driver_version", "mlperf.software.cuda_version", "mlperf.software.nccl_version",
    "mlperf.software.rocm_version", "mlperf.software.rccl_version",
)  # fmt: skip


@click.command()
@click.argument("run")
@RUNS
@JSON
def command(run: str, runs_dir: Path, as_json: bool) -> None:
    """Show RUN, a session, an imported set, `suite:system` or one trial: numbers with their spread,
    series, doubts, failed runs and what they ran on.

    \b
    Examples:
      assay show quickstart
      assay show resnet50-scaling:dgx-openshift
      assay show quickstart/2026-03-01T101500Z/resnet50-1x2-r03
    """
    found = run_set(runs_dir, run)
    if as_json:
        echo_json(_document(found, rank(run, runs=runs_dir)))
        return
    from rich.console import Console

    from assay.report import node_words, place_words, run_terminal, transport_words
    from assay.report.terminal import printable

    console = Console(highlight=False)
    console.print(_heading(found), markup=False, soft_wrap=True)
    if ranked := rank(run, runs=runs_dir):
        _show_rankings(console, found, ranked)
        return
    for system, results in found.by_system().items():
        console.print(f"\n{system}", style="bold", markup=False)
        console.print(_facts(results), style="dim", markup=False)
        if (met := node_words.words(results)) is not None:
            console.print(met, style="dim", markup=False)
        console.print(_numbers(found, results))
        for profile in run_terminal.operators(map(_mean, _groups(found, results))):
            console.print(profile)
        for line in (
            *place_words.lines(results),
            *run_terminal.series(results),
            *run_terminal.confusions(results),
            *_exchanges(found, system, results),
            *transport_words.lines(results),
        ):
            console.print(printable(line), markup=False, soft_wrap=True)
    for line in (*_usage_lines(found), *_closing(found)):
        console.print(printable(line), markup=False, soft_wrap=True)


def _show_rankings(console: Console, found: RunSet, ranked: Sequence[Ranking]) -> None:
    """The order of many systems, failed runs and doubts; each system's own figures are a command away."""
    from assay.report import ranking_words
    from assay.report.terminal import printable

    console.print(ranking_words.terminal(ranked, every=False))
    system = ranked[0].systems[0].name
    console.print(f"\nOne system's figures, series and doubts: assay show {found.reference}:{system}")
    for line in _failed(found):
        console.print(printable(line), markup=False, soft_wrap=True)


def _heading(found: RunSet) -> str:
    """What there is, and what was to be measured and was not: it undoes every figure below."""
    from assay.analyse.groups import counts
    from assay.report.transport_words import first_line

    sessions = sorted({f"{r.run.suite}/{r.run.session}" for r in found.results})
    good = sum(map(counts, found.results))
    failed = sum(r.run.state.final and not counts(r) for r in found.results)
    rest = len(found.results) - good - failed
    words = [counted(good, "run")] + [f"{failed} failed"] * bool(failed) + [f"{rest} not over"] * bool(rest)
    words += filter(None, [first_line(found.results)])
    return f"{', '.join(sessions)}: {', '.join(words)}"


def _facts(results: Sequence[Result]) -> str:
    """A few facts of the first node, where any run knows them; "(varies)" where runs differ."""
    from assay.units import human

    tables = [p.nodes[0] for p in (r.provenance for r in results) if p is not None and p.nodes]
    parts = []
    for name in _FACTS:
        values = {table.get(name) for table in tables} - {None}
        if values:
            value = values.pop()
            text = human(float(value), "B") if name.endswith("_bytes") and value is not None else str(value)
            parts.append(f"{name} {text}{' (varies)' if values else ''}")
    return " · ".join(parts) or "nothing is known of the machine"


def _groups(found: RunSet, results: Sequence[Result]) -> list[Group]:
    from assay.analyse.groups import group

    return list(group(results, found.metrics()).values())


def _numbers(found: RunSet, results: Sequence[Result]) -> Any:
    """One row a metric and point."""
    from rich.table import Table

    from assay.report import figures
    from assay.report.folding import Folded
    from assay.report.tables import OPERATOR, gathered

    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    table.add_column("")
    for name in ("mean", "95 % interval", "spread", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    shown = [here for here in _groups(found, results) if OPERATOR not in here.point.labels]
    for of_metric in gathered(shown, lambda here: (here.point.benchmark, here.point.metric)):
        known = [_estimate(here) for here in of_metric]
        measured = figures.measured_together([estimate for estimate, _ in known])
        for here, (_, spread), (mean, interval, n) in zip(of_metric, known, measured, strict=True):
            point = here.point
            place = f"{point.shape} {figures.labels(point.labels)}".strip()
            table.add_row(
                Folded(f"{point.benchmark} {figures.metric(point.metric)}, {place}"),
                mean,
                interval,
                "" if spread is None else figures.percent(spread),
                n,
            )
    return table


def _mean(here: Group) -> tuple[Point, float]:
    return here.point, _estimate(here)[0].value


def _estimate(here: Group) -> tuple[Estimate, float | None]:
    """Mean with its interval, and the spread from run to run as a share; None where there is none."""
    from assay.analyse.intervals import spread
    from assay.analyse.ratio import logs, one_side

    return one_side(here), spread(logs(here)) if min(here.values) > 0 else None


def _exchanges(found: RunSet, system: str, results: Sequence[Result]) -> Iterator[str]:
    """Latency, bandwidth and the size of half of it of each exchange over its size."""
    from assay.analyse.exchange_curves import exchange_curves
    from assay.report import exchange_words, figures

    for curve in exchange_curves(system, results, found.metrics()):
        place = f"{curve.benchmark} {curve.shape} {figures.labels(curve.labels)}".rstrip()
        yield f"  {place}: {exchange_words.words(curve)}"


def _usage(found: RunSet) -> tuple[Usage, ...]:
    from assay.analyse.expected import usage
    from assay.read import flops

    return usage(found.results, metrics=found.metrics(), flops=flops)


def _usage_lines(found: RunSet) -> Iterator[str]:
    """How the figures stand against what the hardware can do and what others reached."""
    from assay.report import expected_words

    lines = expected_words.words(_usage(found))
    if lines:
        yield "\nOf what is possible:"
    yield from (f"  {line}" for line in lines)


def _failed(found: RunSet) -> Iterator[str]:
    from assay.analyse.groups import cause, counts

    failed = [r for r in found.results if r.run.state.final and not counts(r)]
    if failed:
        yield "\nRuns without a result:"
    for result in failed:
        yield f"  {result.run.trial.id} (attempt {result.run.attempt}): {cause(result)}"


def _closing(found: RunSet) -> Iterator[str]:
    """Failed runs with their causes, doubts, and where the rest is."""
    yield from _failed(found)
    doubts = _doubts(found)
    if doubts:
        yield "\nDoubts:"
    for doubt, places in doubts:
        yield f"  ! {doubt.code} ({places} of {_points(found)}): {doubt.evidence}. {doubt.remedy}"
    if len(found.results) == 1:
        yield from _sources(found.results[0])


def _sources(result: Result) -> Iterator[str]:
    """Where each figure of one run stands in its logs."""
    yield f"\nFigures of attempt {result.run.attempt}, by line of its log:"
    for m in result.reading.measurements:
        labels = "".join(f" {name}={value}" for name, value in m.labels.items())
        yield f"  {m.file}:{m.line}  {m.metric}{labels} = {m.value:g} {m.unit}".rstrip()


def _points(found: RunSet) -> int:
    return sum(len(_groups(found, results)) for results in found.by_system().values())


def _doubts(found: RunSet) -> list[tuple[Doubt, int]]:
    """Each doubt by code with the first evidence met and the number of points that it concerns."""
    from assay.analyse import doubts, explanations

    by_code: dict[str, tuple[Doubt, int]] = {}
    for system, results in found.by_system().items():
        for here in _groups(found, results):
            for doubt in doubts.of(doubts.Case((doubts.Side(system, here),), _estimate(here)[0])):
                kept, times = by_code.get(doubt.code, (doubt, 0))
                by_code[doubt.code] = (kept, times + 1)
    return sorted(by_code.values(), key=lambda at: explanations.rank(at[0].code))


def _document(found: RunSet, ranked: Sequence[Ranking]) -> Mapping[str, Any]:
    from assay.analyse.exchange_curves import exchange_curves
    from assay.analyse.groups import cause, counts
    from assay.records import to_plain
    from assay.report import ranking_words

    return {
        "schema": "assay.show/1",
        "reference": found.reference,
        "rankings": ranking_words.plain(ranked),
        "runs": [
            {
                "id": r.run.id,
                "attempt": r.run.attempt,
                "system": r.run.trial.system,
                "benchmark": r.run.trial.benchmark,
                "shape": str(r.run.trial.shape),
                "state": r.run.state.value,
                "counts": counts(r),
                "cause": cause(r),
                "measurements": [to_plain(m) for m in r.reading.measurements],
                "series": [to_plain(s) for s in r.reading.series],
                "confusion": None if r.reading.confusion is None else to_plain(r.reading.confusion),
                "facts": dict(r.reading.facts),
                "links": [to_plain(links) for links in r.reading.links],
                "places": list(r.run.places),
                "nodes": [to_plain(node) for node in r.run.nodes],
                "provenance": None if r.provenance is None else to_plain(r.provenance)["nodes"],
            }
            for r in found.results
        ],
        "points": list(_plain_points(found)),
        "exchanges": [
            to_plain(curve)
            for system, results in found.by_system().items()
            for curve in exchange_curves(system, results, found.metrics())
        ],
        "usage": [to_plain(one) for one in _usage(found)],
        "doubts": [{**to_plain(doubt), "points": times} for doubt, times in _doubts(found)],
    }


def _plain_points(found: RunSet) -> Iterable[dict[str, Any]]:
    from assay.records import to_plain

    for system, results in found.by_system().items():
        for here in _groups(found, results):
            estimate, spread = _estimate(here)
            yield {
                "system": system,
                **to_plain(here.point),
                "estimate": to_plain(estimate),
                "spread": spread,
                "values": here.values,
            }
