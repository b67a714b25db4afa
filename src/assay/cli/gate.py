"""`assay gate`: for CI, an exit code that says whether something is still as good as its baseline."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, MARGIN, RUNS, echo_json
from assay.errors import EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE

if TYPE_CHECKING:
    from assay.analyse.comparison.gate import Answer
    from assay.api.gates import GateResult

EXIT_CODES: dict[Answer, int] = {"holds": EXIT_OK, "worse": EXIT_WORSE, "undecided": EXIT_UNDECIDED}


@click.command(options_metavar="--baseline B [OPTIONS]")
@click.argument("a")
@click.option("--baseline", required=True, metavar="B", help="What A is held against.")
@MARGIN
@click.option("--metric", help="Only this metric, instead of each benchmark's primary one.")
@click.option(
    "--junit",
    "junit_file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Write JUnit XML there: worse is a failure, undecided an error.",
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
    """Say by exit code whether A is no worse than its baseline, but for a margin.

    A and B are runs as `assay list` shows them: `suite` is a suite's newest session, `suite/session` that
    one, `suite:system` all of a system's finished runs since the suite last changed; or an imported set. A
    may be better by any amount. Whether it is worse rests on 95 % intervals; with few runs the answer is
    "undecided".

    \b
    Examples:
      assay gate nightly --baseline nightly/2026-03-01T021500Z --margin 2%
      assay gate resnet50:new-driver --baseline resnet50:old-driver --junit gate.xml

    \b
    Exit codes: 0 holds; 1 worse by more than the margin; 3 undecided, or nothing was measured on one
    side; 4 there is nothing to compare.
    """
    from assay.api.gates import gate

    found = gate(a, baseline=baseline, margin=margin, metric=metric, runs=runs_dir)
    if junit_file is not None:
        _write(junit_file, f"{a} against {baseline}", found)
    if as_json:
        echo_json(_document(found))
    else:
        _show(found)
    sys.exit(EXIT_CODES[found.answer])


def _write(file: Path, name: str, found: GateResult) -> None:
    from assay.durable import write_atomic, writing
    from assay.report.junit import junit

    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(file, junit(name, found.judged, found.missing, found.open).encode(), lasting=False)


def _show(found: GateResult) -> None:
    from assay.report import figures
    from assay.report.sentences import sentences

    for one in found.judged:
        c = one.comparison
        place = f"{c.point.benchmark} {figures.metric(c.point.metric)} on {figures.where(c.point)}"
        click.echo(f"{one.answer}: {place}, {c.b} over {c.a} {figures.compared(c)}: {one.reason}")
    for question in found.open:
        click.echo(f"undecided: {question}")
    for point, why in found.missing:
        place = f"{point.benchmark} {figures.metric(point.metric)} on {figures.where(point)}"
        click.echo(f"undecided: {place}: {why}")
    if held_together := sentences.together([one.comparison for one in found.judged]):
        click.echo(
            f'{held_together} "holds" rests on the interval taken alone, "worse" on that of all claims.'
        )
    codes = sorted({doubt.code for one in found.judged for doubt in one.comparison.doubts})
    if codes:
        click.echo(f"doubts: {', '.join(codes)} (`assay compare` says more)")
    reserved = sentences.reservations(sentences.questions([one.comparison for one in found.judged]))
    answer = f"{found.answer} at a margin of {figures.percent(found.margin)}."
    click.echo(" ".join(filter(None, (answer, reserved))))


def _document(found: GateResult) -> dict[str, Any]:
    from assay.records import to_plain

    return {
        "schema": "assay.gate/1",
        "answer": found.answer,
        "margin": found.margin,
        "judged": [
            {"answer": one.answer, "reason": one.reason, "comparison": to_plain(one.comparison)}
            for one in found.judged
        ],
        "missing": [{"point": to_plain(point), "reason": why} for point, why in found.missing],
        "open": to_plain(found.open),
    }
