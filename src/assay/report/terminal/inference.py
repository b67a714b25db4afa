"""MLPerf inference runs for the terminal: the metric each is judged by, and its doubts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assay.analyse.mlperf.log_rules import RuleCheck
from assay.records import Doubt, InferenceRun, Measurement
from assay.report.terminal.rule_checks import checks_table
from assay.units import human

_JUDGED_BY = {
    "SingleStream": "90th-percentile latency, early-stopping estimate",
    "MultiStream": "99th-percentile query latency, early-stopping estimate",
    "Server": "{} per second within the latency bound",
    "Offline": "{} per second",
}
_COUNTED = {
    "throughput": "samples",
    "scheduled_throughput": "samples sent",
    "token_throughput": "tokens",
    "inferred_token_throughput": "tokens, 69 for each sample",
}


def inference_run(
    run: InferenceRun, doubts: Sequence[Doubt], checks: Sequence[RuleCheck] = ()
) -> RenderableType:
    """One run: name, score or why it has none, measurements, doubts, and checks if requested."""
    what = [part for part in (run.scenario, run.mode, run.validity) if part]
    parts: list[RenderableType] = [Text(run.name, style="bold"), Text(" · ".join(what), style="dim")]
    if run.problem:
        parts.append(Text.assemble(("no score", "bold yellow"), "; ", (run.problem, "red")))
    elif run.score is None:
        parts.append(Text.assemble(("no score", "bold yellow"), "; only LoadGen's own logs contain one"))
    else:
        judged = _JUDGED_BY.get(run.scenario or "", run.score.metric)
        judged = f" ({judged.format(_COUNTED.get(run.score.metric, run.score.metric))})"
        parts.append(Text.assemble((f"score {human(run.score.value, run.score.unit)}", "bold"), judged))
    if run.accuracy and run.accuracy.figures:
        figures = (f"{metric} {stated.value}" for metric, stated in run.accuracy.figures.items())
        parts.append(Text(f"accuracy {', '.join(figures)}"))
    if run.figures:
        parts.append(_figures(run))
    parts += [Padding(Text(f"? {d.code}: {d.evidence}. {d.remedy}."), (0, 0, 0, 2)) for d in doubts]
    if checks:
        parts.append(checks_table(checks, whole="the run"))
    return Group(*parts, Text(""))


def _figures(run: InferenceRun) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("figure")
    table.add_column("value", justify="right")
    table.add_column("where", overflow="fold")
    for figure in _shown(run):
        name = " ".join([figure.metric, *(f"p{value:g}" for value in figure.labels.values())])
        table.add_row(
            escape(name), escape(human(figure.value, figure.unit)), escape(f"{figure.file}:{figure.line}")
        )
    return table


def _shown(run: InferenceRun) -> Iterator[Measurement]:
    """All but the score, which is shown above."""
    return (figure for figure in run.figures if figure != run.score)
