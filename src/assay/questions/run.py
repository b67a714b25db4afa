"""A suite, run to its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from assay.errors import InterruptedRun
from assay.questions.evidence import RunSet, reindex, run_set, runs_directory
from assay.questions.plan import limits_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from assay.questions.gate import GateResult
    from assay.records import Comparison, Doubt
    from assay.report.contents.contents import Contents
    from assay.run.drive import CompletedSession
    from assay.run.progress import Tell
    from assay.suite import Suite, Systems

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
    from assay.report.contents.contents import gather

    reindex(runs_dir, {completed.session.id})
    run_set = RunSet(completed.session.id, completed.results, completed.plan)
    return gather(run_set.by_system(), run_set.metrics(), plan=completed.plan)
