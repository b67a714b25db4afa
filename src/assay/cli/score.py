"""`assay score`: MLPerf training logs, scored by the rules of their round."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, echo_json
from assay.cli.redacting_stream import show_progress
from assay.errors import EXIT_WORSE

if TYPE_CHECKING:
    from assay.analyse.mlperf.score import ScoredSet
    from assay.records import InferenceRun

SILENT_S = 2.0  # reading that takes longer reports its progress


def _round(_ctx: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    from assay.questions.score import round_of

    try:
        return None if text is None else round_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--round", "round_", callback=_round, help="Round, if neither log nor folder states it, such as v3.1."
)
@click.option(
    "--stated",
    metavar="MIN|CSV",
    help=(
        "A published score: of the only set, in minutes, or of several in a CSV of system,benchmark,minutes."
    ),
)
@click.option("--runs-table/--no-runs-table", default=True, show_default=True, help="Show individual runs.")
@click.option("--rules", is_flag=True, help="Show the rules used and each check: of the set, of each log.")
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
    files is a set. Its score is the mean of its runs without the fastest and the slowest, if it has as
    many runs as the rules require; otherwise it has no score, and the doubts state why. Nothing is written.

    --stated compares the published score with the one that follows from the logs, including the scaling
    factor, after rounding; if they differ, the doubt `score-contradicts` is raised.

    A folder with LoadGen's mlperf_log_summary.txt or mlperf_log_detail.txt is an inference run; so is a
    log that you name directly and that contains the result line of MLPerf's reference app.

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
    Exit codes: 0 every file is a complete log; 1 a file is not (empty, cut short, without run_stop, …),
    an inference run is not a valid result, a check fails (--rules), or a stated score does not follow;
    4 a path doesn't exist or contains no results.
    A run that did not converge is a complete log.
    """
    from assay.questions.score import score

    waiting = _WaitNotice()
    scores = score(*paths, round=round_, stated=stated, rules=rules, progress=waiting.tell)
    waiting.close()
    if as_json:
        echo_json(scores.document(rules=rules))
    else:
        _print(scores.sets, scores.inference, with_runs=runs_table, rules=rules)
    if not scores.sound:
        sys.exit(EXIT_WORSE)


class _WaitNotice:
    """A progress line, if the user has to wait."""

    def __init__(self) -> None:
        self._began, self._shown = time.monotonic(), False

    def tell(self, read: int, sets: int) -> None:
        """Show how many sets were read."""
        if sys.stderr.isatty() and time.monotonic() - self._began > SILENT_S:
            click.echo(f"\r{read} of {sets} sets read", nl=False, err=True)
            self._shown = True

    def close(self) -> None:
        """Remove the line."""
        if self._shown:
            show_progress("")


def _print(
    sets: Sequence[ScoredSet], inference: Sequence[InferenceRun], *, with_runs: bool, rules: bool
) -> None:
    from assay.analyse.doubts.inference import doubts_of_inference
    from assay.analyse.mlperf.inference_rules import check_inference
    from assay.analyse.mlperf.rules import NOT_VERIFIED
    from assay.cli.console import Console
    from assay.report.terminal.scores import inference_run, rule_checks, scored_set

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
