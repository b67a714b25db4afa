"""The frames that a job reads, chosen from their catalog directly before it is submitted.

Assay reads the catalog on its own machine, so that it means the same on every launcher: a node needs neither
the catalog nor a database, all ranks have the same frames, and the manifest is on disk before the job exists.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from assay.errors import InputError
from assay.frame_manifest import with_chosen_set
from assay.records import FRAMES_FILE, Job, TaskFile
from assay.registry import imported
from assay_payloads.datasets.manifest import Manifest, text

CHOICE: Final = "assay.data.queries:manifest_of"  # brings NumPy and a database, which few runs need


def with_frames(job: Job) -> Job:
    """The job with the manifest of its frames among its files, and staged if its nodes bring frames near.

    Unchanged if it chooses none.

    Raises InputError if the catalog can't answer, or no frame satisfies the condition.
    """
    choice = job.task.frames
    if choice is None:
        return job
    manifest: Manifest = imported(CHOICE)(choice)
    if not manifest.frames:
        raise InputError(f"{choice.catalog}: no frame satisfies the condition {choice.where!r}")
    file = TaskFile(FRAMES_FILE, text(manifest).encode())
    task = with_chosen_set(job.task, manifest)
    return replace(job, task=replace(task, files=(*task.files, file)))


def kept_inputs(job: Job) -> Mapping[str, bytes]:
    """Files of the job that can't be made again from its trial, to be kept with the run."""
    if job.task.frames is None:
        return {}
    return {file.name: file.data for file in job.task.files if file.name == FRAMES_FILE}
