"""A trial's data: the frames that a suite chooses, and what the nodes do about them first."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from pydantic import Field, ValidationInfo, field_validator

from assay import payload_files
from assay.formats.reader import Params
from assay.records import FRAMES_FILE, FrameChoice, NodeProgram, StagedData, Task, TaskFile
from assay.workloads.workload import absolute, content

CHOOSE_HELP = (
    "Frames of a catalog, chosen each time a trial is submitted, like {catalog: a2d2.duckdb, "
    "where: bicycle > 0, limit: 1000, seed: 1, balance: bicycle}. The manifest is kept with the run."
)


def is_unset(value: object) -> bool:
    """Whether the parameter is left out of a trial: digests of suites without it stay what they were."""
    return value is None


class Choose(Params):
    """Frames of a catalog that `assay data scan` made."""

    catalog: str = Field(min_length=1, description="File of the catalog, relative to the suite's directory.")
    where: str = Field("", description="Condition, as `assay data query` takes it; default: all frames.")
    limit: int | None = Field(None, ge=1, description="Frames to draw at random; default: all.")
    seed: int = Field(0, ge=0, lt=2**53, description="Of the draw.")
    balance: str | None = Field(None, description="A class: as many frames without it as with it.")

    @field_validator("catalog")
    @classmethod
    def _is_absolute(cls, path: str, info: ValidationInfo) -> str:
        return absolute(path, info)

    def choice(self) -> FrameChoice:
        """What a task asks for."""
        return FrameChoice(**self.model_dump())


PROGRAM = "assay_payloads.datasets.staging"
STREAM = "staging"
FRAMES = "frames.jsonl"  # the manifest among the files of the job


def staging_task(
    manifest: str, to: str, *, source: str | None = None, space_bytes: int | None = None
) -> Task:
    """A task that only stages. Raises InputError if the manifest can't be read.

    manifest     the file here
    to           the directory there; a cache, if all sets in it may take `space_bytes` together
    """
    argv = ["{python}", "-m", PROGRAM, FRAMES, to]
    argv += [] if source is None else ["--source", source]
    argv += [] if space_bytes is None else ["--cache", "--space", str(space_bytes)]
    files = [TaskFile(path, program) for path, program in payload_files.files(PROGRAM).items()]
    return Task(tuple(argv), files=(*files, TaskFile(FRAMES, content(manifest))))


def with_data(task: Task, data: StagedData) -> Task:
    """The task, with the frames brought near first. Raises InputError if the manifest can't be read."""
    name = PurePath(data.directory).name
    frames = FRAMES if data.manifest else FRAMES_FILE  # the latter comes when the job is submitted
    argv = ["{python}", "-m", PROGRAM, frames, data.cache, "--cache", "--expected", name]
    argv += [] if data.space_bytes is None else ["--space", str(data.space_bytes)]
    argv += ["--through"] if data.mode == "through" else []
    known = {file.name for file in task.files}
    programs = payload_files.files(PROGRAM).items()
    files = [TaskFile(path, source) for path, source in programs if path not in known]
    named = [TaskFile(FRAMES, content(data.manifest))] if data.manifest else []
    return replace(
        task,
        env={"ASSAY_DATA": data.directory, "ASSAY_MANIFEST": data.list_path, **task.env},
        files=(*task.files, *files, *named),
        before=NodeProgram(STREAM, tuple(argv), data.timeout_s, (data.hold,)),
    )
