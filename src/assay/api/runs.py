"""A suite, run to its verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from assay.api.evidence import RunSet, reindex, runs_directory
from assay.api.plans import limits_of
from assay.errors import InterruptedRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from assay.records import Comparison
    from assay.report.contents.contents import Contents
    from assay.run.drive import CompletedSession
    from assay.run.progress import Tell
    from assay.suite import Suite, Systems

Outcome = Literal["good", "worse", "undecided", "left"]


@dataclass(frozen=True)
class RunResult:
    """What came of `run`.

    completed  the session, its plan, the last result of each trial, and what is left
    contents   what a report says of it, without provenance and recipe
    """

    completed: CompletedSession
    contents: Contents

    @property
    def primary(self) -> list[Comparison]:
        """Comparisons that the verdicts rest on."""
        return [c for question in self.contents.questions for c in question.comparisons]

    @property
    def outcome(self) -> Outcome:
        """Of all together.

        `left`: a platform or a system can't be used, and its trials are left; else `worse`: a trial failed or
        a requirement does not hold; else `undecided`: a requirement is, or a comparison of a run until
        decided; else `good`.
        """
        verdicts = {requirement.verdict for requirement in self.contents.requirements}
        if self.completed.left:
            return "left"
        if self.completed.failures or "fails" in verdicts:
            return "worse"
        look = self.completed.look
        return "undecided" if "undecided" in verdicts or (look is not None and look.open) else "good"


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
    runs: str | PathLike[str] | None = None,
    progress: Tell | None = None,
    command_line: Sequence[str] = (),
) -> RunResult:
    """A suite run to its verdict, as `assay run SUITE`; the same call resumes what was stopped.

    suite         its file, or what `assay.api.make_suite` gives
    systems       where to run; None: systems.yaml beside the suite, or this machine
    system        only these systems; empty for all
    new           begin a new session although one is unfinished
    failed        repeat the failed trials of the newest session, in it
    until         "decided": go on, block by block, until every primary comparison is decided
    max_repeats   with it: blocks at most; another number is another test; None is 20
    max_time      with it: begin no block once the trials took so long, `"90min"` or seconds
    runs          directory that holds the runs; None is $ASSAY_RUNS, else `runs` here
    progress      makes who is told the events of the session; None: nobody
    command_line  what was typed, as the session keeps it

    Raises InputError for what can't be run as written, BusyError when another Assay works on the session,
    HostError when this machine can't go on, PlatformError when a system's platform can't be used, and
    InterruptedRun after Ctrl-C or SIGTERM. Whatever is raised, the same call goes on from there.
    """
    from assay.report.contents.contents import gather
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
    )
    try:
        completed = run_suite(request, progress or Silence)
    except KeyboardInterrupt:
        raise InterruptedRun(
            "interrupted at once: a job may still be ending; the same command goes on from there"
        ) from None
    reindex(request.runs_dir)
    found = RunSet(completed.session.id, completed.results, completed.plan)
    return RunResult(completed, gather(found.by_system(), found.metrics(), plan=completed.plan))
