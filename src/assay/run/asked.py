"""What the user asked for, and the plan that it comes to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from assay import launch, plan, suite
from assay.records import Plan
from assay.run import misfits, until
from assay.run.together import Together
from assay.run.until import Limits
from assay.suite import Systems
from assay.workloads import WORKLOADS


@dataclass(frozen=True)
class Asked:
    """What the user asked for.

    systems_file  None: the one beside the suite
    only          run these systems of the suite; empty for all
    new           begin a new session although one is unfinished
    failed        repeat the failed trials of the newest session of an equal plan
    until         go on until every primary comparison is decided; None: for the suite's repeats
    together      which trials run at the same time, on systems that differ in their nodes only; None: one
                  after the other
    begun_since   go on only with a session that was begun at this time or later, seconds since the epoch
    beside        further files that a new session keeps, name → text
    """

    suite_file: Path
    runs_dir: Path
    systems_file: Path | None = None
    only: Sequence[str] = ()
    new: bool = False
    failed: bool = False
    until: Limits | None = None
    together: Together | None = None
    begun_since: float = 0.0
    command_line: Sequence[str] = ()
    beside: Mapping[str, str] = field(default_factory=dict)


def plan_of(asked: Asked) -> tuple[Plan, Systems]:
    """What would be run, and where. Raises InputError with all that can't be run as written."""
    what, where = suite.load(
        asked.suite_file,
        asked.systems_file,
        params_models={name: workload.params for name, workload in WORKLOADS.items()},
        launcher_models=launch.SYSTEM_MODELS,
        metrics=plan.metrics_of(),
    )
    planned = until.planned(what, where, only=asked.only, limits=asked.until)
    misfits.check(planned, what, where, alike=asked.together is not None)
    return planned, where
