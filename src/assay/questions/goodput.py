"""How much of the time was useful, how often jobs fail, and how often to save a checkpoint."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError, Problem
from assay.questions.evidence import runs_directory
from assay.questions.question import RUNS, Answer, Question, Reference, argument, function, option, question
from assay.units import counted, human_seconds, moment, seconds
from assay.view.blocks import Lead, Paragraph

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from assay.analyse.goodput import CheckpointInterval, FailureRate, GoodputShare, NodeFailures
    from assay.formats.job_attempts import JobAttempt, Outcome
    from assay.records import Run
    from assay.view.blocks import Block

MOST_NODES = 10  # shown
MOST_SIZES = 8  # of jobs, shown


@question
class Goodput(Question):
    """Show how much of the time of jobs was useful, how often they fail, and how often to save a checkpoint.

    REFERENCE is a suite or a session of the runs directory. Jobs that still run, were cancelled, or succeeded
    count as time without a failure. What a source does not account for stays unknown, so goodput is a range.

    \b
    Examples:
      assay goodput
      sacct -D --json -S 2026-11-01 > jobs.json && assay goodput --sacct jobs.json --checkpoint-cost 60s
      kubectl get pods -A -o json > pods.json && assay goodput --pods pods.json
      assay goodput --csv jobs.csv --until 2026-11-23

    \b
    Exit codes: 0 shown; 4 a source can't be read, or nothing ran.
    """

    reference: str = argument(default="")
    table: Reference | None = option(
        "Jobs as a table; docs/how-to/goodput.md has its columns.", default=None, names=("--csv",), file=True
    )
    sacct: Reference | None = option("Output of `sacct -D --json`.", default=None, file=True)
    pods: Reference | None = option(
        "Output of `kubectl get pods --all-namespaces -o json`.", default=None, file=True
    )
    checkpoint_cost: str | float | None = option(
        "Time that saving a checkpoint takes: 60s.", default=None, metavar="TIME"
    )
    until: str | float | None = option(
        "End of the observation: a date or an age.  [default: now]", default=None, metavar="TIME"
    )
    runs: Reference | None = option(RUNS, default=None, local=True)

    def answer(self) -> GoodputResult:
        """From every source that is named, or from the runs. Lists every problem of a source."""
        from assay.analyse import goodput
        from assay.analyse.goodput import checkpoint_interval
        from assay.formats import job_attempts, pod_attempts

        try:
            end = time.time() if self.until is None else moment(self.until)
            cost_s = None if self.checkpoint_cost is None else seconds(self.checkpoint_cost)
        except ValueError as error:
            raise InputError(str(error)) from None
        if cost_s is not None and not cost_s > 0:
            raise InputError(f"checkpoint cost: found {self.checkpoint_cost}; expected a time above 0")
        attempts: list[JobAttempt] = []
        unreadable: list[Problem] = []
        if self.table is not None:
            attempts += job_attempts.from_table(Path(self.table), end)
        if self.sacct is not None:
            of_slurm, unknown = job_attempts.from_sacct(Path(self.sacct), end)
            attempts += of_slurm
            unreadable += unknown
        if self.pods is not None:
            attempts += pod_attempts.from_pods(Path(self.pods), end)
        if self.reference or (self.table is None and self.sacct is None and self.pods is None):
            directory = runs_directory(self.runs)
            of_runs, damaged = _attempts_of_runs(directory, self.reference, end)
            attempts += of_runs
            unreadable += damaged
            if self.reference and not of_runs and not damaged:
                raise InputError(
                    f"{self.reference}: no runs with this name; `assay show` shows what is available"
                )
        attempts, repeated = job_attempts.without_repeats(attempts)
        unreadable += repeated
        if not any(attempt.duration_s > 0 for attempt in attempts):
            none = f"{self.reference or 'there'}: no job ran before the end of the observation"
            raise InputError(unreadable or none)
        try:
            share = goodput.goodput(attempts)
        except ValueError as error:
            raise InputError(str(error)) from None
        by_size = [
            SizeFailures(nodes, rate, None if cost_s is None else checkpoint_interval(rate, cost_s))
            for nodes, rate in goodput.by_size(attempts)
        ]
        return GoodputResult(
            end, attempts, share, by_size, goodput.of_nodes(attempts), goodput.by_node(attempts), unreadable
        )


goodput = function(Goodput, Goodput.answer)


@dataclass(frozen=True)
class SizeFailures:
    """Failures of the jobs on this many nodes; 0: the source does not say on how many.

    checkpoint  the best interval between their checkpoints; None if their cost is not stated
    """

    nodes: int
    rate: FailureRate
    checkpoint: CheckpointInterval | None


@dataclass(frozen=True)
class GoodputResult(Answer):
    """The result of `goodput`.

    until       end of the observation, seconds since 1970; attempts that ran then are censored
    share       useful time over wall time
    by_size     time between failures of jobs on as many nodes, and their checkpoints, the largest jobs first
    of_nodes    time between failures of a node
    by_node     each node's failures, the worst first
    unreadable  runs and jobs that are not in it, and why
    """

    until: float
    attempts: Sequence[JobAttempt]
    share: GoodputShare | None
    by_size: Sequence[SizeFailures]
    of_nodes: FailureRate | None
    by_node: Sequence[NodeFailures]
    unreadable: Sequence[Problem]

    def view(self) -> Iterator[Block]:
        """The share of useful time, failures by size of job and by node, and what is not counted."""
        if (share := self.share) is not None:
            known = (
                f"{share.low:.1%}"
                if share.high - share.low < 0.0005
                else f"{share.low:.1%} to {share.high:.1%}"
            )
            parts = ", ".join(
                f"{name} {seconds / share.wall_s:.1%}" for name, seconds in share.parts_s.items() if seconds
            )
            yield Lead(f"Goodput: {known} of {human_seconds(share.wall_s)} of jobs on nodes ({parts})")
        for size in self.by_size[:MOST_SIZES]:
            on = f" on {counted(size.nodes, 'node')}" if size.nodes else ""
            yield Paragraph(f"A job{on} runs {_between(size.rate)}")
            if size.checkpoint is not None:
                yield Paragraph(_checkpoint(size.checkpoint), indented=True)
        if len(self.by_size) > MOST_SIZES:
            yield Paragraph(f"and {counted(len(self.by_size) - MOST_SIZES, 'smaller size')}: --json has them")
        if self.of_nodes is not None:
            yield Paragraph(f"A node runs {_between(self.of_nodes)}")
        suspects = [node for node in self.by_node if node.suspect]
        for node in suspects[:MOST_NODES]:
            failures = f"{counted(node.failures, 'failure')} in {human_seconds(node.time_s)}"
            chance = f"p = {node.p:.2g} over {counted(len(self.by_node), 'node')}"
            yield Paragraph(f"! {node.node}: {failures}, more than the others' rate explains ({chance})")
        if len(suspects) > MOST_NODES:
            yield Paragraph(f"! and {counted(len(suspects) - MOST_NODES, 'more node')}")
        if any(size.rate.failures for size in self.by_size):
            yield Paragraph(
                "Intervals hold for causes at a constant rate; what fails again within an hour of a restart "
                "has the cause of the failure before. Jobs on more nodes fail more often, by how much only "
                "they show."
            )
        for problem in self.unreadable[:MOST_NODES]:
            yield Paragraph(f"! not counted: {problem}")
        if len(self.unreadable) > MOST_NODES:
            yield Paragraph(f"! and {len(self.unreadable) - MOST_NODES} more")

    def document(self) -> dict[str, Any]:
        """The answers, without the single attempts."""
        outcomes = sorted({attempt.outcome for attempt in self.attempts})
        return {
            "until": self.until,
            "attempts": {
                name: sum(attempt.outcome == name for attempt in self.attempts) for name in outcomes
            },
            "goodput": None if self.share is None else asdict(self.share),
            "jobs": [asdict(size) for size in self.by_size],
            "node_failures": None if self.of_nodes is None else asdict(self.of_nodes),
            "nodes": [asdict(node) for node in self.by_node],
            "unreadable": [str(problem) for problem in self.unreadable],
        }


def _matches(session: str, reference: str) -> bool:
    return not reference or reference in (session, session.partition("/")[0])


def _between(rate: FailureRate) -> str:
    if rate.mean_s is None or rate.high_s is None:
        return (
            f"more than {human_seconds(rate.low_s)} between failures, with 95 % confidence "
            f"(no failure in {human_seconds(rate.time_s)})"
        )
    together = f" of {counted(rate.incidents, 'cause')}" if rate.incidents < rate.failures else ""
    return (
        f"{human_seconds(rate.mean_s)} between failures "
        f"({human_seconds(rate.low_s)} to {human_seconds(rate.high_s)}, "
        f"{counted(rate.failures, 'failure')}{together} in {human_seconds(rate.time_s)})"
    )


def _checkpoint(interval: CheckpointInterval) -> str:
    cost = human_seconds(interval.cost_s)
    if (
        interval.daly_s is None
        or interval.young_s is None
        or interval.high_s is None
        or interval.waste is None
    ):
        return (
            f"Checkpoints of {cost}: every {human_seconds(interval.low_s)} or less often (Daly); at that "
            f"rate, at most {interval.waste_high:.1%} of the time goes to checkpoints and repeated work"
        )
    return (
        f"Checkpoints of {cost}: every {human_seconds(interval.daly_s)} of work "
        f"({human_seconds(interval.low_s)} to {human_seconds(interval.high_s)}; Daly, Young "
        f"{human_seconds(interval.young_s)}); {interval.waste:.1%} of the time then goes to checkpoints and "
        f"repeated work "
        f"({interval.waste_low or 0:.1%} to {interval.waste_high:.1%})"
    )


def _attempts_of_runs(runs_dir: Path, reference: str, until: float) -> tuple[list[JobAttempt], list[Problem]]:
    """Attempts at trials of a suite or a session, and which runs can't be read, and why."""
    from assay.rundir import session as rundir

    attempts: list[JobAttempt] = []
    problems: list[Problem] = []
    for session in rundir.sessions(runs_dir):
        if not _matches(session.id, reference) or session.lost_files:
            continue
        for attempt in session.attempts():
            try:
                run = attempt.run()
            except InputError as error:
                problems += error.problems
                continue
            if (job_attempt := _attempt_of_run(run, until)) is not None:
                attempts.append(job_attempt)
    return attempts, problems


def _attempt_of_run(run: Run, until: float) -> JobAttempt | None:
    from assay.formats.job_attempts import JobAttempt
    from assay.records import RunState

    if run.started_at is None or run.started_at >= until or run.source is not None:
        return None
    end = run.ended_at if run.state.final else None
    later = end is None or end > until
    outcome: Outcome = "completed"
    if later:
        outcome = "running"
    elif run.job is not None and run.job.value in ("lost", "stopped"):
        outcome = "interrupted"
    elif run.job is not None and run.job.value == "cancelled":
        outcome = "cancelled"
    elif run.job is not None and run.job.value == "timed out":
        outcome = "timed out"
    elif run.state is RunState.FAILED:
        outcome = "failed"
    nodes = tuple(dict.fromkeys(place for place in run.places if place))
    return JobAttempt(
        run.id,
        nodes,
        run.started_at,
        until if later else max(run.started_at, end or 0.0),
        outcome,
        program=run.trial.digest,
    )
