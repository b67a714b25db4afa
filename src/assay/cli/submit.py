"""`assay submit`: a folder laid out as MLPerf training's submissions are, read by MLPerf's own checkers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.errors import EXIT_WORSE

if TYPE_CHECKING:
    from assay.api.submissions import Submission, SubmissionFolder
    from assay.submission.checkers import Finding

SCHEMA = "assay.submission/1"


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option("--round", "round_", required=True, metavar="ROUND", help="Whose rules are checked, like v5.1.")
@click.option("--submitter", required=True, metavar="NAME", help="Who submits; the folder's name.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    default=".",
    show_default=True,
    help="Directory in which the submitter's folder is made.",
)
@JSON
@RUNS
def command(
    sources: tuple[str, ...], round_: str, submitter: str, output: Path, as_json: bool, runs_dir: Path
) -> None:
    """Compose a submission to MLPerf training from runs, and have MLPerf's own checkers read it.

    A SOURCE is a folder of result files, or names runs as `assay list` does. Logs become result_N.txt. Of the
    33 fields that describe a system, those are filled in that the runs' provenance knows. The others are null
    in systems/SYSTEM.json: write them there ("" where none applies) and call again; what you wrote stays.

    Then mlperf-logging's package, compliance, seed, convergence and system checkers run (pip install
    mlperf-logging), and each finding is shown with how to fix it.

    \b
    Examples:
      assay submit my-results/dgx/resnet --round v4.0 --submitter Example -o submission
      assay submit resnet:dgx bert:dgx --round v5.1 --submitter Example
      assay submit round-5:dgx --round v5.1 --submitter Example --json

    \b
    Exit codes: 0 nothing is missing and no checker refuses; 1 something is, or does; 4 a source can't be
    used; 5 mlperf-logging is not installed.
    """
    from assay.api.submissions import check_round, submit

    try:
        check_round(round_)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--round") from None
    found = submit(
        *sources,
        round=round_,
        submitter=submitter,
        output=output,
        runs=runs_dir,
        composed=None if as_json else _print_folder,
    )
    if as_json:
        echo_json(_json(found, round_))
    else:
        _print_findings(found.findings, round_)
    if not found.complete:
        sys.exit(EXIT_WORSE)


def _print_folder(made: SubmissionFolder) -> None:
    from assay.submission.description import FIELDS, missing
    from assay.units import counted

    folder = made.path
    for entry in made.entries:
        click.echo(
            f"{folder / 'results' / entry.system / entry.benchmark}: {counted(len(entry.files), 'run')}"
        )
    for description in made.descriptions:
        lacking = missing(description.fields)
        click.echo(f"{description.path}: {len(FIELDS) - len(lacking)} of {len(FIELDS)} fields known")
        width = max(map(len, lacking), default=0)
        for name in lacking:
            differ = " or ".join(map(str, description.differing.get(name, ())))
            click.echo(f"  {name:{width}}  {f'the runs differ: {differ}' if differ else FIELDS[name]}")
    for benchmark in made.without_code:
        click.echo(f"{folder / 'benchmarks' / benchmark}: empty; put the code and its README there")


def _print_findings(findings: Sequence[Finding], round_: str) -> None:
    if not findings:
        click.echo(f"mlperf-logging finds nothing wrong by the rules of {round_}")
        return
    click.echo(f"mlperf-logging finds, by the rules of {round_}:")
    for finding in findings:
        click.echo(f"  {'error' if finding.error else 'warning'}: {finding.text}")
        if finding.remedy:
            click.echo(f"    {finding.remedy}")


def _json(found: Submission, round_: str) -> dict[str, Any]:
    from assay.submission.description import missing

    folder = found.folder
    return {
        "schema": SCHEMA,
        "folder": str(folder.path),
        "round": round_,
        "sets": [
            {"system": e.system, "benchmark": e.benchmark, "runs": len(e.files)} for e in folder.entries
        ],
        "systems": [
            {
                "system": d.system,
                "file": str(d.path),
                "missing": missing(d.fields),
                "differing": dict(d.differing),
            }
            for d in folder.descriptions
        ],
        "without_code": list(folder.without_code),
        "findings": [{"error": f.error, "text": f.text, "remedy": f.remedy} for f in found.findings],
    }
