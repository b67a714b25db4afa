"""The runs of `assay try`: first one of each command, then rounds of all until it is decided."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from assay.errors import AssayError, HostError, InputError, InterruptedRun, LaunchError
from assay.questions.printed_figures import PrintedFigure
from assay.questions.systems import File, system_named
from assay.questions.try_commands import Variant, suite_name
from assay.records import DEFAULT_MARGIN, JobState, Output, Plan, Result, Run, Trial
from assay.run.drive import CompletedSession, run_suite
from assay.run.interim_looks import Limits
from assay.run.progress import last_lines
from assay.run.request import RunRequest, make_suite
from assay.rundir import session as rundir
from assay.rundir.session import Attempt, Session
from assay.units import human_seconds
from assay.workloads.command_metrics import CommandMetric
from assay.workloads.command_metrics import read as read_command

MOST_ROUNDS = 50  # a fixed number: with another one, the same command would be another test
LONGEST_OUTPUT = "100 MB"  # of one run
_LAST_LINES = 5
_LOG = "rank-0.log"
Report = Callable[[str], None]


@dataclass(frozen=True)
class TrialFiles:
    """A suite and its systems, as their files have them."""

    suite: Mapping[str, Any]
    systems: Mapping[str, Any]

    def write(self, directory: Path) -> None:
        """Write suite.yaml and systems.yaml. Raises InputError if one is there, HostError if it can't be."""
        texts = {
            "suite.yaml": f"# Written by `assay try`. To go on from here: docs/reference/suite.md\n"
            f"#   assay run {directory}/suite.yaml --until decided\n{_yaml(self.suite)}",
            "systems.yaml": f"# The commands that are compared, and where they run.\n{_yaml(self.systems)}",
        }
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                with (directory / name).open("x", encoding="utf-8") as file:
                    file.write(text)
        except FileExistsError as error:
            raise InputError(
                f"{error.filename}: already there; choose another directory for --save"
            ) from error
        except OSError as error:
            raise HostError(f"{error.filename or directory}: can't be written: {error.strerror}") from error


def trial_files(variants: Sequence[Variant], system: Mapping[str, Any], margin: float | None) -> TrialFiles:
    """The suite that compares these commands by their wall time.

    system  where they run, as in systems.yaml
    """
    name = suite_name(variants[0].argv)
    # a container has its own directories
    here = {} if system.get("image") or system["launcher"] == "kubernetes" else {"cwd": str(Path.cwd())}
    params = {"argv": list(variants[0].argv), **here}
    suite = {
        "suite": name,
        "systems": [variant.name for variant in variants],
        "baseline": variants[0].name,
        "margin": DEFAULT_MARGIN if margin is None else margin,
        "max_output": LONGEST_OUTPUT,
        "benchmarks": {name.removeprefix("try-"): {"workload": "command", "params": params}},
    }
    own = system.get("params", {})
    return TrialFiles(suite, {v.name: {**system, "params": {**own, "argv": list(v.argv)}} for v in variants})


def with_figure(files: TrialFiles, figure: PrintedFigure, timeout_s: float) -> TrialFiles:
    """The suite that compares them by this figure."""
    ((name, benchmark),) = files.suite["benchmarks"].items()
    metrics = {"metrics": {figure.name: dict(figure.metric)}} if figure.metric else {}
    benchmark = {**benchmark, "params": {**benchmark["params"], **metrics}}
    suite = {**files.suite, "timeout": round(timeout_s, 1), "benchmarks": {name: benchmark}}
    return TrialFiles(suite, files.systems)


def system_entry(name: str | None, file: File) -> Mapping[str, Any]:
    """A system as its file has it; without a name, this machine. Raises InputError if it can't be used."""
    system = system_named(name, file)
    options = system.options.model_dump(mode="json", exclude_defaults=True)
    own = {"params": dict(system.params)} if system.params else {}
    return {"launcher": system.launcher, **options, **own}


@dataclass(frozen=True)
class FirstRun:
    """The first run of a command: its output, and how long it took."""

    label: str
    log: Path
    duration_s: float


def first_runs(
    files: TrialFiles, labels: Mapping[str, str], runs_dir: Path, timeout_s: float, report: Report
) -> tuple[list[FirstRun], Callable[[], None]]:
    """Each command once, in the order of `labels`; and what removes these runs.

    Raises AssayError with its last lines if one fails.
    """
    suite = {**files.suite, "repeats": 1, "retries": 0, "order": "sequential", "timeout": timeout_s}
    watch = partial(
        _Watch, labels=labels, report=report, phase="first run", until=time.monotonic() + timeout_s
    )
    completed = _completed(TrialFiles(suite, files.systems), runs_dir / rundir.FIRST_RUNS, watch, None, ())
    last, runs = completed.session.last_attempts(), []
    for result in completed.results:
        run, log = result.run, last[result.run.trial.id].path / "logs" / _LOG
        log.parent.mkdir(exist_ok=True)
        log.touch()  # of a program that printed nothing
        took_s = (run.ended_at or 0.0) - (run.started_at or 0.0)
        runs.append(FirstRun(labels[run.trial.system], log, max(took_s, 0.0)))
    return runs, partial(shutil.rmtree, completed.session.path, ignore_errors=True)


def check_figure(figure: PrintedFigure, first: Sequence[FirstRun]) -> None:
    """Read the figure from each first run, as from all later ones. Raises InputError if that can't be."""
    if not figure.metric:
        return
    try:
        metric = CommandMetric.model_validate(dict(figure.metric))
    except ValidationError as error:
        raise InputError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from error
    for run in first:
        reading = read_command({_LOG: run.log}, {figure.name: metric})
        if reading.problems:
            lines = "".join(f"\n  | {line}" for line in _end_of(run.log))
            raise InputError(f"{run.label}: {reading.problems[0]}. Its last lines:{lines or ' none'}")
        if (least := min(measured.value for measured in reading.measurements)) <= 0:
            raise InputError(
                f"{run.label}: {figure.name} is {least:g}, and only figures above 0 have a ratio; choose "
                "another one with --figure"
            )


def rounds_until_decided(
    files: TrialFiles,
    labels: Mapping[str, str],
    runs_dir: Path,
    limit_s: float,
    until: float,
    report: Report,
    command_line: Sequence[str],
) -> CompletedSession:
    """Rounds of all commands until each comparison with the first one is decided.

    limit_s  no round begins once the commands took this long together
    until    when that will be, as of `time.monotonic`: for whoever waits

    Raises AssayError with its last lines as soon as a run fails.
    """
    watch = partial(_Watch, labels=labels, report=report, phase="round", until=until)
    return _completed(files, runs_dir, watch, Limits(MOST_ROUNDS, limit_s), command_line)


def _completed(
    files: TrialFiles,
    runs_dir: Path,
    watch: Callable[..., _Watch],
    limits: Limits | None,
    command_line: Sequence[str],
) -> CompletedSession:
    try:
        suite, systems = make_suite(files.suite, files.systems)
        request = RunRequest(suite, runs_dir, systems, until=limits, command_line=command_line)
        completed = run_suite(request, watch)
    except InputError as error:  # the files are not the user's: no place in them says anything
        raise InputError("\n".join(dict.fromkeys(problem.what for problem in error.problems))) from error
    except (KeyboardInterrupt, InterruptedRun):
        raise InterruptedRun(
            "interrupted; what was running has been ended. The same command resumes"
        ) from None
    if completed.left:
        raise LaunchError(completed.held[0].cause if completed.held else "the system can't be used")
    return completed


class _Watch:
    """Reports what runs and how long is left, and ends everything at the first failure."""

    def __init__(
        self,
        session: Session,
        plan: Plan,
        _done: Sequence[Run],
        *,
        labels: Mapping[str, str],
        report: Report,
        phase: str,
        until: float,
    ) -> None:
        self._session, self._plan, self._labels = session, plan, labels
        self._report, self._phase, self._until = report, phase, until
        self._running = ""

    def trial_began(self, trial: Trial, _attempt: int, *, adopted: bool) -> None:
        """Say what runs, and when the next look is."""
        place = self._phase if not self._plan.looks else f"{self._phase} {trial.block}"
        self._running = f"{place}: {self._labels[trial.system]}"
        look = next((blocks for blocks in self._plan.looks if blocks >= trial.block), None)
        self._running += "" if look is None else f", next look after round {look}"
        self._tell("taken over" if adopted else "")

    def printed(self, _output: Output) -> None:
        """Say how long is left."""
        self._tell()

    def waited(self, why: str) -> None:
        """Say that it waits."""
        self._tell(f"waits: {why}" if why else "")

    def _tell(self, also: str = "") -> None:
        left_s = self._until - time.monotonic()
        left = f"at most {human_seconds(round(left_s))} left" if left_s >= 1 else "finishing this round"
        self._report("; ".join(filter(None, (self._running, also, left))))

    def trial_ended(self, result: Result, attempt: Attempt, *, settled: bool) -> None:
        """Raise AssayError if the program failed."""
        if not settled or result.counts or result.run.job in (None, JobState.LOST, JobState.STOPPED):
            return
        rundir.mark_finished(self._session, time.time())  # the same command starts anew
        self._failed(result, attempt)

    def _failed(self, result: Result, attempt: Attempt) -> NoReturn:
        run = result.run
        cause = run.cause or "; ".join(result.reading.problems)
        lines = last_lines(attempt, run.exits)[-_LAST_LINES:] or _end_of(attempt.path / "logs" / _LOG)
        shown = "".join(f"\n  | {line}" for line in lines)
        what = f"{self._labels[run.trial.system]} failed in its {self._ordinal(run.trial)}: {cause}."
        output = f"\nIts whole output: {attempt.path / 'logs' / _LOG}" if lines else ""
        raise AssayError(f"{what}{' Its last lines:' if lines else ' It printed nothing.'}{shown}{output}")

    def _ordinal(self, trial: Trial) -> str:
        return f"run of round {trial.block}" if self._plan.looks else "first run"

    def noted(self, message: str) -> None:
        """Nothing: the answer says it."""

    def close(self) -> None:
        """Nothing to clean up."""


def _end_of(log: Path) -> list[str]:
    """The last lines of an output, printable."""
    from assay import redact

    if not log.is_file():
        return []
    with log.open("rb") as file:
        file.seek(max(log.stat().st_size - 4096, 0))
        text = redact.text(file.read().decode(errors="replace"))
    lines = [line for line in text.splitlines() if line.strip()][-_LAST_LINES:]
    return ["".join(c if c.isprintable() else "·" for c in line.expandtabs())[:200] for line in lines]


def _yaml(content: Mapping[str, Any]) -> str:
    """Plain data as YAML: a line for each key of the first two levels, JSON below."""
    lines = []
    for key, value in content.items():
        if isinstance(value, Mapping) and value:
            lines.append(f"{key}:")
            lines += [f"  {name}: {json.dumps(inner, ensure_ascii=False)}" for name, inner in value.items()]
        else:
            lines.append(f"{key}: {json.dumps(value, ensure_ascii=False)}")
    return "\n".join(lines) + "\n"
