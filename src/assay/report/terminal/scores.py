"""Scores of MLPerf logs for the terminal: training sets, inference runs, and the checks of their rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from assay.analyse.doubts.scores import SCORE_CONTRADICTS
from assay.analyse.mlperf.log_rules import RuleCheck, State
from assay.analyse.mlperf.rounds import RoundRules, ScoringRule
from assay.analyse.mlperf.score import Score, ScoredSet
from assay.analyse.mlperf.training_sets import set_of_runs
from assay.records import Doubt, InferenceRun, Measurement, TrainingRun
from assay.report.sentences import split
from assay.units import counted, human

_STATUS_STYLES = {"success": "green", "aborted": "yellow", "unfinished": "bold red", "invalid": "bold red"}


def scored_set(scored: ScoredSet, *, with_runs: bool = True) -> RenderableType:
    """One set: its name, its runs, each problem by file, its score and its doubts."""
    what = [part for part in (scored.benchmark, scored.round, scored.system) if part]
    parts: list[RenderableType] = [Text(scored.name, style="bold"), Text(" · ".join(what), style="dim")]
    if with_runs:
        parts.append(_runs_table(scored.runs))
    parts += [
        Text.assemble((f"{run.file}: ", "bold"), run.problem, style="red")
        for run in scored.runs
        if run.problem
    ]
    parts.append(_score_line(scored))
    if (taken := set_of_runs(scored.name, scored.runs)) is not None:
        parts.append(Text(split.of_set(taken)))
        parts += [Text(f"{note}.", style="dim") for note in taken.notes]
    parts += [
        Padding(Text(f"? {doubt.code}: {doubt.evidence}. {doubt.remedy}."), (0, 0, 0, 2))
        for doubt in scored.doubts
    ]
    return Group(*parts, Text(""))


def _runs_table(runs: Sequence[TrainingRun]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("run", overflow="fold")
    table.add_column("status")
    in_epochs = any(run.epochs for run in runs) or not any(run.samples for run in runs)
    length = ("epochs", "min/epoch") if in_epochs else ("samples", "min/million")
    for heading in ("minutes", *length, "samples/s", "batch"):
        table.add_column(heading, justify="right")
    for run in runs:
        table.add_row(
            escape(run.file),
            f"[{_STATUS_STYLES[run.status]}]{run.status}[/]",
            _figure(run.minutes, ".3f"),
            _figure(run.epochs, ".4g") if in_epochs else _figure(run.samples, ",.0f"),
            _figure(run.minutes_per_epoch, ".4f") if in_epochs else _figure(_per_million(run), ".4f"),
            _figure(run.samples_per_s, ",.1f"),
            _figure(run.global_batch_size, ","),
        )
    return table


def _per_million(run: TrainingRun) -> float | None:
    return run.minutes / run.samples * 1e6 if run.minutes and run.samples else None


def verdict(scored: ScoredSet) -> str:
    """The score of a set in one line, or that it has none."""
    return _score_line(scored).plain


def _score_line(scored: ScoredSet) -> Text:
    score = scored.score
    spread = ""
    if score.mean is not None:
        spread = f"mean {score.mean:.3f} min"
        spread += "" if score.std is None else f", standard deviation {score.std:.3f}"
        spread += f", {score.converged} of {counted(score.runs, 'run')}"
    if score.minutes is None:
        return Text.assemble(
            ("no score", "bold yellow"), _official(score), "; " * bool(spread), spread, _stated(scored)
        )
    text = Text.assemble((f"score {score.minutes:.3f} min", "bold"), f" (without {_dropped(score.rule)})")
    if score.scaled is not None and scored.scaling_factor != 1:
        text.append(f", scaled by {scored.scaling_factor:.6g}: {score.scaled:.3f} min")
    return text.append(f"; {spread}{_stated(scored)}")


def _official(score: Score) -> str:
    """The result of the official rule if broken logs prevent a score; "" if the rule gives none."""
    if score.official is None:
        return ""
    rule = "the official rule, which drops a broken log as a slowest run"
    return f"; {score.official:.3f} min by {rule}"


def _stated(scored: ScoredSet) -> str:
    """`; published: 22.36 min, which matches the logs`, if a score was stated."""
    if scored.stated_minutes is None:
        return ""
    follows = all(doubt.code != SCORE_CONTRADICTS.code for doubt in scored.doubts)
    what = "which matches the logs" if follows else "which does not match the logs"
    return f"; published {scored.stated_minutes:g} min, {what}"


def _dropped(rule: ScoringRule | None) -> str:
    if rule is None or rule.dropped == 1:
        return "the fastest and the slowest"
    return f"the {rule.dropped} fastest and the {rule.dropped} slowest"


def _figure(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


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


_STYLES: Final[Mapping[State, str]] = {"ok": "green", "fail": "bold red", "not applicable": "dim"}


def rule_checks(rules: RoundRules, checks: Sequence[RuleCheck]) -> RenderableType:
    """The rules in a sentence, and a row for each check; logs follow the order of the runs."""
    return Group(Text(f"rule: {rules}"), checks_table(checks, whole="the set"))


def checks_table(checks: Sequence[RuleCheck], *, whole: str) -> RenderableType:
    """A row for each check and a count by result; `whole` is shown if a check has no log line."""
    table = Table(box=None, pad_edge=False)
    table.add_column("check", overflow="fold")
    table.add_column("state", no_wrap=True)
    table.add_column("evidence", overflow="fold")
    table.add_column("where", overflow="fold")
    for check in checks:
        table.add_row(
            escape(check.rule),
            f"[{_STYLES[check.state]}]{check.state}[/]",
            escape(check.evidence),
            escape(check.where or whole),
        )
    return Group(table, Text(_tally(checks)))


def _tally(checks: Sequence[RuleCheck]) -> str:
    states = [check.state for check in checks]
    return ", ".join(f"{states.count(state)} {state}" for state in _STYLES) + "\n"
