"""Scores of MLPerf logs as blocks: training sets, inference runs, and the checks of their rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from assay.analyse.doubts.inference import doubts_of_inference
from assay.analyse.mlperf.inference_rules import check_inference
from assay.analyse.mlperf.rounds import ScoringRule
from assay.analyse.mlperf.rules import NOT_VERIFIED, RuleCheck, State
from assay.analyse.mlperf.score import ScoredSet, SetScore
from assay.analyse.mlperf.score_doubts import SCORE_CONTRADICTS
from assay.analyse.mlperf.training_sets import set_of_runs
from assay.records import Doubt, InferenceRun, TrainingRun
from assay.units import counted, human
from assay.view.blocks import Block, Doubts, Heading, Paragraph, Table, TableBody, TableRow
from assay.view.sentences import split

_TONES: Final = {"success": "holds", "aborted": "undecided", "unfinished": "fails", "invalid": "fails"}
_CHECK_TONES: Final[Mapping[State, str]] = {"ok": "holds", "fail": "fails", "not applicable": "dim"}


def scores(
    sets: Sequence[ScoredSet], inference: Sequence[InferenceRun], *, with_runs: bool, checked: bool
) -> Iterator[Block]:
    """Each set of training logs and each inference run, then MLCommons' label.

    with_runs  also a table of each set's runs
    checked    also each inference run's checks; a set has its own if they were made
    """
    for scored in sets:
        yield from _scored_set(scored, with_runs=with_runs)
        if scored.rules:
            yield Paragraph(f"rule: {scored.rules}")
            yield from _checks(scored.checks, whole="the set")
    for run in inference:
        yield from _inference_run(run)
        if checked:
            yield from _checks(check_inference(run), whole="the run")
    if any(run.figures for run in inference) or any(scored.score.mean is not None for scored in sets):
        yield Paragraph(f"\n{NOT_VERIFIED}")


def _scored_set(scored: ScoredSet, *, with_runs: bool) -> Iterator[Block]:
    """One set: its name, its runs, each problem by file, its score and its doubts."""
    yield Heading(scored.name)
    yield Paragraph(" · ".join(filter(None, (scored.benchmark, scored.round, scored.system))), "dim")
    if with_runs:
        yield runs_table(scored.runs)
    yield from (Paragraph(f"{run.file}: {run.problem}", "fails") for run in scored.runs if run.problem)
    yield Paragraph(verdict(scored), "strong")
    if (training := set_of_runs(scored.name, scored.runs)) is not None:
        yield Paragraph(split.of_set(training))
        yield from (Paragraph(f"{note}.", "dim") for note in training.notes)
    yield _doubts(scored.doubts)


def _doubts(doubts: Sequence[Doubt]) -> Doubts:
    return Doubts(tuple((doubt, 1) for doubt in doubts), 1)


def runs_table(runs: Sequence[TrainingRun]) -> Table:
    """The runs of a set, a row each."""
    in_epochs = any(run.epochs for run in runs) or not any(run.samples for run in runs)
    length = ("epochs", "min/epoch") if in_epochs else ("samples", "min/million")
    rows = []
    for run in runs:
        cells = (
            run.file,
            run.status,
            _figure(run.minutes, ".3f"),
            _figure(run.epochs, ".4g") if in_epochs else _figure(run.samples, ",.0f"),
            _figure(run.minutes_per_epoch if in_epochs else _per_million(run), ".4f"),
            _figure(run.samples_per_s, ",.1f"),
            _figure(run.global_batch_size, ","),
        )
        rows.append(TableRow(cells, _TONES[run.status]))
    columns = ("run", "status", "minutes", *length, "samples/s", "batch")
    return Table("", columns, (TableBody("", tuple(rows)),), frozenset({0, 1}), verdicts=1)


def _per_million(run: TrainingRun) -> float | None:
    return run.minutes / run.samples * 1e6 if run.minutes and run.samples else None


def verdict(scored: ScoredSet) -> str:
    """The score of a set in one line, or that it has none."""
    score = scored.score
    spread = ""
    if score.mean is not None:
        spread = f"mean {score.mean:.3f} min"
        spread += "" if score.std is None else f", standard deviation {score.std:.3f}"
        spread += f", {score.converged} of {counted(score.runs, 'run')}"
    if score.minutes is None:
        return f"no score{_official(score)}{'; ' * bool(spread)}{spread}{_stated(scored)}"
    text = f"score {score.minutes:.3f} min (without {_dropped(score.rule)})"
    if score.scaled is not None and scored.scaling_factor != 1:
        text += f", scaled by {scored.scaling_factor:.6g}: {score.scaled:.3f} min"
    return f"{text}; {spread}{_stated(scored)}"


def _official(score: SetScore) -> str:
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


def _inference_run(run: InferenceRun) -> Iterator[Block]:
    """One run: name, score or why it has none, measurements, doubts."""
    yield Heading(run.name)
    yield Paragraph(" · ".join(filter(None, (run.scenario, run.mode, run.validity))), "dim")
    if run.problem:
        yield Paragraph(f"no score; {run.problem}", "fails")
    elif run.score is None:
        yield Paragraph("no score; only LoadGen's own logs contain one", "undecided")
    else:
        judged = _JUDGED_BY.get(run.scenario or "", run.score.metric)
        judged = judged.format(_COUNTED.get(run.score.metric, run.score.metric))
        yield Paragraph(f"score {human(run.score.value, run.score.unit)} ({judged})", "strong")
    if run.accuracy and run.accuracy.figures:
        figures = (f"{metric} {stated.value}" for metric, stated in run.accuracy.figures.items())
        yield Paragraph(f"accuracy {', '.join(figures)}")
    if run.figures:
        rows = []
        for figure in run.figures:
            if figure != run.score:  # which is shown above
                name = " ".join([figure.metric, *(f"p{value:g}" for value in figure.labels.values())])
                place = f"{figure.file}:{figure.line}"
                rows.append(TableRow((name, human(figure.value, figure.unit), place)))
        columns = ("figure", "value", "where")
        yield Table("", columns, (TableBody("", tuple(rows)),), frozenset({0, 2}))
    yield _doubts(doubts_of_inference(run))


def _checks(checks: Sequence[RuleCheck], *, whole: str) -> Iterator[Block]:
    """A row for each check and a count by result; `whole` is shown if a check has no log line."""
    rows = [
        TableRow((check.rule, check.state, check.evidence, check.where or whole), _CHECK_TONES[check.state])
        for check in checks
    ]
    columns = ("check", "state", "evidence", "where")
    yield Table("", columns, (TableBody("", tuple(rows)),), frozenset(range(4)), verdicts=1)
    states = [check.state for check in checks]
    yield Paragraph(", ".join(f"{states.count(state)} {state}" for state in _CHECK_TONES))
