"""How much of the time was useful, how often jobs fail, and how often to save a checkpoint."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError, Problem
from assay.questions.evidence import runs_directory
from assay.units import moment, seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike

    from assay.analyse.goodput.checkpoints import CheckpointInterval
    from assay.analyse.goodput.failures import FailureRate, JobAttempt, NodeFailures
    from assay.analyse.goodput.shares import Goodput


@dataclass(frozen=True)
class SizeFailures:
    """Failures of the jobs on this many nodes; 0: the source does not say on how many.

    checkpoint  the best interval between their checkpoints; None if their cost is not stated
    """

    nodes: int
    rate: FailureRate
    checkpoint: CheckpointInterval | None


@dataclass(frozen=True)
class GoodputResult:
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
    share: Goodput | None
    by_size: Sequence[SizeFailures]
    of_nodes: FailureRate | None
    by_node: Sequence[NodeFailures]
    unreadable: Sequence[Problem]

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


def goodput(
    reference: str = "",
    *,
    table: str | PathLike[str] | None = None,
    sacct: str | PathLike[str] | None = None,
    pods: str | PathLike[str] | None = None,
    checkpoint_cost: str | float | None = None,
    until: str | float | None = None,
    runs: str | PathLike[str] | None = None,
) -> GoodputResult:
    """Goodput, time between failures and the best checkpoint interval, like `assay goodput`.

    reference        a suite or a session of the runs directory; "" for all, if no other source is named
    table, sacct     a CSV file; the output of `sacct -D --json`
    pods             the output of `kubectl get pods --all-namespaces -o json`
    checkpoint_cost  time that saving a checkpoint takes, `"60s"` or seconds
    until            end of the observation, `"2026-11-23T21:00"`, an age or seconds; None: now
    runs             directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError for a source that can't be read, with every problem, or if nothing ran.
    """
    from assay.analyse.goodput import failures, shares
    from assay.analyse.goodput.checkpoints import checkpoint_interval
    from assay.intake import job_attempts, pod_attempts

    try:
        end = time.time() if until is None else moment(until)
        cost_s = None if checkpoint_cost is None else seconds(checkpoint_cost)
    except ValueError as error:
        raise InputError(str(error)) from None
    if cost_s is not None and not cost_s > 0:
        raise InputError(f"checkpoint cost: found {checkpoint_cost}; expected a time above 0")
    attempts: list[JobAttempt] = []
    unreadable: list[Problem] = []
    if table is not None:
        attempts += job_attempts.from_table(Path(table), end)
    if sacct is not None:
        of_slurm, unknown = job_attempts.from_sacct(Path(sacct), end)
        attempts += of_slurm
        unreadable += unknown
    if pods is not None:
        attempts += pod_attempts.from_pods(Path(pods), end)
    if reference or (table is None and sacct is None and pods is None):
        directory = runs_directory(runs)
        of_runs, damaged = job_attempts.from_runs(directory, lambda name: _matches(name, reference), end)
        attempts += of_runs
        unreadable += damaged
        if reference and not of_runs and not damaged:
            raise InputError(f"{reference}: no runs with this name; `assay list` shows what is available")
    attempts, repeated = job_attempts.without_repeats(attempts)
    unreadable += repeated
    if not any(attempt.duration_s > 0 for attempt in attempts):
        none = f"{reference or 'there'}: no job ran before the end of the observation"
        raise InputError(unreadable or none)
    try:
        share = shares.goodput(attempts)
    except ValueError as error:
        raise InputError(str(error)) from None
    by_size = [
        SizeFailures(nodes, rate, None if cost_s is None else checkpoint_interval(rate, cost_s))
        for nodes, rate in failures.by_size(attempts)
    ]
    return GoodputResult(
        end, attempts, share, by_size, failures.of_nodes(attempts), failures.by_node(attempts), unreadable
    )


def _matches(session: str, reference: str) -> bool:
    return not reference or reference in (session, session.partition("/")[0])
