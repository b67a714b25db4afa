"""Jobs on labelled data: a site's template, filled with what a person chose, and run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from assay import launch, redact
from assay.data.catalog import Catalog, reading
from assay.data.filters import condition
from assay.data.queries import frame_count, manifest_of
from assay.errors import InputError, Problem
from assay.frame_manifest import Manifest
from assay.plan import metrics_of
from assay.questions.plan import SentTrial, SuitePlan, plan
from assay.questions.question import (
    QUIET,
    RUNS,
    Answer,
    Count,
    Question,
    Reference,
    argument,
    option,
    question,
    supplied,
)
from assay.questions.run import RunResult, run
from assay.questions.values import PresentFile, Seed, Texts, Values
from assay.records import FrameChoice
from assay.run.progress import Tell
from assay.suite import Suite, Systems, parse
from assay.suite.filled_template import Choice, FilledTemplate, JobRequest, fill
from assay.suite.findings import unknown
from assay.suite.job_template import JobTemplate, composed, read_template
from assay.suite.load import read_file
from assay.units import counted, human
from assay.view.blocks import Block, Paragraph
from assay.workloads import PARAMS


@dataclass(frozen=True)
class DataJob(Answer):
    """A filled template: what was chosen, the frames that it means now, and what would run.

    manifest  the frames as the catalog has them now; they are chosen again when a run is submitted
    of        number of frames in the catalog
    """

    template: JobTemplate
    filled: FilledTemplate
    manifest: Manifest
    of: int
    plan: SuitePlan

    def view(self) -> Iterator[Block]:
        """What was chosen, the frames, and the suite."""
        yield Paragraph("\n".join(self._lines()), wraps=False)

    def _lines(self) -> Iterator[str]:
        content, filled, manifest = self.template.content, self.filled, self.manifest
        yield f"Template {content.template}" + (f": {content.about}" if content.about else "")
        if content.where.strip():
            yield f"  {content.where}  (always)"
        yield from (_line(choice.value, choice) for choice in filled.labels)
        size = human(float(manifest.bytes), "B")
        drawn = "" if filled.limit is None else f", drawn by seed {filled.seed}"
        yield (
            f"Frames now: {len(manifest.frames):,} of {self.of:,}{drawn}, {size}, "
            f"digest {manifest.digest[:12]}; chosen again when a run is submitted"
        )
        runs = counted(content.repeats, "run")
        yield f"Job: {content.workload} on {filled.system}, shape {filled.shape}, {runs}"
        yield from (_line(f"{choice.name} = {choice.value}", choice) for choice in filled.params)
        yield "The suite that it becomes:"
        yield from (f"  {line}" for line in redact.redacted_yaml(filled.suite.text).rstrip().splitlines())

    def document(self) -> dict[str, Any]:
        """What was chosen, the frames that it means now, and the suite that it becomes, without secrets."""
        filled, manifest = self.filled, self.manifest
        return {
            "template": self.template.content.template,
            "labels": [asdict(choice) for choice in filled.labels],
            "params": [asdict(choice) for choice in filled.params],
            "where": filled.where,
            "frames": {
                "number": len(manifest.frames),
                "of": self.of,
                "bytes": manifest.bytes,
                "digest": manifest.digest,
                "query": manifest.query,
            },
            "system": filled.system,
            "shape": filled.shape,
            "suite": redact.redacted(filled.suite.data),
        }


def _line(text: str, choice: Choice) -> str:
    bounds = f"  (of {choice.bounds})" if choice.bounds else ""
    return f"  {text}{bounds}{'  by default' if choice.by == 'template' else ''}"


@dataclass(frozen=True)
class DryRun(Answer):
    """What would be submitted."""

    job: DataJob

    def view(self) -> Iterator[Block]:
        """The job, and what its first trial sends."""
        yield from self.job.view()
        yield Paragraph("")
        yield from self._first.view()

    def document(self) -> dict[str, Any]:
        """The same."""
        return {"schema": "assay.data-job/1", **self.job.document(), "first": self._first.document()}

    @property
    def _first(self) -> SentTrial:
        return SentTrial(self.job.plan, self.job.plan.plan.trials[0], None)


@dataclass(frozen=True)
class SubmittedData(Answer):
    """A job and what its runs gave."""

    job: DataJob
    result: RunResult

    @property
    def exit_code(self) -> int:
        """That of the runs."""
        return self.result.exit_code

    def view(self) -> Iterator[Block]:
        """As of any run."""
        return self.result.view()

    def document(self) -> dict[str, Any]:
        """That of the runs, with the job."""
        return {**self.result.document(), "data_job": self.job.document()}


@question
class SubmitData(Question):
    """Run a site's TEMPLATE on the frames that your choice of labels finds.

    First it shows what was chosen, how many frames that is now, and the suite that it becomes; on a terminal
    it asks whether to submit, unless --yes. Then it is an `assay run`: the same command resumes it, and jobs
    that are still running are taken over. The frames are chosen anew directly before each run is submitted,
    and their manifest is kept with the run, as inputs/manifest.jsonl.

    \b
    Examples:
      assay data submit pedestrians.yaml --set pedestrian=5000..6000
      assay data submit pedestrians.yaml --set pedestrian=5000.. --set camera=cam_front_left --dry-run
      assay data submit pedestrians.yaml --set pedestrian=1..500 --param max_epochs=3 --system power --yes

    \b
    Exit codes: 0 all runs gave a result; 1 a run failed; 4 the template, a choice or the catalog is wrong, or
    no frame is left: every problem is listed; 5 a platform can't be used; 130 stopped by Ctrl-C.
    """

    template: PresentFile = argument()
    labels: Texts | None = option(
        "Choose a label; repeatable.", default=None, names=("--set",), metavar="LABEL=VALUE"
    )
    params: Values | None = option("Set a parameter; repeatable.", default=None, names=("--param",))
    limit: Count | None = option("So many frames, at random.", default=None)
    seed: Seed | None = option("Of the random choice.  [default: the template's]", default=None)
    system: str | None = option(
        "Where to run.  [default: the template's first]", default=None, metavar="NAME"
    )
    shape: str | None = option(
        "Workers x accelerators.  [default: the template's first]", default=None, metavar="WxA"
    )
    systems: PresentFile | None = option(
        "The systems file.  [default: systems.yaml next to the template]", default=None
    )
    dry_run: bool = option("Show everything that would be submitted; submit nothing.", default=False)
    yes: bool = option("Submit without asking.", default=False)
    new: bool = option("Start a new session even if one is unfinished.", default=False)
    failed: bool = option("Repeat the failed runs of the newest session.", default=False)
    quiet: bool = option(QUIET, default=False)
    runs: Reference | None = option(RUNS, default=None, local=True)
    show: Callable[[Answer], None] | None = supplied("preview", default=None)
    confirm: Callable[[str], None] | None = supplied("consent", default=None)
    progress: Tell | None = supplied("sessions", default=None)
    command_line: Sequence[str] = supplied("command line", default=())

    def __post_init__(self) -> None:
        if self.new and self.failed:
            raise ValueError("--failed repeats runs of an existing session; --new starts another one")

    def answer(self) -> DryRun | SubmittedData:
        """What would be submitted, or what its runs gave."""
        job = data_job(
            self.template,
            labels=self.labels,
            params=self.params,
            system=self.system,
            shape=self.shape,
            limit=self.limit,
            seed=self.seed,
            systems=self.systems,
            runs=self.runs,
        )
        if self.dry_run:
            return DryRun(job)
        if self.show is not None and self.confirm is not None:
            self.show(job)
            self.confirm("Submit?")
        result = submit_data(
            job,
            new=self.new,
            failed=self.failed,
            runs=self.runs,
            progress=self.progress,
            command_line=self.command_line,
        )
        return SubmittedData(job, result)


def job_template(template: str | PathLike[str]) -> JobTemplate:
    """What may be chosen, and within which bounds. Raises InputError with everything wrong with the file."""
    return read_template(Path(template), PARAMS)


def data_job(
    template: str | PathLike[str],
    *,
    labels: Mapping[str, str] | None = None,
    params: Mapping[str, Any] | None = None,
    system: str | None = None,
    shape: str | None = None,
    limit: int | None = None,
    seed: int | None = None,
    systems: str | PathLike[str] | None = None,
    runs: str | PathLike[str] | None = None,
) -> DataJob:
    """What a template becomes with these choices, like `assay data submit TEMPLATE --dry-run`.

    labels   label → range or values: `{"pedestrian": "5000..6000", "camera": "cam_front_left"}`
    params   parameter that the template lets you set → its value
    limit    number of frames to draw at random
    systems  where to run; None: systems.yaml next to the template, or this machine
    runs     directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Starts and writes nothing. Raises InputError with everything wrong: with the template, with the choices,
    with the catalog, or because no frame is left.
    """
    read = job_template(template)
    request = JobRequest(labels or {}, params or {}, system, shape, limit, seed)
    filled, problems = fill(read, request)
    conditions = None if problems else [choice.value for choice in filled.labels]
    suite, wrong = _suite(filled, None if systems is None else Path(systems))
    problems += wrong
    manifest, total, wrong = _frames(read, filled, conditions)
    problems += wrong
    if problems or suite is None or manifest is None:
        raise InputError(list(dict.fromkeys(problems)))
    return DataJob(read, filled, manifest, total, plan(suite[0], systems=suite[1], runs=runs))


def submit_data(
    job: DataJob,
    *,
    new: bool = False,
    failed: bool = False,
    runs: str | PathLike[str] | None = None,
    progress: Tell | None = None,
    command_line: Sequence[str] = (),
) -> RunResult:
    """Run a filled template to its end, like `assay data submit TEMPLATE`; the same call resumes it.

    The frames are chosen anew directly before each run is submitted, and their manifest is kept with it.

    new, failed, runs, progress, command_line  as for `run`

    Raises as `run` does.
    """
    return run(
        job.plan.run.suite,
        systems=job.plan.run.systems,
        new=new,
        failed=failed,
        runs=runs,
        progress=progress,
        command_line=command_line,
    )


def _suite(
    filled: FilledTemplate, systems: Path | None
) -> tuple[tuple[Suite, Systems] | None, list[Problem]]:
    where = read_file(Path(filled.suite.file), systems)
    try:
        parsed = parse(
            filled.suite,
            where,
            params_models=PARAMS,
            launcher_models=launch.SYSTEM_MODELS,
            metrics=metrics_of(),
        )
    except InputError as error:
        return None, list(error.problems)
    return parsed, []


def _frames(
    template: JobTemplate, filled: FilledTemplate, conditions: Sequence[str] | None
) -> tuple[Manifest | None, int, list[Problem]]:
    """The frames, the number of all, and what is wrong with the catalog or the conditions.

    conditions  that were chosen; None if some of them are wrong, so that no frame is looked for
    """
    content, source = template.content, template.source
    try:
        with reading(template.catalog) as catalog:
            problems = list(_unknown(template, catalog))
            if problems or conditions is None:
                return None, 0, problems
            total = frame_count(catalog)
            nothing = _nothing_left(catalog, filled, [content.where, *conditions], total)
    except InputError as error:
        where = source.where("catalog")
        return None, 0, [Problem(where, f"catalog: {problem.what}") for problem in error.problems]
    if nothing is not None:
        return None, total, [nothing]
    choice = FrameChoice(str(template.catalog), filled.where, filled.limit, filled.seed, content.balance)
    try:
        return manifest_of(choice), total, []
    except InputError as error:
        return None, total, list(error.problems)


def _nothing_left(
    catalog: Catalog, filled: FilledTemplate, parts: Sequence[str], total: int
) -> Problem | None:
    """That no frame satisfies all conditions, with how many satisfy each alone; None if some do."""
    if frame_count(catalog, filled.where):
        return None
    each = "; ".join(f"{part}: {frame_count(catalog, part):,}" for part in parts if part.strip())
    return Problem(
        "", f"no frame satisfies {filled.where}. Of {total:,} frames, each condition alone: {each}"
    )


def _unknown(template: JobTemplate, catalog: Catalog) -> list[Problem]:
    """Labels that the catalog does not have, and what is wrong with the template's own condition."""
    content, source = template.content, template.source
    problems = [
        Problem(
            source.where("labels", name),
            f"labels: {unknown('class or column of the catalog', name, catalog.columns)}",
        )
        for name in content.labels
        if composed(name).lower() not in catalog.columns
    ]
    if content.where.strip():
        try:
            condition(content.where, catalog.columns)
        except InputError as error:
            problems.append(Problem(source.where("where"), f"where: {error}"))
    return problems
