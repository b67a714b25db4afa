"""What a suite would run, in which order, and exactly what each trial would submit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from assay.errors import InputError
from assay.questions.evidence import runs_directory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from assay.launch.launcher import Launcher, PartCheck
    from assay.records import Plan, RenderedJob, Trial
    from assay.run.duration import DurationEstimate
    from assay.run.interim_looks import Limits
    from assay.run.request import PlannedRun
    from assay.suite import Suite, Systems

TOKEN = "TOKEN"  # noqa: S105 placeholder for a run's own name, so that the output is the same each time


@dataclass(frozen=True)
class SuitePlan:
    """The result of `plan`.

    run       the plan, and the suite and systems that it was made from
    limits    of a run until decided; None for the suite's own repeats
    runs_dir  directory whose earlier runs show how long trials take
    """

    run: PlannedRun
    limits: Limits | None
    runs_dir: Path

    @property
    def plan(self) -> Plan:
        """The ordered trials, their seed and digest."""
        return self.run.plan

    @property
    def nominal_p(self) -> float:
        """P at which each look of a run until decided claims; its intervals hold at 1 - p.

        Raises ValueError if the plan has the suite's own repeats, without interim looks.
        """
        from assay.analyse.statistics.sequential import nominal_p

        if self.limits is None:
            raise ValueError("a plan with the suite's own repeats has no looks")
        return nominal_p(self.limits.max_repeats, paired=self.plan.interleaved)

    def durations(self) -> Mapping[str, DurationEstimate]:
        """System → how long its trials take, by earlier runs or by their parameters."""
        from assay.run import duration

        return duration.estimates(self.plan, self.plan.trials, self.runs_dir)

    def durations_of_trials(self) -> list[tuple[Trial, float | None]]:
        """Each trial with the seconds that it takes, by earlier runs or its parameters; None if unknown."""
        from assay.run import duration

        return duration.of_each(self.plan.trials, self.runs_dir)

    def trial(self, name: str) -> Trial:
        """The trial with this id. Raises InputError with the nearest one if there is none."""
        from assay.suite.findings import suggestion

        trials = {trial.id: trial for trial in self.plan.trials}
        if name not in trials:
            # every id would be too many to choose from
            near = suggestion(name, trials)
            hint = near if near.startswith("did you mean") else "`assay plan` without --show lists them"
            raise InputError(f"--show: there is no trial {name}; {hint}")
        return trials[name]

    def sent(self, trial: Trial) -> RenderedJob:
        """Command, environment and files of a trial, as they would be submitted."""
        from assay.frame_manifest import with_frames
        from assay.plan import job_of

        return self._launcher(trial).render(with_frames(job_of(trial, TOKEN)))

    def checked(self, trial: Trial) -> list[PartCheck]:
        """The platform's answer for a trial, from a dry run.

        Raises InputError if there is no server to ask, LaunchError if it can't be reached.
        """
        from assay.frame_manifest import with_frames
        from assay.launch.launcher import Checker
        from assay.plan import job_of

        launcher = self._launcher(trial)
        if not isinstance(launcher, Checker):
            raise InputError(
                f"--validate: launcher {launcher.name} has no server that checks a job without running it"
            )
        return list(launcher.check(with_frames(job_of(trial, TOKEN))))

    def _launcher(self, trial: Trial) -> Launcher:
        """The trial's launcher. Nothing is written to its spool: rendering is pure."""
        from assay import launch

        system = self.run.systems.by_name[trial.system]
        return launch.make(system.launcher, system.options, spool=Path("jobs"))

    def document(self) -> dict[str, Any]:
        """The whole plan: its trials, the looks of a run until decided, and how long it takes."""
        from assay.records import to_plain
        from assay.run.duration import total
        from assay.rundir.files import without_secrets

        durations = self.durations()
        return {
            "schema": "assay.plan/1",
            **without_secrets(self.plan),
            "until": _limits_as_data(self),
            "duration": {
                "systems": {name: to_plain(of_system) for name, of_system in durations.items()},
                "total": to_plain(total(durations.values())),
            },
        }

    def trial_document(self, trial: Trial, answers: Sequence[PartCheck] | None) -> dict[str, Any]:
        """One trial and what it submits, with the platform's answer if it was asked."""
        from assay.records import to_plain
        from assay.rundir.files import without_secrets

        document = {
            "schema": "assay.trial/1",
            "trial": without_secrets(trial),
            "sends": to_plain(self.sent(trial)),
        }
        return document if answers is None else document | {"platform_says": to_plain(answers)}


def plan(
    suite: str | PathLike[str] | Suite,
    *,
    systems: str | PathLike[str] | Systems | None = None,
    system: Sequence[str] = (),
    until: Literal["decided"] | None = None,
    max_repeats: int | None = None,
    max_time: str | float | None = None,
    runs: str | PathLike[str] | None = None,
) -> SuitePlan:
    """The trials of a suite in their order, like `assay plan SUITE`: what `run` would submit.

    Starts and writes nothing. Raises InputError with everything that can't be run as
    written, each with its file and line.
    """
    from assay.run.request import RunRequest, plan_of
    from assay.suite import Suite, Systems

    limits, directory = limits_of(until, max_repeats, max_time), runs_directory(runs)
    request = RunRequest(
        suite=suite if isinstance(suite, Suite) else Path(suite),
        runs_dir=directory,
        systems=systems if systems is None or isinstance(systems, Systems) else Path(systems),
        only=system,
        until=limits,
    )
    return SuitePlan(plan_of(request), limits, directory)


def limits_of(until: str | None, max_repeats: int | None, max_time: str | float | None) -> Limits | None:
    """How far a run until decided goes; None for the suite's repeats.

    max_time  such as `"90min"`, or seconds

    Raises InputError for limits without `until`, and for an invalid time.
    """
    from assay.analyse.statistics.sequential import looks
    from assay.run.interim_looks import MAX_REPEATS, Limits
    from assay.units import seconds

    if until not in (None, "decided"):
        raise InputError(f'until: found {until!r}; expected "decided"')
    if until is not None:
        try:
            max_time_s = seconds(max_time) if isinstance(max_time, str) else max_time
        except ValueError as error:
            raise InputError(f"max_time: {error}") from error
        most = MAX_REPEATS if max_repeats is None else max_repeats
        try:
            looks(most)
        except ValueError as error:
            raise InputError(f"max_repeats: {error}") from error
        return Limits(most, max_time_s)
    if max_repeats or max_time:
        raise InputError('max_repeats and max_time limit a run until decided; add until="decided"')
    return None


def _limits_as_data(suite_plan: SuitePlan) -> dict[str, Any] | None:
    if suite_plan.limits is None:
        return None
    return {
        "max_repeats": suite_plan.limits.max_repeats,
        "max_time_s": suite_plan.limits.max_time_s,
        "looks": list(suite_plan.plan.looks),
        "nominal_p": suite_plan.nominal_p,
        "confidence": 1 - suite_plan.nominal_p,
    }
