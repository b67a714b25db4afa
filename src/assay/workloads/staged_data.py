"""What a trial's nodes do about its data before the ranks start, whatever its workload."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

from assay import payload_files
from assay.records import FRAMES_FILE, NodeProgram, StagedData, Task, TaskFile
from assay.workloads.program import content

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
