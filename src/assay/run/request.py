"""What to run, and the resulting plan."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from assay import launch, plan, suite
from assay.errors import InputError, OptionsError, Problem
from assay.frame_manifest import with_frames
from assay.launch.job_spec import values
from assay.launch.launcher import Launcher, Looker
from assay.plan import job_of
from assay.records import Plan, Trial
from assay.run import interim_looks
from assay.run.concurrency import Concurrency
from assay.run.interim_looks import Limits
from assay.rundir.files import StepOf
from assay.suite import Suite, System, Systems, document
from assay.suite.document import Document, Key
from assay.suite.findings import in_order, unknown
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
    check_jobs(planned, what, where, alike=request.together is not None)
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


def check_jobs(planned: Plan, suite: Suite, systems: Systems, *, alike: bool) -> None:
    """Make and render every job.

    alike  the systems differ in their nodes only, so that one of thousands represents all

    Raises InputError with every problem: for an option of a system with that option's line, otherwise with
    the line of the benchmark.
    """
    trials = {(t.benchmark, t.shape) if alike else t.digest: t for t in planned.trials}
    problems: dict[Problem, None] = {}
    for name in planned.systems:
        own = [trial for trial in trials.values() if trial.system == name]
        problems |= dict.fromkeys(_of_system(systems.by_name[name], own, suite, systems))
    if problems:
        raise InputError(in_order(problems, suite.source.file, systems.source.file))


def _of_system(system: System, trials: list[Trial], suite: Suite, systems: Systems) -> Iterator[Problem]:
    paths = {benchmark.name: benchmark.path for benchmark in suite.benchmarks}
    try:
        launcher = launch.make(system.launcher, system.options, spool=Path(os.devnull))
    except OptionsError as error:
        yield from _located(error, system, systems)
        return
    for trial in trials:
        try:
            _send(launcher, trial, system)
        except OptionsError as error:
            yield from _located(error, system, systems)
        except InputError as error:
            yield from _of_benchmark(error, paths[trial.benchmark], trial, suite)


def _send(launcher: Launcher, trial: Trial, system: System) -> None:
    """Everything except sending: render the job, check what it names, look up the values of its secrets."""
    job = with_frames(job_of(trial, "check"))
    launcher.render(job)
    if isinstance(launcher, Looker):
        launcher.look(job)
    values(job, getattr(system.options, "env", {}))


def _of_benchmark(error: InputError, path: tuple[Key, ...], trial: Trial, suite: Suite) -> Iterator[Problem]:
    """Its problems with the lines of the parameters, or with the benchmark's if no parameter is named."""
    for problem in error.problems:
        if problem.where in trial.params:
            yield Problem(suite.where(*path, "params", problem.where), f"{problem.where}: {problem.what}")
        else:
            yield Problem(suite.where(*path), str(problem) if problem.where else problem.what)


def _located(error: OptionsError, system: System, systems: Systems) -> Iterator[Problem]:
    """Its problems with the lines of the options."""
    for problem in error.problems:
        where = systems.where(system.name, problem.where)
        yield Problem(where, f"{system.name}.{problem.where}: {problem.what}")
