"""`assay compare`: the verdict."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, MARGIN, RUNS, echo_json
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE

if TYPE_CHECKING:
    from assay.analyse.rankings.ranking import Ranking
    from assay.questions.compare import Comparisons
    from assay.records import Verdict

CODES_OF_ANSWERS: dict[Verdict, int] = {
    "equivalent": EXIT_OK,
    "faster": EXIT_OK,
    "slower": EXIT_WORSE,
    "undecided": EXIT_UNDECIDED,
}


@click.command()
@click.argument("a")
@click.argument("b", required=False)
@MARGIN
@click.option("--metric", help="Only this metric.")
@click.option("--all", "every", is_flag=True, help="Show all metrics, not only each benchmark's primary one.")
@click.option(
    "--baseline",
    metavar="SYSTEM",
    help="With A alone: what to compare its other systems with. [default: its own]",
)
@click.option(
    "--layouts", is_flag=True, help="Also compare shapes with equal accelerators, such as 16x1 and 2x8."
)
@click.option(
    "--reference",
    "references",
    multiple=True,
    metavar="SET",
    help="Compare the convergence of both sides with these runs; repeatable.",
)
@RUNS
@JSON
def command(
    a: str,
    b: str | None,
    margin: float | None,
    metric: str | None,
    every: bool,
    baseline: str | None,
    layouts: bool,
    references: tuple[str, ...],
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Compare B with A: a ratio, its 95 % interval from the runs, and a verdict.

    A and B are runs as `assay list` shows them: `suite` is a suite's newest session, `suite/session` is that
    session, `suite:system` is all of a system's finished runs since the suite last changed; or an imported
    set. With A alone, its other systems are compared with its baseline. The ratio is B/A, of geometric means.
    More than four systems without a baseline, such as an imported round, are ranked: in total, per
    accelerator, and by which of them may be the best, at 95 % for all jointly.

    \b
    Examples:
      assay compare quickstart                                   all systems with the baseline
      assay compare v4.0                                         a round: a ranking for each benchmark
      assay compare v4.0 --baseline dgxh100_ngc24.04_pytorch
      assay compare resnet50:bare-metal resnet50:openshift
      assay compare resnet50/2026-03-01T101500Z resnet50/2026-03-08T090000Z --margin 1%
      assay compare v3.0-ubuntu v3.1-openshift --metric time_to_train --json
      assay compare nccl:pods-of-8 nccl:pods-of-1 --layouts --metric busbw
      assay compare pod-sizes --layouts                         2x8 with 16x1 of one system
      assay compare one-node two-nodes --reference reference-256 --reference reference-512

    \b
    Verdicts: equivalent, the interval is within the margin; faster or slower, it excludes 1;
    undecided, neither, with the reason. JSON contains every metric. If a benchmark's primary metric was
    measured on only one side, it has no verdict, whatever else was compared.

    An exchange measured at several sizes is one line, with the sizes at which B is slower; its intervals hold
    at all sizes jointly. --all shows each size.

    For trainings to a target, the time to train is split into convergence (how many epochs: the
    seed's luck and the recipe) and system (time per epoch), with what is not like for like.

    \b
    Exit codes, by the primary metrics: 0 all equivalent or faster; 1 one is slower; 3 otherwise, one is
    undecided or was measured on only one side; 4 nothing to compare. A ranking exits with 0.
    """
    from assay.questions.compare import compare, rank

    alone = b is None and baseline is None and not layouts
    if alone and (ranked := rank(a, metric=metric, runs=runs_dir)):
        _show_rankings(ranked, every=every, as_json=as_json)
        return
    found = compare(
        a,
        b,
        margin=margin,
        metric=metric,
        layouts=layouts,
        reference=references,
        baseline=baseline,
        runs=runs_dir,
    )
    if as_json:
        from assay.documents.comparisons import document

        echo_json(document(found))
    else:
        _show(found, every=every)
        _show_splits(found)
    sys.exit(CODES_OF_ANSWERS[found.verdict])


def _show_rankings(ranked: Sequence[Ranking], *, every: bool, as_json: bool) -> None:
    from assay.report.sentences import ranking as ranking_words

    if as_json:
        echo_json({"schema": "assay.ranking/1", "rankings": ranking_words.plain(ranked)})
        return
    from assay.cli.console import Console

    Console(highlight=False).print(ranking_words.terminal(ranked, every=every))


def _show(found: Comparisons, *, every: bool) -> None:
    from assay.cli.console import Console
    from assay.report import figures
    from assay.report.terminal import verdicts as terminal

    shown = found.comparisons if every else found.primary
    if found.primary or found.open:
        Console().print(terminal.advice(found.primary, open_questions=found.open), end="")
    if shown:
        Console().print(terminal.verdicts(shown, folded=not every))
        Console().print(terminal.whys(found.primary, found.sides, found.margin), end="")
    if len(found.comparisons) > len(shown):
        more = len(found.comparisons) - len(shown)
        click.echo(f"{more} more comparisons of other metrics; show them with --all or --metric NAME.")
    for point, why in found.not_compared:
        place = f"{point.benchmark} {figures.metric(point.metric)}, {figures.where(point)}"
        click.echo(f"Not compared: {place}: {why}.")


def _show_splits(found: Comparisons) -> None:
    if not (found.time_to_train or found.not_split or found.convergence):
        return
    from assay.cli.console import Console
    from assay.report.terminal import split as split_terminal

    Console().print(split_terminal.splits(found.time_to_train, found.not_split, found.convergence))
