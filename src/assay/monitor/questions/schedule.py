"""A short suite that runs again and again: as a CronJob, a systemd timer or lines of scrontab."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from assay import launch
from assay.errors import InputError
from assay.launch.slurm import SlurmSystem
from assay.monitor.schedule import NICE, scrontab_lines, service_unit, timer_unit, unit_name
from assay.monitor.schedule_request import ScheduleRequest, schedule_request
from assay.questions.question import RUNS, Answer, Question, argument, function, option, question
from assay.questions.values import Duration, File, Location, PresentFile
from assay.registry import imported
from assay.view.blocks import Block, Verbatim

CRON_JOB: Final = "assay.cluster.cron_job:cron_job"  # of the subject that knows clusters
ScheduleForm = Literal["cronjob", "systemd", "scrontab"]
FORMS: Mapping[str, ScheduleForm] = {"kubernetes": "cronjob", "slurm": "scrontab"}
"""The usual form for a launcher; systemd for all others."""
LONGEST_TRIAL_S = 60.0


@question
class ScheduleSuite(Question):
    """Print what runs SUITE again and again at the lowest priority, and install nothing.

    For a suite of seconds whose history shows when a system became slower: Assay's metrics have each step
    and drift, and the alert AssayStepped reports it. Earlier runs and the parameters show how long a trial
    takes; a suite with a longer one is refused.

    \b
    Examples:
      assay monitor schedule quick.yaml --system lab --image registry/assay:1 | kubectl apply -f -
      assay monitor schedule quick.yaml --system here --every 15min
      assay monitor schedule quick.yaml --system cluster --as scrontab --textfile /shared/assay.prom

    \b
    Exit codes: 0 printed; 2 usage error; 4 the suite, the system or an option does not fit, or the suite is
    too long; 5 the namespace must be read from a kubeconfig, and that can't be.
    """

    suite: PresentFile = argument()
    system: str = option("The system of the suite to run it on.", metavar="NAME")
    systems: PresentFile | None = option(
        "Where to run. [default: systems.yaml next to the suite]", default=None
    )
    every: str | float = option("15min, 1h, 6h, 1d, 7d …", default="1h", metavar="TIME")
    form: ScheduleForm | None = option(
        "[default: cronjob on Kubernetes, scrontab on Slurm, otherwise systemd]",
        default=None,
        names=("--as",),
    )
    baseline: str | None = option(
        "Compare each session with these runs, like `assay gate`.", default=None, metavar="B"
    )
    max_trial: Duration = option(
        "The longest that a trial may take.  [default: 60s]", default=LONGEST_TRIAL_S
    )
    textfile: File | None = option(
        "For node exporter: write the metrics to this file after each session.", default=None
    )
    namespace: str | None = option("Of the CronJob. [default: the system's]", default=None)
    image: str | None = option("With Assay, for the CronJob.", default=None)
    claim: str | None = option("An existing claim for the CronJob's runs. [default: a new one]", default=None)
    runs: Location | None = option(RUNS, default=None, local=True)

    def answer(self) -> PrintedSchedule:
        """The files, and what to know."""
        return PrintedSchedule(self.schedule())

    def schedule(self) -> Schedule:
        """The files. Raises InputError for what can't be run as written, or for too long a suite."""
        request, notes = schedule_request(
            self.suite,
            self.system,
            self.systems,
            every=self.every,
            baseline=self.baseline,
            max_trial=self.max_trial,
            textfile=self.textfile,
            runs=self.runs,
        )
        form = self.form or FORMS.get(request.system.launcher, "systemd")
        of_cron_job = {"namespace": self.namespace, "image": self.image, "claim": self.claim}
        for name, value in of_cron_job.items():
            if value is not None and form != "cronjob":
                raise InputError(
                    f"--{name} is for a CronJob, but this is {form}; leave it out, or add --as cronjob"
                )
        if self.textfile is not None and form == "cronjob":
            raise InputError("--textfile is not for a CronJob, which comes with an exporter; leave it out")
        try:
            if form == "cronjob":
                text = imported(CRON_JOB)(request, **of_cron_job)
                return Schedule("cronjob", {"cronjob.yaml": text}, (*notes, *_new_claim(self.claim)))
            return _timer(request, notes) if form == "systemd" else _scrontab(request, notes)
        except ValueError as error:
            raise InputError(str(error)) from None


schedule = function(ScheduleSuite, ScheduleSuite.schedule)


@dataclass(frozen=True)
class PrintedSchedule(Answer):
    """The files on standard output, what to know on standard error."""

    schedule: Schedule

    @property
    def notes(self) -> Sequence[str]:
        """What to do or know before installing it."""
        return [f"note: {note}" for note in self.schedule.notes]

    def view(self) -> Iterator[Block]:
        """The files, with their names if there are several."""
        several = len(self.schedule.files) > 1
        for name, text in self.schedule.files.items():
            yield Verbatim(f"# /etc/systemd/system/{name}\n{text}\n" if several else text)

    def document(self) -> dict[str, Any]:
        """The files by name, and what to know before installing them."""
        return self.schedule.document()


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
    lacks = [] if options.exclusive else ["exclusive: true"]
    if not any(option.startswith("--nice") for option in options.sbatch):
        lacks.append(f'sbatch: ["--nice={NICE}"]')
    if not lacks:
        return []
    return [f"Add to {system} in systems.yaml, so that trials wait for idle nodes: {', '.join(lacks)}."]
