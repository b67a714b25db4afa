"""Manifests of chosen frames as files, and where a manifest's set lies in a cache on each node.

`assay_payloads.datasets.manifest` has the form of the files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from assay.durable import deliver
from assay.errors import InputError, Problem
from assay.inputs import unreadable
from assay.records import CHOSEN_ROOT, CHOSEN_SET, FRAMES_FILE, Job, StagedData, Task, TaskFile
from assay.registry import imported
from assay_payloads.datasets.manifest import ChosenFrame, Manifest, ManifestError, made, parsed, text
from assay_payloads.datasets.staging_cache import hold_path, set_name

__all__ = ["ChosenFrame", "Manifest", "made", "read_manifest", "reading_manifest", "write_manifest"]


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write it whole, or not at all. Raises HostError if that fails."""
    deliver(path, text(manifest).encode(), option="--manifest")


def read_manifest(path: Path) -> Manifest:
    """A manifest. Raises InputError if it is damaged, or names a file outside the data set."""
    with reading_manifest(path):
        return parsed(path)


@contextmanager
def reading_manifest(path: Path) -> Iterator[None]:
    """A context in which a manifest is read: what is wrong with it is an InputError that names its line."""
    try:
        yield
    except ManifestError as error:
        where = f"{path}, line {error.line}" if error.line else str(path)
        raise InputError([Problem(where, error.what)]) from None
    except OSError as error:
        raise unreadable(path, error) from error


def chosen_data(
    cache: str, *, mode: Literal["local", "through"], space_bytes: int | None, timeout_s: float
) -> StagedData:
    """The set in a cache of frames that are chosen when a trial is submitted: its names are marks until then.

    `with_chosen_set` replaces them.
    """
    return StagedData(
        manifest="",
        digest="",
        frames=0,
        bytes=0,
        root=CHOSEN_ROOT,
        mode=mode,
        cache=cache,
        directory=str(Path(cache, CHOSEN_SET)),
        hold=str(hold_path(Path(cache), CHOSEN_SET)),
        space_bytes=space_bytes,
        timeout_s=timeout_s,
    )


def with_chosen_set(task: Task, manifest: Manifest) -> Task:
    """The task with the names of this manifest's set for their marks; unchanged if it stages nothing."""
    if task.before is None:
        return task
    marks = {CHOSEN_SET: set_name(manifest), CHOSEN_ROOT: manifest.root}

    def named(word: str) -> str:
        for mark, name in marks.items():
            word = word.replace(mark, name)
        return word

    before = replace(
        task.before,
        argv=tuple(map(named, task.before.argv)),
        holds=tuple(map(named, task.before.holds)),
    )
    env = {name: named(value) for name, value in task.env.items()}
    return replace(task, argv=tuple(map(named, task.argv)), env=env, before=before)


def staged_data(
    manifest: Path,
    cache: str,
    *,
    mode: Literal["local", "through"],
    space_bytes: int | None,
    timeout_s: float,
) -> StagedData:
    """The set of a manifest's frames in a cache. Raises InputError if the manifest is damaged."""
    chosen = read_manifest(manifest)
    name = set_name(chosen)
    return StagedData(
        manifest=str(manifest),
        digest=chosen.digest,
        frames=len(chosen.frames),
        bytes=chosen.bytes,
        root=chosen.root,
        mode=mode,
        cache=cache,
        directory=str(Path(cache, name)),
        hold=str(hold_path(Path(cache), name)),
        space_bytes=space_bytes,
        timeout_s=timeout_s,
    )


CHOICE: Final = "assay.data.queries:manifest_of"  # brings NumPy and a database, which few runs need


def with_frames(job: Job) -> Job:
    """The job with the manifest of its frames among its files, and staged if its nodes bring frames near.

    Unchanged if it chooses none. Assay reads the catalog on its own machine directly before the job is
    submitted: a node needs neither the catalog nor a database, all ranks have the same frames, and the
    manifest is on disk before the job exists.

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
