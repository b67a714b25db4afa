"""Labelled data brought near: staged to a directory, a cache or a store, as files or as shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from assay.errors import HostError, InputError

STAGING_TIMEOUT_S = 86_400.0  # of a Job that stages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from os import PathLike

    from assay_payloads.datasets.staged_files import Staging
    from assay_payloads.datasets.staging_cache import CachedSet


def stage_data(
    manifest: str | PathLike[str],
    to: str | PathLike[str],
    *,
    source: str | PathLike[str] | None = None,
    threads: int | None = None,
    space_bytes: int | None = None,
    shard_bytes: int | None = None,
    tell: Callable[[Staging], None] | None = None,
) -> Staging:
    """Copy the frames of a manifest, like `assay data stage`.

    to           a directory, or `s3://BUCKET/PREFIX`
    source       the data set's place; None: the one in the manifest
    threads      that copy
    space_bytes  `to` is a cache: the set gets a directory of its own there, and all sets take at most these
    shard_bytes  write webdataset shards of at most so many bytes
    tell         takes the state so far, again and again

    Raises InputError if the manifest is damaged, files are missing, or options exclude each other; HostError
    if something can't be copied.
    """
    from pathlib import Path

    from assay.data.manifest import read_manifest
    from assay_payloads.datasets.places import is_remote
    from assay_payloads.datasets.shards import stage_shards
    from assay_payloads.datasets.staged_files import THREADS, MissingError, StagingError
    from assay_payloads.datasets.staging import stage, stage_in_cache
    from assay_payloads.datasets.store_staging import stage_to_store

    options = [
        name for name, value in (("--space", space_bytes), ("--shards", shard_bytes)) if value is not None
    ]
    if is_remote(str(to)) and options:
        raise InputError(f"{options[0]}: is of directories, but {to} is a store; leave it out")
    if len(options) > 1:
        raise InputError("--space: is of a cache that trials read, and shards are not; leave out one of them")
    chosen, place = read_manifest(Path(manifest)), None if source is None else str(source)
    thread_count, report = threads or THREADS, tell or (lambda _: None)
    try:
        if is_remote(str(to)):
            return stage_to_store(chosen, str(to), source=place, threads=thread_count, tell=report)
        if shard_bytes is not None:
            return stage_shards(
                chosen, Path(to), shard_bytes, source=place, threads=thread_count, tell=report
            )
        if space_bytes is not None:
            return stage_in_cache(
                chosen, Path(to), space_bytes, source=place, threads=thread_count, tell=report
            )
        return stage(chosen, Path(to), source=place, threads=thread_count, tell=report)
    except MissingError as error:
        raise InputError(str(error)) from None
    except StagingError as error:
        raise HostError(str(error)) from None


def staging_job(
    manifest: str | PathLike[str],
    to: str,
    system: str,
    *,
    systems: str | PathLike[str] | None = None,
    source: str | None = None,
    space_bytes: int | None = None,
) -> str:
    """The manifests of a Job that stages in a pod of a Kubernetes system, like `assay data stage --render`.

    to       a directory in the pod: a claim or a path of the node that the system mounts as a volume
    systems  the file with the system; None: systems.yaml here
    source   the data set's place in the pod; None: the one in the manifest

    Raises InputError if the manifest is damaged, or the system isn't on Kubernetes or has no volume there.
    """
    from pathlib import Path, PurePosixPath

    from assay.data.manifest import read_manifest
    from assay.launch.kubernetes.objects.kinds import KINDS
    from assay.launch.kubernetes.objects.manifests import render
    from assay.questions.systems import kubernetes_options
    from assay.records import Job, Shape
    from assay.redact import redacted
    from assay.workloads.staged_data import staging_task
    from assay_payloads.datasets.staging_cache import set_name

    chosen, options = read_manifest(Path(manifest)), kubernetes_options(system, systems)
    kept = [volume.mountPath for volume in options.volumes if not volume.readOnly and volume.emptyDir is None]
    place = PurePosixPath(to)
    if ".." in place.parts or not any(place.is_relative_to(path) for path in kept):
        raise InputError(
            f"{to}: system {system} mounts nothing there that stays; expected a directory below one of its "
            f"writable volumes, {', '.join(kept) or 'of which it has none'}"
        )
    task = staging_task(str(manifest), to, source=source, space_bytes=space_bytes)
    name = f"stage-{set_name(chosen)}"
    job = Job(name, name, Shape(1, 1), task, seed=0, timeout_s=STAGING_TIMEOUT_S)
    shown = options.model_copy(update={"env": redacted(options.env)})
    return render(job, shown, KINDS["job"]).yaml()


def staged_sets(cache: str | PathLike[str], *, remove: Sequence[str] = ()) -> list[CachedSet]:
    """The sets of frames in a cache, the least recently used first, like `assay data cache`.

    remove  names of sets to remove first

    Raises InputError if there is no cache or no such set, HostError if one is in use or can't be removed.
    """
    from pathlib import Path

    from assay_payloads.datasets import staging_cache

    place = Path(cache)
    try:
        sets = staging_cache.sets(place)
        if not sets and not (place / staging_cache.RECORDS).is_dir():
            raise InputError(f"{cache}: is no cache of staged frames; `assay data stage --space` makes one")
        if strange := [name for name in remove if name not in {cached_set.name for cached_set in sets}]:
            raise InputError(f"{cache}: has no set {strange[0]}; `assay data cache {cache}` lists them")
        if used := [name for name in remove if not staging_cache.remove(place, name)]:
            raise HostError(f"{cache}: set {used[0]} is in use; wait for the trial that reads it")
        return [cached_set for cached_set in sets if cached_set.name not in remove]
    except OSError as error:
        raise HostError(f"{error.filename or cache}: {error.strerror or error}") from None
