"""A suite, run to its verdict."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from assay.errors import EXIT_ENVIRONMENT, EXIT_OK, EXIT_UNDECIDED, EXIT_WORSE, InterruptedRun
from assay.questions.evidence import RunSet, reindex, run_set
from assay.questions.gate import BASELINE_FILE
from assay.questions.plan import SuiteQuestion
from assay.questions.question import Answer, Reads, argument, form_of, function, option, question, supplied
from assay.questions.values import present_file
from assay.run.progress import Silence, Tell
from assay.suite import Suite, Systems
from assay.view.blocks import Paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from assay.questions.gate import GateResult
    from assay.records import Comparison, Doubt, Result
    from assay.run.drive import CompletedSession
    from assay.run.interim_looks import Look
    from assay.view.blocks import Block
    from assay.view.contents import Contents, Summary

Outcome = Literal["good", "worse", "undecided", "left"]
EXIT_CODES: Final[Mapping[Outcome, int]] = {
    "good": EXIT_OK,
    "worse": EXIT_WORSE,
    "undecided": EXIT_UNDECIDED,
    "left": EXIT_ENVIRONMENT,
}
_log = logging.getLogger("assay")


@question
class Run(SuiteQuestion):
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

    suite: Annotated[str | PathLike[str] | Suite, Reads(present_file, "FILE")] = argument()
    systems: Annotated[str | PathLike[str] | Systems, Reads(present_file, "FILE")] | None = option(
        "Where to run. [default: systems.yaml next to the suite]", default=None, local=True
    )
    new: bool = option("Start a new session even if one is unfinished.", default=False)
    failed: bool = option("Repeat the failed trials of the newest session in that session.", default=False)
    baseline: str | None = option(
        "Compare the session with these runs, like `assay gate`.", default=None, metavar="B"
    )
    quiet: bool = option("Show nothing before the results.", default=False, output=True)
    report: Path | None = option("Also write the HTML page to this file.", default=None, output=True)
    progress: Tell | None = supplied("sessions", default=None)
    command_line: Sequence[str] = supplied("command line", default=())

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.new and self.failed:
            raise ValueError("--failed repeats trials of an existing session; --new starts another one")
        form_of(self.report, None, {".html": "html"})

    @contextmanager
    def answering(self) -> Iterator[RunResult]:
        """After the results were shown, writes the page as `assay report` makes it."""
        result = self.answer()
        yield result
        if self.report is not None:
            from assay.durable import deliver
            from assay.questions.report import report

            page = report(result.completed.session.id, runs=self.runs).text()
            deliver(self.report, page.encode(), option="--report")
            _log.info("Report: %s", self.report)

    def answer(self) -> RunResult:
        """The session to its end; the same question resumes one that was stopped.

        Raises InputError for what can't be run as written, BusyError if another Assay process works on the
        session, HostError if this machine can't continue, PlatformError if a system's platform can't be used,
        and InterruptedRun after Ctrl-C or SIGTERM. Whatever is raised, the same question resumes from there.
        """
        from assay.run.drive import run_suite

        request = self.request(
            new=self.new,
            failed=self.failed,
            command_line=self.command_line,
            beside={} if self.baseline is None else {BASELINE_FILE: f"{self.baseline}\n"},
        )
        if self.baseline is not None:
            run_set(request.runs_dir, self.baseline)  # before hours of runs, not after them
        try:
            completed = run_suite(request, self.progress or Silence)
        except KeyboardInterrupt:
            raise InterruptedRun(
                "interrupted immediately: a job may still be ending; the same command resumes from there"
            ) from None
        contents, compared = contents_of(completed, request.runs_dir), None
        if (
            self.baseline is not None
            and not completed.left
            and any(result.counts for result in completed.results)
        ):
            from assay.questions.gate import gate

            compared = gate(completed.session.id, baseline=self.baseline, runs=request.runs_dir)
        return RunResult(completed, contents, compared)


run = function(Run, Run.answer)


_EMPTY: Final = Paragraph("")


@dataclass(frozen=True)
class RunResult(Answer):
    """The result of `run`.

    completed  the session, its plan, the last result of each trial, and what remains
    contents   the contents of its report, without provenance and recipe
    gate       the session compared with a baseline; None if there is none, or nothing to compare yet
    """

    completed: CompletedSession
    contents: Contents
    gate: GateResult | None = None

    @property
    def primary(self) -> list[Comparison]:
        """Comparisons that the verdicts rest on."""
        return [c for question in self.contents.questions for c in question.comparisons]

    @property
    def doubts(self) -> list[Doubt]:
        """The doubts of all results, each once, without those that belong to a requirement."""
        contents = self.contents
        doubted = [d for c in self.primary for d in c.doubts]
        doubted += [d for curve in contents.curves for point in curve.points for d in point.doubts]
        doubted += [d for study in contents.studies for d in study.doubts]
        required = {d.code for requirement in contents.requirements for d in requirement.doubts}
        doubted += [d for _, alone in contents.alone for d in alone if d.code not in required]
        return list(dict.fromkeys(doubted))

    @property
    def outcome(self) -> Outcome:
        """The overall answer.

        `left`: a platform or a system can't be used, and its trials remain; else `worse`: a trial failed or
        a requirement does not hold, or the session is worse than its baseline; else `undecided`: a
        requirement is, or a comparison of a run until decided, or with the baseline; else `good`.
        """
        answer = None if self.gate is None else self.gate.answer
        verdicts = {requirement.verdict for requirement in self.contents.requirements}
        if self.completed.left:
            return "left"
        if self.completed.failures or "fails" in verdicts or answer == "worse":
            return "worse"
        look = self.completed.look
        is_open = "undecided" in verdicts or (look is not None and look.open) or answer == "undecided"
        return "undecided" if is_open else "good"

    @property
    def exit_code(self) -> int:
        """By the outcome."""
        return EXIT_CODES[self.outcome]

    def view(self) -> Iterator[Block]:
        """The verdicts first, then what they rest on, what failed, and what to do next."""
        from assay.view import verdicts
        from assay.view.sentences.exchange import first_transport_line

        completed, contents, primary = self.completed, self.contents, self.primary
        if otherwise := first_transport_line(completed.results):
            yield Paragraph(f"! other-transport: {otherwise}", "invalid")
        if primary or contents.requirements or contents.open:
            yield verdicts.advice(primary, contents.requirements, contents.open)
        if primary:
            yield from verdicts.verdicts(primary, doubted=False, folded=True)
            yield from verdicts.whys(primary, contents.sides, contents.margin)
            yield _EMPTY
        if contents.curves:
            yield from verdicts.scaling(contents.curves, doubted=False)
            yield _EMPTY
        if not (contents.comparisons or contents.curves or contents.requirements):
            yield from map(Paragraph, _alone(contents))
        if self.doubts:
            yield verdicts.doubts_in_short(self.doubts)
        if contents.requirements:
            yield from verdicts.requirements(contents.requirements)
        if completed.failures:
            failures = f"{len(completed.failures)} of {len(completed.results)} trials failed:"
            yield Paragraph(failures, "invalid")
        yield from map(Paragraph, (*_failed(completed), *repeated_trials(completed), *_held(completed)))
        if completed.look is not None:
            yield Paragraph(completed.look.words)
        if self.gate is not None:
            yield from self.gate.view()
        yield _EMPTY
        stored = f"Stored in {completed.session.path}"
        yield from (Paragraph(line, wraps=False) for line in (stored, *_next_commands(completed)))

    def document(self) -> dict[str, Any]:
        """The output of `--json`."""
        from assay.records import to_plain
        from assay.view.sentences import why as why_words

        completed, contents = self.completed, self.contents

        return {
            "schema": "assay.run/1",
            "session": completed.session.id,
            "path": str(completed.session.path),
            "suite": completed.plan.suite,
            "suite_digest": completed.plan.suite_digest,
            "until": None if completed.look is None else _look_as_data(completed.look),
            "trials": [_trial_as_data(result, completed) for result in completed.results],
            "failures": [
                {"trial": r.run.trial.id, "cause": r.run.cause or "; ".join(r.reading.problems)}
                for r in completed.failures
            ],
            "held": [
                {"trial": run.trial.id, "extent": run.extent.value, "cause": run.cause}
                for run in completed.held
            ],
            "left": [trial.id for trial in completed.left],
            "comparisons": [to_plain(comparison) for comparison in contents.comparisons],
            "slower": why_words.plain(self.primary, contents.sides, contents.margin),
            "scaling": [to_plain(curve) for curve in contents.curves],
            "requirements": [to_plain(requirement) for requirement in contents.requirements],
            "doubts": [to_plain(doubt) for doubt in self.doubts],
            **({} if self.gate is None else {"gate": self.gate.document()}),
        }


def contents_of(completed: CompletedSession, runs_dir: Path) -> Contents:
    """The contents of a session's report, whose runs are in the index now."""
    from assay.view.contents import gather

    reindex(runs_dir, {completed.session.id})
    run_set = RunSet(completed.session.id, completed.results, completed.plan)
    return gather(run_set.by_system(), run_set.metrics(), plan=completed.plan)


def _look_as_data(look: Look) -> dict[str, Any]:
    return {
        "blocks": look.blocks,
        "max_repeats": look.most,
        "looks": list(look.looks),
        "ended": look.ended,
        "open": list(look.open),
    }


def _trial_as_data(result: Result, completed: CompletedSession) -> dict[str, Any]:
    from assay.records import to_plain

    run = result.run
    return {
        "trial": run.trial.id,
        "benchmark": run.trial.benchmark,
        "system": run.trial.system,
        "shape": str(run.trial.shape),
        "block": run.trial.block,
        "attempt": run.attempt,
        "lost": [{"attempt": lost.attempt, "cause": lost.cause} for lost in completed.lost(result)],
        "state": run.state.value,
        "adopted": run.adopted,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "measurements": [to_plain(measurement) for measurement in result.reading.measurements],
    }


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


def repeated_trials(completed: CompletedSession) -> Iterator[str]:
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


def _line(summary: Summary) -> str:
    """One point if there is nothing to compare with: mean, interval, n."""
    from assay.units import human
    from assay.view import figures

    estimate, point = summary.estimate, summary.point
    interval = ""
    if estimate.low is not None and estimate.high is not None:
        interval = f" ({human(estimate.low, estimate.unit)} to {human(estimate.high, estimate.unit)})"
    place = f"{summary.side} {point.benchmark} {figures.where(point)} {figures.metric(point.metric)}"
    return f"{place}: {human(estimate.value, estimate.unit)}{interval}, n = {estimate.n}"


def _next_commands(completed: CompletedSession) -> list[str]:
    name = completed.session.id
    shown = completed.failures[0].run.id if completed.failures else name
    commands = [
        f"  assay show {shown}",
        f"  assay report {name} -o {completed.plan.suite}.html",
        "  assay explain CODE     what a doubt means and what to do about it",
    ]
    if completed.failures:
        commands.insert(1, "  assay run … --failed     the same command repeats what failed, in this session")
    if len(completed.plan.systems) > 1:
        commands.insert(0, f"  assay compare {name} --all")
    return commands
