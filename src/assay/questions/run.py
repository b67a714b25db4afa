"""A suite, run to its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from assay.errors import InterruptedRun
from assay.questions.evidence import RunSet, reindex, run_set, runs_directory
from assay.questions.plan import limits_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from assay.questions.gate import GateResult
    from assay.records import Comparison, Doubt, Result
    from assay.run.drive import CompletedSession
    from assay.run.interim_looks import Look
    from assay.run.progress import Tell
    from assay.suite import Suite, Systems
    from assay.view.contents import Contents

Outcome = Literal["good", "worse", "undecided", "left"]
BASELINE_FILE = "baseline.txt"  # in a session's directory: the reference that it is compared with


@dataclass(frozen=True)
class RunResult:
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


def run(
    suite: str | PathLike[str] | Suite,
    *,
    systems: str | PathLike[str] | Systems | None = None,
    system: Sequence[str] = (),
    new: bool = False,
    failed: bool = False,
    until: Literal["decided"] | None = None,
    max_repeats: int | None = None,
    max_time: str | float | None = None,
    baseline: str | None = None,
    runs: str | PathLike[str] | None = None,
    progress: Tell | None = None,
    command_line: Sequence[str] = (),
) -> RunResult:
    """A suite run to its verdict, like `assay run SUITE`; the same call resumes a stopped run.

    suite         its file, or the result of `assay.api.make_suite`
    systems       where to run; None: systems.yaml next to the suite, or this machine
    system        only these systems; empty for all
    new           start a new session even if one is unfinished
    failed        repeat the failed trials of the newest session in that session
    until         "decided": continue, block by block, until every primary comparison is decided
    max_repeats   with it: maximum number of blocks; another number is another test; None means 20
    max_time      with it: start no block once the trials have taken this long, `"90min"` or seconds
    baseline      runs that the session is compared with at its end, like `assay gate`, and in its metrics
    runs          directory of the runs; None means $ASSAY_RUNS, or else `runs` here
    progress      creates the receiver of the session's events; None: nobody
    command_line  as typed, recorded in the session

    Raises InputError for what can't be run as written, BusyError if another Assay process works on the
    session, HostError if this machine can't continue, PlatformError if a system's platform can't be used, and
    InterruptedRun after Ctrl-C or SIGTERM. Whatever is raised, the same call resumes from there.
    """
    from assay.run.drive import run_suite
    from assay.run.progress import Silence
    from assay.run.request import RunRequest
    from assay.suite import Suite, Systems

    request = RunRequest(
        suite=suite if isinstance(suite, Suite) else Path(suite),
        runs_dir=runs_directory(runs),
        systems=systems if systems is None or isinstance(systems, Systems) else Path(systems),
        only=system,
        new=new,
        failed=failed,
        until=limits_of(until, max_repeats, max_time),
        command_line=command_line,
        beside={} if baseline is None else {BASELINE_FILE: f"{baseline}\n"},
    )
    if baseline is not None:
        run_set(request.runs_dir, baseline)  # before hours of runs, not after them
    try:
        completed = run_suite(request, progress or Silence)
    except KeyboardInterrupt:
        raise InterruptedRun(
            "interrupted immediately: a job may still be ending; the same command resumes from there"
        ) from None
    contents = contents_of(completed, request.runs_dir)
    compared = None
    if baseline is not None and not completed.left and any(result.counts for result in completed.results):
        from assay.questions.gate import gate

        compared = gate(completed.session.id, baseline=baseline, runs=request.runs_dir)
    return RunResult(completed, contents, compared)


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
