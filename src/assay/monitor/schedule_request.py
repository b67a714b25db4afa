"""What a schedule is of: a suite on one system, short enough for its period."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.errors import InputError
from assay.units import rough_seconds, seconds

if TYPE_CHECKING:
    from os import PathLike

    from assay.monitor.schedule import SchedulePeriod
    from assay.questions.plan import SuitePlan
    from assay.suite.model import System


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

    def run_arguments(self, suite: str, systems: str | None, runs: str) -> list[str]:
        """Of `assay`: one session, resumed if the last one could not finish."""
        arguments = ["run", suite, "--system", self.system.name, "--quiet", "--runs", runs]
        arguments += [] if systems is None else ["--systems", systems]
        return arguments + ([] if self.baseline is None else ["--baseline", self.baseline])


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
    from assay.monitor.schedule import schedule_period
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
