"""Jobs on labelled data: a site's template, filled with what a person chose, and run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.errors import InputError, Problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike

    from assay.data.catalog import Catalog
    from assay.frame_manifest import Manifest
    from assay.questions.plan import SuitePlan
    from assay.questions.run import RunResult
    from assay.run.progress import Tell
    from assay.suite import Suite, Systems
    from assay.suite.filled_template import FilledTemplate
    from assay.suite.job_template import JobTemplate


@dataclass(frozen=True)
class DataJob:
    """A filled template: what was chosen, the frames that it means now, and what would run.

    manifest  the frames as the catalog has them now; they are chosen again when a run is submitted
    of        number of frames in the catalog
    """

    template: JobTemplate
    filled: FilledTemplate
    manifest: Manifest
    of: int
    plan: SuitePlan

    def document(self) -> dict[str, Any]:
        """What was chosen, the frames that it means now, and the suite that it becomes, without secrets."""
        from assay import redact

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


def job_template(template: str | PathLike[str]) -> JobTemplate:
    """What may be chosen, and within which bounds. Raises InputError with everything wrong with the file."""
    from assay.suite.job_template import read_template
    from assay.workloads import PARAMS

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
    from assay.questions.plan import plan
    from assay.suite.filled_template import JobRequest, fill

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
    from assay.questions.run import run

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
    from assay import launch
    from assay.plan import metrics_of
    from assay.suite import parse
    from assay.suite.load import read_file
    from assay.workloads import PARAMS

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
    from assay.data.catalog import reading
    from assay.data.queries import frame_count, manifest_of
    from assay.records import FrameChoice

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
    from assay.data.queries import frame_count

    if frame_count(catalog, filled.where):
        return None
    each = "; ".join(f"{part}: {frame_count(catalog, part):,}" for part in parts if part.strip())
    return Problem(
        "", f"no frame satisfies {filled.where}. Of {total:,} frames, each condition alone: {each}"
    )


def _unknown(template: JobTemplate, catalog: Catalog) -> list[Problem]:
    """Labels that the catalog does not have, and what is wrong with the template's own condition."""
    from assay.data.filters import condition
    from assay.suite.findings import unknown
    from assay.suite.job_template import composed

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
