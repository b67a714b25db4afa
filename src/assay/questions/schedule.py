"""A short suite that runs again and again: as a CronJob, a systemd timer or lines of scrontab."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from assay.errors import InputError
from assay.questions.schedule_request import ScheduleRequest, schedule_request
from assay.units import seconds

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from assay.launch.slurm.options import SlurmSystem
    from assay.monitor.schedule import NodeIdleness

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

    def document(self) -> dict[str, Any]:
        """The files by name, and what to know before installing them."""
        return {
            "schema": "assay.schedule/1",
            "form": self.form,
            "files": {**self.files},
            "notes": [*self.notes],
        }


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


def idleness(*, for_: str | float = 2.0) -> NodeIdleness:
    """Whether anything else needs this machine, like `assay monitor idle`.

    for_  how long to look: `"2s"` or seconds

    Raises HostError if it can't be found out.
    """
    from assay.monitor.schedule import node_idleness

    try:
        return node_idleness(seconds(for_))
    except ValueError as error:
        raise InputError(str(error)) from None


def _new_claim(claim: str | None) -> tuple[str, ...]:
    note = "The new claim asks the default storage class for ReadWriteMany; --claim names another claim."
    return () if claim is not None else (note,)


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
    from assay.monitor.schedule import service_unit, timer_unit, unit_name

    suite, systems, runs = _here(request)
    own = launch.PLATFORMS[request.system.launcher].nodes is None  # its trials run on this machine
    service = service_unit(
        suite=request.name,
        system=request.system.name,
        directory=Path(suite).parent,
        command=[_assay(), *request.run_arguments(suite, systems, runs)],
        idle=[_assay(), "monitor", "idle"] if own else [],
        export=_export(request, runs),
        period=request.period,
    )
    name = unit_name(request.name, request.system.name)
    timer = timer_unit(suite=request.name, system=request.system.name, period=request.period)
    if not own:
        notes.append(
            f"The trials run on other machines by {request.system.launcher}; that they are idle is not "
            "checked here."
        )
    return Schedule("systemd", {f"{name}.service": service, f"{name}.timer": timer}, tuple(notes))


def _scrontab(request: ScheduleRequest, notes: list[str]) -> Schedule:
    from assay.launch.slurm.options import SlurmSystem
    from assay.monitor.schedule import scrontab_lines

    options = request.system.options
    if not isinstance(options, SlurmSystem):
        raise InputError(
            f"{request.system.name} uses the launcher {request.system.launcher}, but scrontab is Slurm's; "
            "choose --as systemd"
        )
    suite, systems, runs = _here(request)
    commands = [[_assay(), *request.run_arguments(suite, systems, runs)], _export(request, runs)]
    text = scrontab_lines(
        name=request.name,
        directory=Path(suite).parent,
        commands=[command for command in commands if command],
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
    from assay.monitor.schedule import NICE

    lacks = [] if options.exclusive else ["exclusive: true"]
    if not any(option.startswith("--nice") for option in options.sbatch):
        lacks.append(f'sbatch: ["--nice={NICE}"]')
    if not lacks:
        return []
    return [f"Add to {system} in systems.yaml, so that trials wait for idle nodes: {', '.join(lacks)}."]
