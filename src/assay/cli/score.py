"""`assay score`: MLPerf training logs, scored by the rules of their round."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, echo_json
from assay.errors import EXIT_WORSE

if TYPE_CHECKING:
    from assay.analyse.score import ScoredSet
    from assay.logs.result_sets import ResultSet
    from assay.records import TrainingRun

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
@click.option("--runs-table/--no-runs-table", default=True, show_default=True, help="Show the single runs.")
@JSON
def command(paths: tuple[Path, ...], round_: str | None, runs_table: bool, as_json: bool) -> None:
    """Score MLPerf training logs: time to train by the rules of their benchmark and round.

    PATH is a folder with result_*.txt (.gz, .xz) anywhere below it, or a log file. Every folder with result
    files is a set. Its score is the mean of its runs without the fastest and the slowest, where it has as
    many runs as the rules ask for; else there is none, and the doubts say why. Nothing is written anywhere.

    \b
    Examples:
      assay score training_results_v3.1/NVIDIA
      assay score my-logs --round v4.0
      assay score result_0.txt --json

    \b
    Exit codes: 0 every file is a complete log; 1 a file is none (empty, cut short, without run_stop, …);
    4 a path doesn't exist or holds no result files. A run that did not converge is a complete log.
    """
    sets = scored_sets(paths, round_)
    if as_json:
        echo_json({"schema": SCHEMA, "sets": [_set_json(scored) for scored in sets]})
    else:
        _print(sets, with_runs=runs_table)
    if any(run.status in ("unfinished", "invalid") for scored in sets for run in scored.runs):
        sys.exit(EXIT_WORSE)


def scored_sets(paths: Sequence[Path], round_: str | None = None) -> list[ScoredSet]:
    """Every set of result files below the paths, scored. Raises InputError where a path holds none."""
    from assay.logs.result_sets import find_sets

    return [_scored(found, round_) for found in _told(find_sets(paths))]


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


def _print(sets: Sequence[ScoredSet], *, with_runs: bool) -> None:
    from rich.console import Console

    from assay.report.scores import scored_set

    console = Console(highlight=False)
    for scored in sets:
        console.print(scored_set(scored, with_runs=with_runs))


def _set_json(scored: ScoredSet) -> dict[str, Any]:
    score = scored.score
    return {
        "set": scored.name,
        "benchmark": scored.benchmark,
        "round": scored.round,
        "system": scored.system,
        "score_minutes": score.minutes,
        "scaled_score_minutes": score.scaled,
        "scaling_factor": scored.scaling_factor,
        "mean_minutes": score.mean,
        "std_minutes": score.std,
        "runs_required": score.rule.runs if score.rule else None,
        "runs": [_run_json(run) for run in scored.runs],
        "doubts": [asdict(doubt) for doubt in scored.doubts],
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
        "init_minutes": run.init_minutes,
        "evaluations": [list(point) for point in run.evaluations],
        "notes": list(run.notes),
    }
