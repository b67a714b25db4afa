"""`assay score`: MLPerf training logs, scored by the rules of their round."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, echo_json
from assay.errors import EXIT_WORSE

if TYPE_CHECKING:
    from assay.analyse.mlperf.score import ScoredSet
    from assay.records import InferenceRun, TrainingRun

SCHEMA = "assay.score/1"
SILENT_S = 2.0  # reading that takes longer says how far it is


def _round(_ctx: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    from assay.api.scores import round_of

    try:
        return None if text is None else round_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--round", "round_", callback=_round, help="Round where neither log nor folder says it, like v3.1."
)
@click.option(
    "--stated",
    metavar="MIN|CSV",
    help="A published score: of the one set in minutes, or of several in a CSV of system,benchmark,minutes.",
)
@click.option("--runs-table/--no-runs-table", default=True, show_default=True, help="Show the single runs.")
@click.option("--rules", is_flag=True, help="Show the rule used and each check: of the set, of each log.")
@JSON
def command(
    paths: tuple[Path, ...],
    round_: str | None,
    stated: str | None,
    runs_table: bool,
    rules: bool,
    as_json: bool,
) -> None:
    """Score MLPerf logs: time to train by the rules of benchmark and round, inference by its scenario.

    PATH is a folder with result_*.txt (.gz, .xz) anywhere below it, or a log file. Every folder with result
    files is a set. Its score is the mean of its runs without the fastest and the slowest, where it has as
    many runs as the rules ask for; else there is none, and the doubts say why. Nothing is written anywhere.

    With --stated the published score is held against the one that follows from the logs, scaling factor
    included, as rounded; where they differ the doubt `score-contradicts` is raised.

    A folder with LoadGen's mlperf_log_summary.txt or mlperf_log_detail.txt is a run of inference; so is a
    log that is named outright and holds the result line of MLPerf's reference app.

    \b
    Examples:
      assay score training_results_v3.1/NVIDIA
      assay score my-logs --round v4.0
      assay score my-logs --rules
      assay score my-logs/ssd --stated 22.36
      assay score my-logs --stated published.csv
      assay score result_0.txt --json
      assay score resnet50/Server/performance/run_1 --rules

    \b
    Exit codes: 0 every file is a complete log; 1 a file is none (empty, cut short, without run_stop, …),
    inference is no valid result, with --rules a check fails, or a stated score does not follow; 4 a path
    doesn't exist or holds no results.
    A run that did not converge is a complete log.
    """
    from assay.analyse.mlperf.rules import NOT_VERIFIED
    from assay.api.scores import score

    waiting = _WaitNotice()
    found = score(*paths, round=round_, stated=stated, rules=rules, progress=waiting.tell)
    waiting.close()
    if as_json:
        sets = {"sets": [_set_json(scored) for scored in found.sets]}
        runs = {"inference": [_inference_json(run, rules=rules) for run in found.inference]}
        echo_json({"schema": SCHEMA, "label": NOT_VERIFIED, **sets, **runs})
    else:
        _print(found.sets, found.inference, with_runs=runs_table, rules=rules)
    if not found.sound:
        sys.exit(EXIT_WORSE)


class _WaitNotice:
    """A line about how far it is, where a person waits for long."""

    def __init__(self) -> None:
        self._began, self._shown = time.monotonic(), False

    def tell(self, read: int, sets: int) -> None:
        """Show how many sets were read."""
        if sys.stderr.isatty() and time.monotonic() - self._began > SILENT_S:
            click.echo(f"\r{read} of {sets} sets read", nl=False, err=True)
            self._shown = True

    def close(self) -> None:
        """Take the line away."""
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)


def _print(
    sets: Sequence[ScoredSet], inference: Sequence[InferenceRun], *, with_runs: bool, rules: bool
) -> None:
    from rich.console import Console

    from assay.analyse.doubts.inference import doubts_of_inference
    from assay.analyse.mlperf.inference_rules import check_inference
    from assay.analyse.mlperf.rules import NOT_VERIFIED
    from assay.report.terminal.inference import inference_run
    from assay.report.terminal.rule_checks import rule_checks
    from assay.report.terminal.scores import scored_set

    console = Console(highlight=False)
    for scored in sets:
        console.print(scored_set(scored, with_runs=with_runs))
        if scored.rules:
            console.print(rule_checks(scored.rules, scored.checks))
    for run in inference:
        checks = check_inference(run) if rules else ()
        console.print(inference_run(run, doubts_of_inference(run), checks))
    if any(run.figures for run in inference) or any(s.score.mean is not None for s in sets):
        console.print(NOT_VERIFIED)


def _set_json(scored: ScoredSet) -> dict[str, Any]:
    score = scored.score
    return {
        "set": scored.name,
        "benchmark": scored.benchmark,
        "round": scored.round,
        "system": scored.system,
        "score_minutes": score.minutes,
        "official_rule_minutes": score.official,
        "scaled_score_minutes": score.scaled,
        "scaling_factor": scored.scaling_factor,
        "stated_minutes": scored.stated_minutes,
        "mean_minutes": score.mean,
        "std_minutes": score.std,
        "runs_required": score.rule.runs if score.rule else None,
        **_rules_json(scored),
        "runs": [_run_json(run) for run in scored.runs],
        "doubts": [asdict(doubt) for doubt in scored.doubts],
    }


def _rules_json(scored: ScoredSet) -> dict[str, Any]:
    """The rule and its checks, where they were asked for."""
    if scored.rules is None:
        return {}
    rule = scored.rules.runs
    return {
        "rule": str(scored.rules),
        "runs_dropped_each_side": rule.dropped if rule else None,
        "failures_allowed": rule.failures if rule else None,
        "targets": [asdict(target) for target in scored.rules.targets],
        "checks": [asdict(check) for check in scored.checks],
    }


def _run_json(run: TrainingRun) -> dict[str, Any]:
    return {
        "file": run.file,
        "status": run.status,
        "problem": run.problem or None,
        "minutes": run.minutes,
        "epochs": run.epochs,
        "minutes_per_epoch": run.minutes_per_epoch,
        "samples": run.samples,
        "samples_per_s": run.samples_per_s,
        "global_batch_size": run.global_batch_size,
        "train_samples": run.train_samples,
        "data_set_samples": run.data_set_samples,
        "target_reached": run.target_reached,
        "training_samples_per_s": run.training_samples_per_s,
        "tracked_samples_per_s": run.tracked_samples_per_s,
        "init_minutes": run.init_minutes,
        "phases": None if run.phases is None else asdict(run.phases),
        "evaluations": [list(point) for point in run.evaluations],
        "notes": list(run.notes),
    }


def _inference_json(run: InferenceRun, *, rules: bool) -> dict[str, Any]:
    """A run as plain data: its score and figures, what it was run with, doubts and checks."""
    from assay.analyse.doubts.inference import doubts_of_inference
    from assay.analyse.mlperf.inference_rules import check_inference

    document = {
        "run": run.name,
        "files": list(run.files),
        "place": asdict(run.place) if run.place else None,
        "scenario": run.scenario,
        "mode": run.mode,
        "validity": run.validity,
        "problem": run.problem or None,
        "score": asdict(run.score) if run.score else None,
        "figures": [asdict(figure) for figure in run.figures],
        "accuracy": _accuracy_json(run),
        "settings": {key: said.value for key, said in run.stated.items() if key.startswith("effective_")},
        "doubts": [asdict(doubt) for doubt in doubts_of_inference(run)],
    }
    if rules:
        document["checks"] = [asdict(check) for check in check_inference(run)]
    return document


def _accuracy_json(run: InferenceRun) -> dict[str, Any] | None:
    """The accuracy run next to a run: its figures, or why it states none; None where there is none."""
    if run.accuracy is None:
        return None
    figures = {metric: stated.value for metric, stated in run.accuracy.figures.items()}
    return {"figures": figures, "problem": run.accuracy.problem or None}
