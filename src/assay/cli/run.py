"""`assay run`: run a suite, with progress, to its verdict."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from assay.cli.options import JSON, QUIET, RUNS, echo_json
from assay.cli.until_options import check_limits, until_options
from assay.errors import (
    EXIT_ENVIRONMENT,
    EXIT_OK,
    EXIT_UNDECIDED,
    EXIT_WORSE,
)
from assay.questions.question import form_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.cli.console import Console
    from assay.questions.run import Outcome, RunResult
    from assay.records import Comparison
    from assay.run.drive import CompletedSession
    from assay.view.contents import Contents

CODES_OF_ANSWERS: dict[Outcome, int] = {
    "good": EXIT_OK,
    "worse": EXIT_WORSE,
    "undecided": EXIT_UNDECIDED,
    "left": EXIT_ENVIRONMENT,
}


@click.command()
@click.argument("suite", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@click.option(
    "--systems",
    "systems_file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Where to run. [default: systems.yaml next to the suite]",
)
@click.option("--system", "only", multiple=True, metavar="NAME", help="Run only this system; repeatable.")
@click.option("--new", is_flag=True, help="Start a new session even if one is unfinished.")
@click.option(
    "--failed", is_flag=True, help="Repeat the failed trials of the newest session in that session."
)
@until_options
@click.option("--baseline", metavar="B", help="Compare the session with these runs, like `assay gate`.")
@QUIET
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path, dir_okay=False, writable=True),
    help="Also write the HTML page to this file.",
)
@RUNS
@JSON
def command(
    suite: Path,
    systems_file: Path | None,
    only: tuple[str, ...],
    new: bool,
    failed: bool,
    until: str | None,
    max_repeats: int | None,
    max_time: float | None,
    baseline: str | None,
    quiet: bool,
    report_file: Path | None,
    runs_dir: Path,
    as_json: bool,
) -> None:
    """Run SUITE with live progress, and end with its verdict; run it again to resume.

    Finished trials are kept, a job that is still running is taken over, and a lost one is retried. When all
    trials are done, the next run starts a new session; --failed repeats what failed in the newest one, with
    the same suite, systems and options, and keeps the previous attempts. Progress goes to standard error,
    results to standard output.

    \b
    Examples:
      assay run suite.yaml
      assay run suite.yaml --system bare-metal      one side; the other may follow later, elsewhere
      assay run suite.yaml --failed                 after you fixed the cause of a failure
      assay run suite.yaml --report page.html
      assay run suite.yaml --json > results.json
      assay run suite.yaml --until decided --max-repeats 32 --max-time 8h
      assay run suite.yaml --baseline suite/2026-03-01T021500Z

    Until decided, the number of runs is not the suite's `repeats`: blocks are added until each primary
    comparison is equivalent, faster or slower. Assay looks only after 3, 5, 8, 12, 20, … blocks, and every
    interval allows for all looks up to the maximum (95 % hold at all of them jointly), so that stopping early
    does not mislead more often. A larger --max-repeats later is a new test that starts without runs.

    \b
    Exit codes: 0 all trials gave a result and every requirement holds; 1 a trial failed, a
    requirement does not hold, or the session is worse than its baseline; 3 a requirement is undecided, or
    with --until a comparison is, or the one with the baseline;
    5 a platform or a system can't be used: its trials remain and don't count as failed; fix it and run again;
    130 stopped by Ctrl-C; run again to resume.
    """
    if new and failed:
        raise click.UsageError("--failed repeats trials of an existing session; --new starts another one")
    try:
        form_of(report_file, None, {".html": "html"})
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    check_limits(until, max_repeats, max_time)
    from assay.cli.progress import teller
    from assay.questions.run import run

    result = run(
        suite,
        systems=systems_file,
        system=only,
        new=new,
        failed=failed,
        until="decided" if until else None,
        max_repeats=max_repeats,
        max_time=max_time,
        baseline=baseline,
        runs=runs_dir,
        progress=teller(quiet),
        command_line=("assay", *sys.argv[1:]),
    )
    if as_json:
        echo_json(result.document())
    else:
        show_result(result)
    if report_file is not None:
        _write_report(result.completed, report_file, runs_dir)
    sys.exit(CODES_OF_ANSWERS[result.outcome])


def _show_verdicts(console: Console, primary: Sequence[Comparison], contents: Contents) -> None:
    """What to do, then each verdict with its reason."""
    from assay.view import verdicts
    from assay.view.terminal import shown

    if primary or contents.requirements or contents.open:
        console.print(shown([verdicts.advice(primary, contents.requirements, contents.open)]), end="")
    if primary:
        console.print(shown(verdicts.verdicts(primary, doubted=False, folded=True)))
        console.print(shown(verdicts.whys(primary, contents.sides, contents.margin)), end="")
        console.print()


def show_result(result: RunResult) -> None:
    """The verdicts first, then what they rest on, what failed, and what to do next."""
    from assay.cli.console import Console
    from assay.view import verdicts
    from assay.view.sentences.exchange import first_transport_line
    from assay.view.terminal import printable, shown

    completed, contents, primary = result.completed, result.contents, result.primary
    console = Console(highlight=False)
    if otherwise := first_transport_line(completed.results):
        console.print(f"! other-transport: {otherwise}", style="bold red", markup=False, soft_wrap=True)
    console.print()
    _show_verdicts(console, primary, contents)
    if contents.curves:
        console.print(shown(verdicts.scaling(contents.curves, doubted=False)))
        console.print()
    if not (contents.comparisons or contents.curves or contents.requirements):
        for line in _alone(contents):
            console.print(line, markup=False, soft_wrap=True)
    if doubted := result.doubts:
        console.print(shown([verdicts.doubts_in_short(doubted)]))
    if contents.requirements:
        console.print(shown(verdicts.requirements(contents.requirements)))
    if completed.failures:
        console.print(
            f"{len(completed.failures)} of {len(completed.results)} trials failed:", style="bold red"
        )
    for note in (*_failed(completed), *_done_again(completed), *_held(completed)):
        console.print(note, markup=False, soft_wrap=True)
    if completed.look is not None:
        console.print(completed.look.words, markup=False, soft_wrap=True)
    if result.gate is not None:
        console.print(shown(result.gate.view()))
    session = completed.session
    console.print(f"\nStored in {printable(str(session.path))}", markup=False, soft_wrap=True)
    for line in _next_commands(completed):
        console.print(f"  {line}", markup=False, soft_wrap=True)


def _failed(completed: CompletedSession) -> Iterator[str]:
    """Each failed trial with its cause."""
    for failure in completed.failures:
        cause = failure.run.cause or "; ".join(failure.reading.problems)
        yield f"  {failure.run.trial.id}: {cause}"


def _held(completed: CompletedSession) -> Iterator[str]:
    """What blocks the remaining trials, and how many each."""
    from assay.run.trial_state import trials_of_extent, within

    for run in completed.held:
        left = sum(within(run.extent, run.trial, trial) for trial in completed.left)
        number = "1 trial is" if left == 1 else f"{left} trials are"
        yield f"{trials_of_extent(run.extent, run.trial)}: {number} not run, because {run.cause}"
    if completed.held:
        yield "Fix that and run the same command again: it resumes this session and keeps finished trials."


def _done_again(completed: CompletedSession) -> Iterator[str]:
    """Each trial that was repeated because the platform lost it: how often each, and the last reason."""
    for result in completed.results:
        lost = completed.lost(result)
        again = sum(run.attempt < result.run.attempt for run in lost)
        if not again:
            continue
        done = "repeated" if again == len(lost) else f"repeated {_times(again)}"
        yield f"{result.run.trial.id}: lost by the platform {_times(len(lost))} and {done} ({lost[-1].cause})"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _alone(contents: Contents) -> Iterator[str]:
    """One line per point, and one per curve over sizes, if there is nothing to compare with."""
    from assay.analyse.points.groups import SIZE
    from assay.view.sentences import exchange as exchange_words

    drawn = {(curve.system, curve.benchmark, curve.shape) for curve in contents.exchanges}
    for summary in contents.summaries:
        point = summary.point
        if SIZE not in point.labels or (summary.side, point.benchmark, point.shape) not in drawn:
            yield _line(summary)
    for curve in contents.exchanges:
        yield f"{exchange_words.heading(curve)}: {exchange_words.describe_curve(curve)}"


def _line(summary: Any) -> str:
    """One point if there is nothing to compare with: mean, interval, n."""
    from assay.units import human
    from assay.view import figures

    estimate, point = summary.estimate, summary.point
    interval = ""
    if estimate.low is not None:
        interval = f" ({human(estimate.low, estimate.unit)} to {human(estimate.high, estimate.unit)})"
    place = f"{summary.side} {point.benchmark} {figures.where(point)} {figures.metric(point.metric)}"
    return f"{place}: {human(estimate.value, estimate.unit)}{interval}, n = {estimate.n}"


def _next_commands(completed: CompletedSession) -> list[str]:
    name = completed.session.id
    shown = completed.failures[0].run.id if completed.failures else name
    commands = [
        f"assay show {shown}",
        f"assay report {name} -o {completed.plan.suite}.html",
        "assay explain CODE     what a doubt means and what to do about it",
    ]
    if completed.failures:
        commands.insert(1, "assay run … --failed     the same command repeats what failed, in this session")
    if len(completed.plan.systems) > 1:
        commands.insert(0, f"assay compare {name} --all")
    return commands


def _write_report(completed: CompletedSession, file: Path, runs_dir: Path) -> None:
    """The page as `assay report` makes it, including provenance and the recipe."""
    from assay.durable import deliver
    from assay.questions.report import report

    deliver(file, report(completed.session.id, runs=runs_dir).text().encode(), option="--report")
    click.echo(f"Report: {file}", err=True)
