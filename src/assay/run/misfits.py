"""What keeps trials of a plan from being sent as written; found before any of them runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from assay import launch
from assay.errors import InputError, OptionsError, Problem
from assay.launch.check import Looker
from assay.launch.job_spec import values
from assay.launch.launcher import Launcher
from assay.plan import job_of
from assay.records import Plan, Trial
from assay.run.chosen_frames import with_frames
from assay.suite import Suite, System, Systems
from assay.suite.document import Key
from assay.suite.findings import in_order


def check(planned: Plan, suite: Suite, systems: Systems, *, alike: bool) -> None:
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
