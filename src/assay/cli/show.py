"""`assay show`: everything about one session, set or trial."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.units import counted

if TYPE_CHECKING:
    from assay.cli.console import Console
    from assay.questions.evidence import RunSet
    from assay.questions.show import RunDetails, SystemFigures
    from assay.records import Result

# What people ask first about a machine; `assay diff` shows the rest.
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
    """Show RUN, which is a session, an imported set, `suite:system` or one trial: numbers with their spread,
    series, doubts, failed runs and the machines.

    \b
    Examples:
      assay show quickstart
      assay show resnet50-scaling:dgx-openshift
      assay show quickstart/2026-03-01T101500Z/resnet50-1x2-r03
    """
    from assay.questions.show import show

    details = show(run, runs=runs_dir)
    if as_json:
        echo_json(details.document())
        return
    from assay.cli.console import Console
    from assay.report.sentences.exchange import transport_lines
    from assay.report.sentences.run_details import describe_nodes, placement_lines
    from assay.report.terminal import runs as run_terminal
    from assay.view.blocks import Doubts
    from assay.view.terminal import doubts_table, printable

    console = Console(highlight=False)
    console.print(_heading(details.runs), markup=False, soft_wrap=True)
    if details.rankings:
        _show_rankings(console, details)
        return
    for system in details.systems:
        results = system.results
        console.print(f"\n{system.name}", style="bold", markup=False)
        console.print(_facts(results), style="dim", markup=False)
        if (met := describe_nodes(results)) is not None:
            console.print(met, style="dim", markup=False)
        console.print(_numbers(system))
        for profile in run_terminal.operators((p.group.point, p.estimate.value) for p in system.points):
            console.print(profile)
        for line in (
            *placement_lines(results),
            *run_terminal.series(results),
            *run_terminal.confusions(results),
            *_exchanges(system),
            *transport_lines(results),
        ):
            console.print(printable(line), markup=False, soft_wrap=True)
    for line in (*_usage_lines(details), *_failed(details.runs)):
        console.print(printable(line), markup=False, soft_wrap=True)
    if details.doubts:
        console.print("\nDoubts:")
        console.print(doubts_table(Doubts(tuple(details.doubts), details.points)))
    if len(details.runs.results) == 1:
        for line in _sources(details.runs.results[0]):
            console.print(printable(line), markup=False, soft_wrap=True)


def _show_rankings(console: Console, details: RunDetails) -> None:
    """The order of many systems, failed runs and doubts; each system's own results are one command away."""
    from assay.report.sentences import ranking as ranking_words
    from assay.view.terminal import printable, shown

    console.print(shown(ranking_words.blocks(details.rankings)))
    first = details.rankings[0]
    system = [*(s.name for s in first.systems), *(s.name for s in first.not_ranked)][0]
    console.print(f"\nResults, series and doubts of one system: assay show {details.runs.reference}:{system}")
    for line in _failed(details.runs):
        console.print(printable(line), markup=False, soft_wrap=True)


def _heading(runs: RunSet) -> str:
    """What exists, and what should have been measured but was not: it affects every value below."""
    from assay.report.sentences.exchange import first_transport_line

    sessions = sorted({f"{r.run.suite}/{r.run.session}" for r in runs.results})
    good = sum(r.counts for r in runs.results)
    failed = sum(r.failed for r in runs.results)
    rest = len(runs.results) - good - failed
    parts = [counted(good, "run")] + [f"{failed} failed"] * bool(failed) + [f"{rest} unfinished"] * bool(rest)
    parts += filter(None, [first_transport_line(runs.results)])
    return f"{', '.join(sessions)}: {', '.join(parts)}"


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


def _numbers(system: SystemFigures) -> Any:
    """One row per metric and point."""
    from rich.table import Table

    from assay.report import figures
    from assay.report.folding import FoldedText
    from assay.report.tables import OPERATOR, gathered

    table = Table(box=None, padding=(0, 1), pad_edge=False, header_style="dim")
    table.add_column("")
    for name in ("mean", "95 % interval", "spread", "n"):
        table.add_column(name, justify="right", no_wrap=True)
    shown = [here for here in system.points if OPERATOR not in here.group.point.labels]
    for of_metric in gathered(shown, lambda here: (here.group.point.benchmark, here.group.point.metric)):
        measured = figures.measured_together([here.estimate for here in of_metric])
        for here, (mean, interval, n) in zip(of_metric, measured, strict=True):
            point = here.group.point
            place = f"{point.shape} {figures.labels(point.labels)}".strip()
            table.add_row(
                FoldedText(f"{point.benchmark} {figures.metric(point.metric)}, {place}"),
                mean,
                interval,
                "" if here.spread is None else figures.percent(here.spread),
                n,
            )
    return table


def _exchanges(system: SystemFigures) -> Iterator[str]:
    """Latency, bandwidth and half-bandwidth size of each exchange by message size."""
    from assay.report import figures
    from assay.report.sentences import exchange as exchange_words

    for curve in system.exchanges:
        place = f"{curve.benchmark} {curve.shape} {figures.labels(curve.labels)}".rstrip()
        yield f"  {place}: {exchange_words.describe_curve(curve)}"


def _usage_lines(details: RunDetails) -> Iterator[str]:
    """The measurements compared with what the hardware can do and with published results."""
    from assay.report.sentences.run_details import describe_usages

    lines = describe_usages(details.usage)
    if lines:
        yield "\nShare of the maximum:"
    yield from (f"  {line}" for line in lines)


def _failed(runs: RunSet) -> Iterator[str]:
    from assay.analyse.points.groups import cause

    failed = [r for r in runs.results if r.failed]
    if failed:
        yield "\nRuns without a result:"
    for result in failed:
        yield f"  {result.run.trial.id} (attempt {result.run.attempt}): {cause(result)}"


def _sources(result: Result) -> Iterator[str]:
    """Where each measurement of one run is in its logs."""
    yield f"\nMeasurements of attempt {result.run.attempt}, by log line:"
    for m in result.reading.measurements:
        labels = "".join(f" {name}={value}" for name, value in m.labels.items())
        yield f"  {m.file}:{m.line}  {m.metric}{labels} = {m.value:g} {m.unit}".rstrip()
    if result.reading.notes:
        yield "\nHow its log was read:"
    yield from (f"  {note}" for note in result.reading.notes)
