"""What to run, and the resulting plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay import launch, plan, suite
from assay.errors import InputError
from assay.records import Plan
from assay.run import interim_looks, misfits
from assay.run.concurrency import Concurrency
from assay.run.interim_looks import Limits
from assay.rundir.files import StepOf
from assay.suite import Suite, Systems, document
from assay.suite.document import Document
from assay.suite.findings import unknown
from assay.workloads import PARAMS


@dataclass(frozen=True)
class RunRequest:
    """What to run.

    suite         its file, or the suite itself
    systems       their file, or the systems themselves; None: systems.yaml next to the suite, or this machine
    only          run these systems of the suite; empty for all
    new           start a new session even if one is unfinished
    failed        repeat the failed trials of the newest session of an equal plan
    until         continue until every primary comparison is decided; None: run the suite's repeats
    together      which trials run concurrently, on systems that differ only in their nodes; None: one
                  after the other
    begun_since   resume only a session that was started at this time or later, seconds since the epoch
    command_line  what was typed, as stored in the session; empty if nothing was
    beside        further files to store in a new session, name → text
    step_of       the exploration or bisection that a new session is a step of
    """

    suite: Path | Suite
    runs_dir: Path
    systems: Path | Systems | None = None
    only: Sequence[str] = ()
    new: bool = False
    failed: bool = False
    until: Limits | None = None
    together: Concurrency | None = None
    begun_since: float = 0.0
    command_line: Sequence[str] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    step_of: StepOf | None = None


@dataclass(frozen=True)
class PlannedRun:
    """A request with its result: the trials, and where they run."""

    request: RunRequest
    suite: Suite
    systems: Systems
    plan: Plan


def plan_of(request: RunRequest) -> PlannedRun:
    """What would run, and where. Raises InputError with everything that can't run as written."""
    what, where = _suite_of(request)
    planned = interim_looks.planned(what, where, only=request.only, limits=request.until)
    misfits.check(planned, what, where, alike=request.together is not None)
    return PlannedRun(request, what, where, planned)


def read_suite(file: Path, systems_file: Path | None = None) -> tuple[Suite, Systems]:
    """The contents of the two files; without the second, systems.yaml next to the suite, or this machine.

    Raises InputError with every problem of both, in the order of their lines.
    """
    return suite.load(
        file,
        systems_file,
        params_models=PARAMS,
        launcher_models=launch.SYSTEM_MODELS,
        metrics=plan.metrics_of(),
    )


def make_suite(
    content: Mapping[str, Any], systems: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Suite, Systems]:
    """A suite and its systems from plain data, in the form of the two files; paths are relative to here.

    systems  None: this machine

    Raises InputError with every problem of both.
    """
    where = Document("", {}) if systems is None else document.of_data(systems, "systems.json")
    return _parsed(document.of_data(content, "suite.json"), where)


def read_systems(file: Path | None) -> Systems:
    """The systems of a file, and this machine; None: only this machine.

    Raises InputError with every problem of the file.
    """
    source = Document("", {}) if file is None else document.read(file)
    by_name, problems = suite.systems_of(source, launch.SYSTEM_MODELS)
    if problems:
        raise InputError(problems)
    return Systems(file, by_name, source)


def _suite_of(request: RunRequest) -> tuple[Suite, Systems]:
    what, where = request.suite, request.systems
    if isinstance(what, Path):
        return (
            _parsed(document.read(what), where.source)
            if isinstance(where, Systems)
            else read_suite(what, where)
        )
    systems = where if isinstance(where, Systems) else read_systems(where)
    for name in what.systems:
        if name not in systems.by_name:
            raise InputError(unknown("system", name, systems.by_name))
    return what, systems


def _parsed(source: Document, systems: Document) -> tuple[Suite, Systems]:
    return suite.parse(
        source,
        systems,
        params_models=PARAMS,
        launcher_models=launch.SYSTEM_MODELS,
        metrics=plan.metrics_of(),
    )
