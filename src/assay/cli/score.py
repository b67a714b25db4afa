"""`assay score`: MLPerf training logs, scored by the rules of their round."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, echo_json
from assay.errors import EXIT_WORSE, InputError

if TYPE_CHECKING:
    from assay.analyse.score import ScoredSet
    from assay.logs.result_sets import ResultSet
    from assay.records import InferenceRun, TrainingRun

SCHEMA = "assay.score/1"
SILENT_S = 2.0  # reading that takes longer says how far it is


def round_of(text: str) -> str:
    """A round as MLCommons writes it. Raises ValueError on anything else."""
    if not re.fullmatch(r"v\d+\.\d+", text):
        raise ValueError(f"{text!r} is no round; write it like v3.1")
    return text


def _round(_ctx: click.Context, _option: click.Parameter, text: str | None) -> str | None:
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
    from assay.analyse.inference_rules import check_inference
    from assay.analyse.rules import NOT_VERIFIED
    from assay.cli.inference import inference_runs, run_json, told_apart

    training, folders = told_apart(paths)
    sets = held_against(stated, scored_sets(training, round_, rules=rules))
    inference = inference_runs(folders)
    if as_json:
        found = {"sets": [_set_json(scored) for scored in sets]}
        runs = {"inference": [run_json(run, rules=rules) for run in inference]}
        echo_json({"schema": SCHEMA, "label": NOT_VERIFIED, **found, **runs})
    else:
        _print(sets, inference, with_runs=runs_table, rules=rules)
    incomplete = any(run.status in ("unfinished", "invalid") for scored in sets for run in scored.runs)
    checks = [check for scored in sets for check in scored.checks]
    checks += [check for run in inference if rules for check in check_inference(run)]
    no_result = any(run.problem and not (run.mode or "").startswith("Accuracy") for run in inference)
    contradicted = any(doubt.code == "score-contradicts" for scored in sets for doubt in scored.doubts)
    if incomplete or no_result or contradicted or any(check.state == "fail" for check in checks):
        sys.exit(EXIT_WORSE)


def scored_sets(paths: Sequence[Path], round_: str | None = None, *, rules: bool = False) -> list[ScoredSet]:
    """Every set of result files below the paths, scored. Raises InputError where a path holds none.

    rules  hold each set against the rules of its round as well: every log is read once more
    """
    from assay.logs.result_sets import find_sets

    sets = ((found, _scored(found, round_)) for found in _told(find_sets(paths)))
    return [_checked(found, scored) if rules else scored for found, scored in sets]


def held_against(stated: str | None, sets: Sequence[ScoredSet]) -> Sequence[ScoredSet]:
    """The sets with what was published of them, and the doubt where it doesn't follow from their logs.

    stated  minutes of the only set, or the path of a sheet

    Raises InputError where it is neither, where one figure is given for several sets, or where none of a
    sheet's is of a set here.
    """
    from assay.analyse.doubts.published import score_contradicts
    from assay.logs.stated_scores import of_set, stated_scores

    if stated is None:
        return sets
    said = stated_scores(stated)
    if any(s.system is None for s in said) and len(sets) != 1:
        raise InputError(
            f"stated: one figure is given for {len(sets)} sets; score one set, or give a CSV of "
            "system,benchmark,minutes"
        )
    held = []
    for scored in sets:
        published = of_set(said, scored.system, scored.benchmark)
        if published is None:
            held.append(scored)
            continue
        what = f"{scored.benchmark or 'unknown benchmark'} on {scored.system or 'an unknown system'}, minutes"
        doubt = score_contradicts(
            published.minutes, scored.score.scaled, decimals=published.decimals, what=what
        )
        doubts = scored.doubts if doubt is None else (doubt, *scored.doubts)
        held.append(replace(scored, stated_minutes=published.minutes, doubts=doubts))
    if all(scored.stated_minutes is None for scored in held):
        here = ", ".join(f"{scored.system},{scored.benchmark}" for scored in held[:5])
        raise InputError(f"stated: no row of the sheet is of a set here; the sets are {here}")
    return held


def _checked(found: ResultSet, scored: ScoredSet) -> ScoredSet:
    from assay.analyse.mlperf_rounds import rules_of
    from assay.analyse.rules import check_set
    from assay.logs.outline import outline

    rules = rules_of(scored.benchmark, scored.round)
    outlines = [outline(file) for file in found.files]
    checks = check_set(scored.runs, outlines, rules, scaling_factor=scored.scaling_factor)
    return replace(scored, rules=rules, checks=checks)


def _scored(found: ResultSet, round_: str | None) -> ScoredSet:
    from assay.analyse.score import ScoredSet, score
    from assay.analyse.set_doubts import doubts_of_set
    from assay.logs.mlperf import training_runs
    from assay.records import Doubt

    runs = tuple(training_runs(found, round_=round_))
    benchmark = _most_common(run.benchmark for run in runs) or found.benchmark
    of_round = _most_common(run.round for run in runs) or found.round or round_
    result = score(runs, benchmark=benchmark, round_=of_round, scaling_factor=found.scaling_factor)
    beside = (
        Doubt("unreadable-file", f"{p.where}: {p.what}", "mend or remove the file; the score does without it")
        for p in found.problems
    )
    return ScoredSet(
        name=found.name,
        benchmark=benchmark,
        round=of_round,
        system=found.system,
        runs=runs,
        scaling_factor=found.scaling_factor,
        score=result,
        doubts=(
            *result.doubts,
            *doubts_of_set(runs, system=found.system, system_facts=found.system_facts),
            *beside,
        ),
    )


def _most_common(words: Iterable[str | None]) -> str | None:
    known = Counter(word for word in words if word is not None)
    return known.most_common(1)[0][0] if known else None


def _told(sets: Sequence[ResultSet]) -> Iterable[ResultSet]:
    """The sets, with a line about how far it is where a person waits for long."""
    began, told = time.monotonic(), False
    for at, found in enumerate(sets):
        if sys.stderr.isatty() and time.monotonic() - began > SILENT_S:
            click.echo(f"\r{at} of {len(sets)} sets read", nl=False, err=True)
            told = True
        yield found
    if told:
        click.echo("\r\x1b[K", nl=False, err=True)


def _print(
    sets: Sequence[ScoredSet], inference: Sequence[InferenceRun], *, with_runs: bool, rules: bool
) -> None:
    from rich.console import Console

    from assay.analyse.inference_rules import check_inference, doubts_of_inference
    from assay.analyse.rules import NOT_VERIFIED
    from assay.report.inference import inference_run
    from assay.report.rule_checks import rule_checks
    from assay.report.scores import scored_set

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
