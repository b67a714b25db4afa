"""`assay submit`: a folder laid out as MLPerf training's submissions are, read by MLPerf's own checkers."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, RUNS, echo_json
from assay.errors import EXIT_WORSE, InputError, Problem

if TYPE_CHECKING:
    from assay.records import Result
    from assay.submission import Description, Entry
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
    from assay.api.scores import round_of
    from assay.rundir.files import safe_name
    from assay.submission import compose
    from assay.submission.checkers import check
    from assay.submission.description import missing
    from assay.targets import ROUNDS

    try:
        known = round_of(round_) in ROUNDS[3:]  # the package checker's, from v1.0 on
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--round") from None
    if not known:
        checked = ", ".join(ROUNDS[3:])
        raise click.BadParameter(f"{round_} has no checkers; {checked} have", param_hint="--round")
    entries = _entries(sources, runs_dir)
    folder = output / safe_name(submitter)
    descriptions = compose(entries, folder, submitter)
    without_code = [
        b
        for b in dict.fromkeys(e.benchmark for e in entries)
        if not any((folder / "benchmarks" / b).iterdir())
    ]
    if not as_json:
        _print_folder(folder, entries, descriptions, without_code)
    findings = check(folder, round_)
    if as_json:
        echo_json(_json(folder, round_, entries, descriptions, without_code, findings))
    else:
        _print_findings(findings, round_)
    if without_code or any(missing(d.fields) for d in descriptions) or any(f.error for f in findings):
        sys.exit(EXIT_WORSE)


def _entries(sources: Sequence[str], runs_dir: Path) -> list[Entry]:
    """The runs of each benchmark on each system. Raises InputError with all that can't be submitted."""
    entries: list[Entry] = []
    problems: list[Problem] = []
    for source in sources:
        found = _of_folder(Path(source)) if Path(source).exists() else _of_runs(source, runs_dir)
        for entry in found:
            if isinstance(entry, Problem):
                problems.append(entry)
            else:
                entries.append(entry)
    twice = [names for names, count in Counter((e.system, e.benchmark) for e in entries).items() if count > 1]
    problems += [
        Problem(f"{benchmark} on {system}", "is named twice; name its runs once")
        for system, benchmark in twice
    ]
    if problems:
        raise InputError(problems)
    return entries


def _of_folder(folder: Path) -> Iterator[Entry | Problem]:
    from assay.api.scores import scored_sets
    from assay.logs.result_sets import find_sets
    from assay.submission import Entry

    sets = find_sets([folder])
    for of_set, scored in zip(sets, scored_sets([folder]), strict=True):
        if scored.benchmark is None or scored.system is None:
            what = "benchmark or system is not known; lay it out as SYSTEM/BENCHMARK/result_0.txt"
            yield Problem(str(of_set.directory), what)
            continue
        stated = {**_stated([run.hyperparameters for run in scored.runs]), **of_set.system_facts}
        yield Entry(scored.system, scored.benchmark, of_set.files, stated)


def _of_runs(reference: str, runs_dir: Path) -> Iterator[Entry | Problem]:
    from assay.api.evidence import run_set
    from assay.rundir.session import Session
    from assay.submission import Entry
    from assay.submission.description import agreed, described

    by_set: dict[tuple[str, str], list[Result]] = {}
    for result in run_set(runs_dir, reference).results:
        training = result.reading.training
        benchmark = training.benchmark if training else None
        if benchmark is None:
            yield Problem(result.run.id, "is no training that prints MLPerf's lines and names its benchmark")
            continue
        by_set.setdefault((result.run.trial.system, benchmark), []).append(result)
    for (system, benchmark), results in by_set.items():
        files = []
        for result in sorted(results, key=lambda result: (result.run.session, result.run.trial.block)):
            session, _, trial = result.run.id.rpartition("/")
            attempt = Session(runs_dir / session).last_attempts()[trial]
            attempt.run()  # says where its logs hold secrets, which are hidden from now on
            files.append(attempt.logs()[result.reading.training.file])  # type: ignore[union-attr]
        known = [described(result.provenance.nodes) for result in results if result.provenance]
        alike, _ = agreed(known)
        said = _stated([result.reading.training.hyperparameters for result in results])  # type: ignore[union-attr]
        yield Entry(system, benchmark, tuple(files), {**said, **alike})


def _stated(facts: Sequence[Any]) -> dict[str, Any]:
    """What all logs of a set say alike of division and availability."""
    from assay.submission.description import AVAILABLE

    divisions = {of_run.get("submission_division") for of_run in facts}
    states = {of_run.get("submission_status") for of_run in facts}
    found = {
        "division": divisions.pop() if len(divisions) == 1 else None,
        "status": AVAILABLE.get(str(states.pop())) if len(states) == 1 else None,
    }
    return {name: value for name, value in found.items() if value is not None}


def _print_folder(
    folder: Path, entries: Sequence[Entry], descriptions: Sequence[Description], without_code: Sequence[str]
) -> None:
    from assay.submission.description import FIELDS, missing
    from assay.units import counted

    for entry in entries:
        click.echo(
            f"{folder / 'results' / entry.system / entry.benchmark}: {counted(len(entry.files), 'run')}"
        )
    for description in descriptions:
        lacking = missing(description.fields)
        click.echo(f"{description.path}: {len(FIELDS) - len(lacking)} of {len(FIELDS)} fields known")
        width = max(map(len, lacking), default=0)
        for name in lacking:
            differ = " or ".join(map(str, description.differing.get(name, ())))
            click.echo(f"  {name:{width}}  {f'the runs differ: {differ}' if differ else FIELDS[name]}")
    for benchmark in without_code:
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


def _json(
    folder: Path,
    round_: str,
    entries: Sequence[Entry],
    descriptions: Sequence[Description],
    without_code: Sequence[str],
    findings: Sequence[Finding],
) -> dict[str, Any]:
    from assay.submission.description import missing

    return {
        "schema": SCHEMA,
        "folder": str(folder),
        "round": round_,
        "sets": [{"system": e.system, "benchmark": e.benchmark, "runs": len(e.files)} for e in entries],
        "systems": [
            {
                "system": d.system,
                "file": str(d.path),
                "missing": missing(d.fields),
                "differing": dict(d.differing),
            }
            for d in descriptions
        ],
        "without_code": list(without_code),
        "findings": [{"error": f.error, "text": f.text, "remedy": f.remedy} for f in findings],
    }
