"""A short suite that runs again and again: as a CronJob, a systemd timer or lines of scrontab."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from assay.errors import InputError
from assay.units import rough_seconds, seconds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from assay.launch.slurm.options import SlurmSystem
    from assay.monitor.idleness import NodeIdleness
    from assay.monitor.schedule.period import SchedulePeriod
    from assay.questions.plan import SuitePlan
    from assay.suite.model import System

ScheduleForm = Literal["cronjob", "systemd", "scrontab"]
FORMS: Mapping[str, ScheduleForm] = {"kubernetes": "cronjob", "slurm": "scrontab"}
"""The usual form for a launcher; systemd for all others."""
LONGEST_TRIAL_S = 60.0


@dataclass(frozen=True)
class Schedule:
    """The result of `schedule`: text to apply or install.

    files  name → contents; a single one for a CronJob and for scrontab
    notes  what to do or know before installing it, as sentences
    """

    form: ScheduleForm
    files: Mapping[str, str]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ScheduleRequest:
    """A suite on one system, checked, with its period."""

    suite: Path
    systems: Path | None
    system: System
    plan: SuitePlan
    period: SchedulePeriod
    baseline: str | None
    textfile: Path | None

    @property
    def name(self) -> str:
        """The suite's."""
        return self.plan.plan.suite


def schedule(
    suite: str | PathLike[str],
    *,
    system: str,
    systems: str | PathLike[str] | None = None,
    every: str | float = "1h",
    form: ScheduleForm | None = None,
    baseline: str | None = None,
    max_trial: str | float = LONGEST_TRIAL_S,
    textfile: str | PathLike[str] | None = None,
    namespace: str | None = None,
    image: str | None = None,
    claim: str | None = None,
    runs: str | PathLike[str] | None = None,
) -> Schedule:
    """What runs a suite on a system again and again, like `assay monitor schedule`. Nothing is changed.

    every      `"15min"`, `"1h"`, `"1d"`: a divisor of an hour, a day or a week
    form       None: by the system's launcher
    baseline   `suite/session` that each session is compared with
    max_trial  the longest time that a trial may take
    textfile   for node exporter, written after each session; not for a CronJob, which has an exporter
    namespace, image, claim  of a CronJob: default the system's namespace and a new claim; the image is needed

    Raises InputError for what can't be run as written, and for a suite that is too long for this.
    """
    request, notes = schedule_request(
        suite,
        system,
        systems,
        every=every,
        baseline=baseline,
        max_trial=max_trial,
        textfile=textfile,
        runs=runs,
    )
    chosen = form or FORMS.get(request.system.launcher, "systemd")
    for option, value in (("--namespace", namespace), ("--image", image), ("--claim", claim)):
        if value is not None and chosen != "cronjob":
            raise InputError(
                f"{option} is for a CronJob, but this is {chosen}; leave it out, or add --as cronjob"
            )
    if textfile is not None and chosen == "cronjob":
        raise InputError("--textfile is not for a CronJob, which comes with an exporter; leave it out")
    try:
        if chosen == "cronjob":
            from assay.questions.cron_job import cron_job

            text = cron_job(request, namespace=namespace, image=image, claim=claim)
            return Schedule("cronjob", {"cronjob.yaml": text}, (*notes, *_new_claim(claim)))
        return _timer(request, notes) if chosen == "systemd" else _scrontab(request, notes)
    except ValueError as error:
        raise InputError(str(error)) from None


def schedule_request(
    suite: str | PathLike[str],
    system: str,
    systems: str | PathLike[str] | None,
    *,
    every: str | float,
    baseline: str | None,
    max_trial: str | float,
    textfile: str | PathLike[str] | None = None,
    runs: str | PathLike[str] | None = None,
) -> tuple[ScheduleRequest, list[str]]:
    """The checked request, and what is unknown about its length. Arguments and errors as for `schedule`."""
    from assay.monitor.schedule.period import schedule_period
    from assay.questions.plan import plan

    planned = plan(suite, systems=systems, system=[system], runs=runs)
    try:
        period = schedule_period(seconds(every), planned.plan.suite)
        longest_s = seconds(max_trial)
    except ValueError as error:
        raise InputError(f"every {every}, longest trial {max_trial}: {error}") from None
    request = ScheduleRequest(
        Path(suite),
        None if systems is None else Path(systems),
        planned.run.systems.by_name[system],
        planned,
        period,
        baseline,
        None if textfile is None else Path(textfile),
    )
    return request, _long_trials(request, longest_s)


def idleness(*, for_: str | float = 2.0) -> NodeIdleness:
    """Whether anything else needs this machine, like `assay monitor idle`.

    for_  how long to look: `"2s"` or seconds

    Raises HostError if it can't be found out.
    """
    from assay.monitor.idleness import node_idleness

    try:
        return node_idleness(seconds(for_))
    except ValueError as error:
        raise InputError(str(error)) from None


def _long_trials(request: ScheduleRequest, longest_s: float) -> list[str]:
    """What is unknown about the length. Raises InputError for a trial or a session that is too long."""
    planned, name = request.plan, request.system.name
    of_trials = planned.durations_of_trials()
    for trial, time_s in of_trials:
        if time_s is not None and time_s > longest_s:
            raise InputError(
                f"{request.suite}: {trial.benchmark} on {name} takes about {rough_seconds(time_s)}; a "
                f"scheduled trial may take {rough_seconds(longest_s)}: choose smaller parameters, or allow "
                "more with --max-trial"
            )
    known_s = sum(time_s for _, time_s in of_trials if time_s is not None)
    if known_s > request.period.seconds:
        raise InputError(
            f"{request.suite}: a session on {name} takes about {rough_seconds(known_s)}, longer than the "
            f"{rough_seconds(request.period.seconds)} between sessions: lower `repeats`, or raise --every"
        )
    unknown = dict.fromkeys(trial.benchmark for trial, time_s in of_trials if time_s is None)
    if not unknown:
        return []
    return [
        f"How long {', '.join(unknown)} takes is unknown: run the suite once and print this again, so that "
        "its length is checked."
    ]


def run_arguments(request: ScheduleRequest, suite: str, systems: str | None, runs: str) -> list[str]:
    """Of `assay`: one session, resumed if the last one could not finish."""
    found = ["run", suite, "--system", request.system.name, "--quiet", "--runs", runs]
    found += [] if systems is None else ["--systems", systems]
    return found + ([] if request.baseline is None else ["--baseline", request.baseline])


def _new_claim(claim: str | None) -> tuple[str, ...]:
    words = "The new claim asks the default storage class for ReadWriteMany; --claim names another claim."
    return () if claim is not None else (words,)


def _assay() -> str:
    """The program, absolute: neither systemd nor cron has the caller's PATH."""
    own = Path(sys.argv[0])
    if own.name == "assay" and own.is_file():
        return str(own.absolute())
    return shutil.which("assay") or str(Path(sys.executable).with_name("assay"))


def _here(request: ScheduleRequest) -> tuple[str, str | None, str]:
    """Suite, systems and runs, absolute."""
    systems = None if request.systems is None else str(request.systems.absolute())
    return str(request.suite.absolute()), systems, str(request.plan.runs_dir.absolute())


def _export(request: ScheduleRequest, runs: str) -> list[str]:
    if request.textfile is None:
        return []
    return [_assay(), "monitor", "export", "--textfile", str(request.textfile.absolute()), "--runs", runs]


def _timer(request: ScheduleRequest, notes: list[str]) -> Schedule:
    from assay import launch
    from assay.monitor.schedule import units

    suite, systems, runs = _here(request)
    own = launch.PLATFORMS[request.system.launcher].nodes is None  # its trials run on this machine
    service = units.service(
        suite=request.name,
        system=request.system.name,
        directory=Path(suite).parent,
        command=[_assay(), *run_arguments(request, suite, systems, runs)],
        idle=[_assay(), "monitor", "idle"] if own else [],
        export=_export(request, runs),
        period=request.period,
    )
    name = units.unit_name(request.name, request.system.name)
    timer = units.timer(suite=request.name, system=request.system.name, period=request.period)
    if not own:
        notes.append(
            f"The trials run on other machines by {request.system.launcher}; that they are idle is not "
            "checked here."
        )
    return Schedule("systemd", {f"{name}.service": service, f"{name}.timer": timer}, tuple(notes))


def _scrontab(request: ScheduleRequest, notes: list[str]) -> Schedule:
    from assay.launch.slurm.options import SlurmSystem
    from assay.monitor.schedule.scrontab import scrontab_lines

    options = request.system.options
    if not isinstance(options, SlurmSystem):
        raise InputError(
            f"{request.system.name} uses the launcher {request.system.launcher}, but scrontab is Slurm's; "
            "choose --as systemd"
        )
    suite, systems, runs = _here(request)
    commands = [[_assay(), *run_arguments(request, suite, systems, runs)], _export(request, runs)]
    text = scrontab_lines(
        name=request.name,
        directory=Path(suite).parent,
        commands=[words for words in commands if words],
        options=_queue(options),
        period=request.period,
    )
    return Schedule("scrontab", {"scrontab": text}, (*notes, *_polite(request.system.name, options)))


def _queue(options: SlurmSystem) -> list[str]:
    """Where the driving job waits: as the trials do."""
    names = ("partition", "account", "qos", "reservation")
    return [f"--{name}={value}" for name in names if (value := getattr(options, name)) is not None]


def _polite(system: str, options: SlurmSystem) -> list[str]:
    """What the system lacks so that its trials are the last in the queue, on nodes of their own."""
    from assay.monitor.schedule.scrontab import NICE

    lacks = [] if options.exclusive else ["exclusive: true"]
    if not any(option.startswith("--nice") for option in options.sbatch):
        lacks.append(f'sbatch: ["--nice={NICE}"]')
    if not lacks:
        return []
    return [f"Add to {system} in systems.yaml, so that trials wait for idle nodes: {', '.join(lacks)}."]
