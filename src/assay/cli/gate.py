"""`assay gate`: for CI, an exit code that shows whether something is still as good as its baseline."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, MARGIN, RUNS, echo_json
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE

if TYPE_CHECKING:
    from assay.analyse.comparison.gate import Answer
    from assay.questions.gate import GateResult, GateSide

MOST_NAMED = 4  # sessions of one side in one line
CODES_OF_ANSWERS: dict[Answer, int] = {"holds": EXIT_OK, "worse": EXIT_WORSE, "undecided": EXIT_UNDECIDED}


@click.command(options_metavar="--baseline B [OPTIONS]")
@click.argument("a")
@click.option("--baseline", required=True, metavar="B", help="What to compare A with.")
@MARGIN
@click.option("--metric", help="Only this metric, instead of each benchmark's primary one.")
@click.option(
    "--junit",
    "junit_file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write JUnit XML to this file: worse is a failure, undecided an error.",
)
@RUNS
@JSON
def command(
    a: str,
    baseline: str,
    margin: float | None,
    metric: str | None,
    junit_file: Path | None,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Check by exit code that A is no worse than its baseline, within a margin.

    A and B are runs as `assay list` shows them: `suite` is a suite's newest session, `suite/session` is that
    session, `suite:system` is all of a system's finished runs since the suite last changed; or an imported
    set. A may be better by any amount. Whether it is worse depends on 95 % intervals; with few runs the
    answer is "undecided".

    \b
    Examples:
      assay gate nightly --baseline nightly/2026-03-01T021500Z --margin 2%
      assay gate resnet50:new-driver --baseline resnet50:old-driver --junit gate.xml

    \b
    Exit codes: 0 holds; 1 worse by more than the margin; 3 undecided, or something was measured on only one
    side; 4 nothing to compare.
    """
    from assay.questions.gate import gate

    found = gate(a, baseline=baseline, margin=margin, metric=metric, runs=runs_dir)
    if junit_file is not None:
        _write(junit_file, f"{a} compared with {baseline}", found)
    if as_json:
        from assay.documents.gates import document

        echo_json(document(found))
    else:
        show(found)
    sys.exit(CODES_OF_ANSWERS[found.answer])


def _write(file: Path, name: str, found: GateResult) -> None:
    from assay.durable import deliver
    from assay.report.junit import junit

    deliver(file, junit(name, found.judged, found.missing, found.open).encode(), option="--junit")


def show(found: GateResult) -> None:
    """Each comparison with its answer, then the overall one."""
    from assay.report import figures
    from assay.report.sentences import sentences

    for one in found.judged:
        c = one.comparison
        place = f"{c.point.benchmark} {figures.metric(c.point.metric)} on {figures.where(c.point)}"
        n = f"n = {sentences.runs_behind(c)}"
        click.echo(f"{one.answer}: {place}, {c.b}/{c.a} {figures.compared(c)}, {n}: {one.reason}")
    for question in found.open:
        click.echo(f"undecided: {question}")
    for point, why in found.missing:
        place = f"{point.benchmark} {figures.metric(point.metric)} on {figures.where(point)}"
        click.echo(f"undecided: {place}: {why}")
    for side in found.sides:
        click.echo(_pooled(side))
    if held_together := sentences.together([one.comparison for one in found.judged]):
        click.echo(
            f'{held_together} "holds" rests on the interval taken alone, "worse" on the one for all claims.'
        )
    codes = sorted({doubt.code for one in found.judged for doubt in one.comparison.doubts})
    if codes:
        click.echo(f"doubts: {', '.join(codes)} (for details, run `assay compare`)")
    reserved = sentences.reservations(sentences.questions([one.comparison for one in found.judged]))
    bound = " in these two sessions" * any(one.comparison.apart for one in found.judged)
    answer = f"{found.answer}{bound} at a margin of {figures.percent(found.margin)}."
    click.echo(" ".join(filter(None, (answer, reserved))))


def _pooled(side: GateSide) -> str:
    """`new: 6 runs in 2 sessions: nightly/2026-03-01T021500Z, nightly/2026-03-02T021500Z`."""
    from assay.units import counted

    named = side.sessions if len(side.sessions) <= MOST_NAMED else (side.sessions[0], "…", side.sessions[-1])
    pooled = f"{counted(side.runs, 'run')} in {counted(len(side.sessions), 'session')}"
    return f"{side.name}: {pooled}" + (f": {', '.join(named)}" if named else "")
