"""`assay submit`: a folder laid out like an MLPerf training submission, checked by MLPerf's own checkers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.errors import EXIT_WORSE

if TYPE_CHECKING:
    from assay.questions.submit import SubmissionFolder
    from assay.submission.checkers import Finding


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option(
    "--round", "round_", required=True, metavar="ROUND", help="Round whose rules apply, such as v5.1."
)
@click.option(
    "--submitter", required=True, metavar="NAME", help="The submitter, which is also the folder's name."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    show_default=True,
    help="Directory in which the submitter's folder is created.",
)
@JSON
@RUNS
def command(
    sources: tuple[str, ...], round_: str, submitter: str, output: Path, as_json: bool, runs_dir: Path
) -> None:
    """Prepare an MLPerf training submission from runs, and have MLPerf's own checkers check it.

    A SOURCE is a folder of result files, or names runs as `assay list` does. Logs become result_N.txt. Of the
    33 fields that describe a system, those known from the runs' provenance are filled in. The others are null
    in systems/SYSTEM.json: fill them in ("" if none applies) and run the command again; it keeps what you
    wrote.

    Then mlperf-logging's package, compliance, seed, convergence and system checkers run (pip install
    mlperf-logging), and each finding is shown with how to fix it.

    \b
    Examples:
      assay submit my-results/dgx/resnet --round v4.0 --submitter Example -o submission
      assay submit resnet:dgx bert:dgx --round v5.1 --submitter Example
      assay submit round-5:dgx --round v5.1 --submitter Example --json

    \b
    Exit codes: 0 nothing is missing and all checkers pass; 1 something is missing or a checker fails; 4 a
    source can't be used; 5 mlperf-logging is not installed.
    """
    from assay.questions.submit import check_round, submit

    try:
        check_round(round_)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--round") from None
    submission = submit(
        *sources,
        round=round_,
        submitter=submitter,
        output=output,
        runs=runs_dir,
        composed=None if as_json else _print_folder,
    )
    if as_json:
        echo_json(submission.document(round_))
    else:
        _print_findings(submission.findings, round_)
    if not submission.complete:
        sys.exit(EXIT_WORSE)


def _print_folder(submission_folder: SubmissionFolder) -> None:
    from assay.submission.description import FIELDS, missing
    from assay.units import counted

    folder = submission_folder.path
    for entry in submission_folder.entries:
        click.echo(
            f"{folder / 'results' / entry.system / entry.benchmark}: {counted(len(entry.files), 'run')}"
        )
    for description in submission_folder.descriptions:
        lacking = missing(description.fields)
        click.echo(f"{description.path}: {len(FIELDS) - len(lacking)} of {len(FIELDS)} fields known")
        width = max(map(len, lacking), default=0)
        for name in lacking:
            differ = " or ".join(map(str, description.differing.get(name, ())))
            click.echo(f"  {name:{width}}  {f'the runs differ: {differ}' if differ else FIELDS[name]}")
    for benchmark in submission_folder.without_code:
        click.echo(f"{folder / 'benchmarks' / benchmark}: empty; add the code and its README there")


def _print_findings(findings: Sequence[Finding], round_: str) -> None:
    if not findings:
        click.echo(f"mlperf-logging finds no problem under the rules of {round_}")
        return
    click.echo(f"mlperf-logging finds these problems under the rules of {round_}:")
    for finding in findings:
        click.echo(f"  {'error' if finding.error else 'warning'}: {finding.text}")
        if finding.remedy:
            click.echo(f"    {finding.remedy}")
