"""What a suite would run, in which order, and exactly what each trial would submit."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from assay.errors import InputError, LaunchError
from assay.questions.evidence import runs_directory
from assay.questions.question import (
    RUNS,
    Answer,
    Question,
    Reads,
    Reference,
    argument,
    function,
    option,
    question,
)
from assay.questions.values import Duration
from assay.suite import Suite, Systems
from assay.units import counted
from assay.view.blocks import Heading, Paragraph, Table, TableBody, TableRow, Verbatim

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from assay.launch.launcher import Launcher, PartCheck
    from assay.records import Plan as TrialPlan
    from assay.records import RenderedJob, Trial
    from assay.run.duration import DurationEstimate
    from assay.run.interim_looks import Limits
    from assay.run.request import PlannedRun, RunRequest
    from assay.view.blocks import Block

TOKEN = "TOKEN"  # noqa: S105 placeholder for a run's own name, so that the output is the same each time


def _repeats(text: str) -> int:
    if not text.isdecimal() or not 3 <= int(text) <= 200:
        raise ValueError(f"{text} is not a number from 3 to 200")
    return int(text)


SuiteFile = Annotated[str | PathLike[str] | Suite, Reads(Path, "FILE")]
SystemsFile = Annotated[str | PathLike[str] | Systems, Reads(Path, "FILE")]
Repeats = Annotated[int, Reads(_repeats, "N")]


@question
class SuiteQuestion(Question):
    """What the plan of a suite and its run are asked alike."""

    suite: SuiteFile = argument()
    systems: SystemsFile | None = option(
        "Where to run. [default: systems.yaml next to the suite]", default=None, local=True
    )
    system: Sequence[str] = option("Only this system; repeatable.", default=(), metavar="NAME")
    until: Literal["decided"] | None = option(
        "Continue, block by block, until every primary comparison is decided.", default=None
    )
    max_repeats: Repeats | None = option(
        "With --until: maximum number of blocks, 3 to 200; another number is another test. [default: 20]",
        default=None,
    )
    max_time: Duration | None = option(
        "With --until: start no block once trials have taken this long, such as 90min or 8h. "
        "A block that has started is completed.",
        default=None,
    )
    runs: Reference | None = option(RUNS, default=None, local=True)

    def __post_init__(self) -> None:
        if self.until is None and (self.max_repeats or self.max_time):
            raise ValueError(
                "--max-repeats and --max-time limit a run with --until decided; add --until decided"
            )

    def request(self, **more: Any) -> RunRequest:
        """What to run. Raises InputError for a time or number that is none."""
        from assay.run.request import RunRequest

        return RunRequest(
            suite=self.suite if isinstance(self.suite, Suite) else Path(self.suite),
            runs_dir=runs_directory(self.runs),
            systems=self.systems if isinstance(self.systems, Systems | None) else Path(self.systems),
            only=self.system,
            until=limits_of(self.until, self.max_repeats, self.max_time),
            **more,
        )


@question
class Plan(SuiteQuestion):
    """Show the trials of SUITE in their order, and exactly what each would submit.

    This is the dry run: it prints what `assay run` submits with the same options, including the looks
    and the confidence level for a run until decided. It starts nothing and writes nothing.
    The duration is estimated from earlier runs of the same trials or from their parameters, or is unknown.
    --validate sends the trial and one of its pods to the API server of a Kubernetes system as a server-side
    dry run, so that quota, Pod Security and webhooks check it too, and prints the server's answer.

    \b
    Examples:
      assay plan suite.yaml
      assay plan suite.yaml --show train-2x1-r01    command, environment and files of one trial
      assay plan suite.yaml --show train-2x1-r01 --validate
      assay plan suite.yaml --system here           only one side
      assay plan suite.yaml --until decided --max-repeats 32
      assay plan suite.yaml --json | jq -r '.trials[].id'

    \b
    Exit codes: 0 the suite can be run; 4 it can't: every problem is listed with its file and line;
    5 the platform rejects the trial, or can't be reached.
    """

    show: str | None = option(
        "Print what this trial would submit.", default=None, metavar="TRIAL", output=True
    )
    validate: bool = option(
        "With --show: have the platform check it in a dry run.", default=False, output=True
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.validate and self.show is None:
            raise ValueError("--validate checks one trial: name it with --show")

    def answer(self) -> SuitePlan | SentTrial:
        """The plan, or one of its trials."""
        planned = self.suite_plan()
        if self.show is None:
            return planned
        trial = planned.trial(self.show)
        return SentTrial(planned, trial, tuple(planned.checked(trial)) if self.validate else None)

    @contextmanager
    def answering(self) -> Iterator[SuitePlan | SentTrial]:
        """After a trial was shown, raises LaunchError if the platform would reject it."""
        answer = self.answer()
        yield answer
        if isinstance(answer, SentTrial) and any(check.refusal for check in answer.checks or ()):
            raise LaunchError(f"trial {answer.trial.id} would be rejected")

    def suite_plan(self) -> SuitePlan:
        """The trials in their order. Starts and writes nothing.

        Raises InputError with everything that can't be run as written, each with its file and line.
        """
        from assay.run.request import plan_of

        request = self.request()
        return SuitePlan(plan_of(request), request.until, request.runs_dir)


plan = function(Plan, Plan.suite_plan)


@dataclass(frozen=True)
class SuitePlan(Answer):
    """The result of `plan`.

    run       the plan, and the suite and systems that it was made from
    limits    of a run until decided; None for the suite's own repeats
    runs_dir  directory whose earlier runs show how long trials take
    """

    run: PlannedRun
    limits: Limits | None
    runs_dir: Path

    @property
    def plan(self) -> TrialPlan:
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

    def view(self) -> Iterator[Block]:
        """The trials, the design, and how long they take."""
        from assay.run import duration
        from assay.view.sentences.plan import describe_design

        columns = ("block", "trial", "workload", "system", "shape", "seed")
        cells = ((t.block, t.id, t.workload, t.system, t.shape, t.seed) for t in self.plan.trials)
        rows = tuple(TableRow(tuple(map(str, row))) for row in cells)
        # never folded: an id that is cut can't be typed
        yield Table("", columns, (TableBody("", rows),), frozenset({1, 2, 3, 4}), listing=True)
        max_time_s, nominal_p = (self.limits.max_time_s, self.nominal_p) if self.limits else (None, None)
        design = describe_design(self.plan, max_time_s, nominal_p)
        first, *lines = (*design, *duration.lines(self.plan, self.durations()))
        yield Heading(first)
        yield from map(Paragraph, lines)

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


@dataclass(frozen=True)
class SentTrial(Answer):
    """What one trial would submit, and the platform's answers if it was asked."""

    plan: SuitePlan
    trial: Trial
    checks: tuple[PartCheck, ...] | None

    def view(self) -> Iterator[Block]:
        """Command, environment and files, ready to copy, then the answers."""
        replies = [
            f"# {check.part}: {'accepted' if check.refusal is None else f'rejected: {check.refusal}'}"
            for check in self.checks or ()
        ]
        yield Verbatim("\n".join([sent_text(self.trial, self.plan.sent(self.trial)), *replies, ""]))

    def document(self) -> dict[str, Any]:
        """The document `assay.trial/1`."""
        from assay.records import to_plain
        from assay.rundir.files import without_secrets

        document = {
            "schema": "assay.trial/1",
            "trial": without_secrets(self.trial),
            "sends": to_plain(self.plan.sent(self.trial)),
        }
        return document if self.checks is None else document | {"platform_says": to_plain(self.checks)}


def sent_text(trial: Trial, rendered: RenderedJob) -> str:
    """Command, environment and files, ready to copy."""
    head = (
        f"# trial {trial.id}: {trial.workload} on {trial.system}, {counted(trial.shape.ranks, 'rank')},"
        f" seed {trial.seed}, at most {trial.timeout_s:g} s"
    )
    if rendered.whole:
        return f"{head}\n{rendered.command.rstrip()}"
    lines = [
        head,
        "# command",
        rendered.command,
        "# environment",
        *(f"{name}={shlex.quote(value)}" for name, value in sorted(rendered.env.items())),
        "# files",
        *(f"{digest}  {name}" for name, digest in sorted(rendered.files.items())),
    ]
    return "\n".join(lines)


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
