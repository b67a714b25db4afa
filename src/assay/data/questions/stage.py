"""The frames of a manifest, copied near to where they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Any

from assay.data.questions import timed
from assay.errors import HostError, InputError
from assay.frame_manifest import read_manifest
from assay.launch.kubernetes.objects.kinds import KINDS
from assay.launch.kubernetes.objects.manifests import render
from assay.questions.question import (
    Answer,
    Count,
    FileText,
    Question,
    argument,
    function,
    option,
    progress_line,
    question,
)
from assay.questions.systems import kubernetes_options
from assay.questions.values import File, Location, Size
from assay.records import Job, Shape
from assay.redact import redacted
from assay.units import counted, human, human_seconds
from assay.view.blocks import Block, Paragraph
from assay.workloads.data import staging_task
from assay_payloads.datasets.places import is_remote
from assay_payloads.datasets.shards import stage_shards
from assay_payloads.datasets.staged_files import THREADS, MissingError, Staging, StagingError
from assay_payloads.datasets.staging import stage, stage_in_cache
from assay_payloads.datasets.staging_cache import set_name
from assay_payloads.datasets.store_staging import stage_to_store

STAGING_TIMEOUT_S = 86_400.0  # of a Job that stages


def _progress(done: Staging, seconds: float) -> str:
    if not done.copied_bytes:
        return ""
    left = seconds / done.copied_bytes * (done.bytes - done.copied_bytes)
    size = f"{human(float(done.copied_bytes), 'B')} of {human(float(done.bytes), 'B')}"
    return f"{size}, at most {human_seconds(left)} left"


@question
class StageData(Question):
    """Copy the frames of a manifest to a directory or a store: a local disk, a volume, an S3 bucket.

    Each file is read back from there and compared with what was read from its source, by SHA-256. Run again,
    also after a kill, the command copies only what is missing or has changed at its source. The directory
    gets the data set's list of classes and a manifest of the same frames, so that a training reads it like
    the whole.

    --space makes the directory a cache: each manifest's frames are in a directory of their own, and the sets
    that were used least recently make room for the next, except those that a trial reads. --shards writes
    tar files of samples instead, the same bytes for the same frames, with an index of their digests. A store
    gets its credentials from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or AWS_PROFILE, and its address from
    AWS_ENDPOINT_URL; none of them is written anywhere. --render prints the manifests of a Job for `kubectl
    apply -f -`: it stages into one of the volumes that the system mounts, a claim or a directory of the node.

    \b
    Examples:
      assay data stage bicycles.jsonl --to /scratch/bicycles
      assay data stage bicycles.jsonl --from /mnt/copy --to /scratch/bicycles --threads 32 --json
      assay data stage bicycles.jsonl --to /scratch/assay --space 200GB
      assay data stage bicycles.jsonl --to /scratch/shards --shards 1GB
      assay data stage bicycles.jsonl --to s3://datasets/bicycles
      assay data stage bicycles.jsonl --to /scratch/assay --space 200GB --render openshift | oc apply -f -

    \b
    Exit codes: 0 all of it is there; 4 the manifest is damaged, or its data set lacks files; 5 a file can't
    be copied: no space, no permission, a disk that returns other bytes, a store that refuses the key.
    """

    manifest: File = argument()
    to: Location = option("Directory to copy to, or s3://BUCKET/PREFIX.", metavar="PLACE", positional=True)
    source: Location | None = option(
        "The data set's place.  [default: as in the manifest]",
        default=None,
        names=("--from",),
        metavar="PLACE",
    )
    threads: Count | None = option("That copy.  [default: 8]", default=None)
    space_bytes: Size | None = option(
        "Make the directory a cache of several sets, with at most this much, such as 200GB.",
        default=None,
        names=("--space",),
    )
    shard_bytes: Size | None = option(
        "Write webdataset shards of at most this size.", default=None, names=("--shards",)
    )
    render: str | None = option(
        "Print a Job that stages in a pod of this Kubernetes system.",
        default=None,
        metavar="SYSTEM",
        output=True,
    )
    systems: File | None = option(
        "With --render: the systems file.  [default: systems.yaml here]", default=None, output=True
    )
    tell: Callable[[Staging], None] | None = progress_line(timed(_progress), default=None)

    def __post_init__(self) -> None:
        if self.render is not None and (self.shard_bytes is not None or self.threads is not None):
            raise ValueError("--render prints a Job that copies files; leave out --shards and --threads")

    def answer(self) -> StagedFrames | FileText:
        """What was copied, or the Job's manifests."""
        if self.render is None:
            return StagedFrames(self.stage(), self.space_bytes is not None)
        source = None if self.source is None else str(self.source)
        space = self.space_bytes
        return FileText(
            staging_job(
                self.manifest,
                str(self.to),
                self.render,
                systems=self.systems,
                source=source,
                space_bytes=space,
            )
        )

    def stage(self) -> Staging:
        """What was copied. Raises InputError for missing files, HostError if something can't be copied."""
        options = {"--space": self.space_bytes, "--shards": self.shard_bytes}
        stated = [name for name, value in options.items() if value is not None]
        if is_remote(str(self.to)) and stated:
            raise InputError(f"{stated[0]}: is of directories, but {self.to} is a store; leave it out")
        if len(stated) > 1:
            raise InputError(
                "--space: is of a cache that trials read, and shards are not; leave out one of them"
            )
        chosen, to = read_manifest(Path(self.manifest)), Path(self.to)
        source = None if self.source is None else str(self.source)
        threads, tell = self.threads or THREADS, self.tell or (lambda _: None)
        try:
            if is_remote(str(self.to)):
                return stage_to_store(chosen, str(self.to), source=source, threads=threads, tell=tell)
            if self.shard_bytes is not None:
                return stage_shards(chosen, to, self.shard_bytes, source=source, threads=threads, tell=tell)
            if self.space_bytes is not None:
                return stage_in_cache(chosen, to, self.space_bytes, source=source, threads=threads, tell=tell)
            return stage(chosen, to, source=source, threads=threads, tell=tell)
        except MissingError as error:
            raise InputError(str(error)) from None
        except StagingError as error:
            raise HostError(str(error)) from None


stage_data = function(StageData, StageData.stage)


@dataclass(frozen=True)
class StagedFrames(Answer):
    """What was copied, to a cache of several sets or to a directory."""

    done: Staging
    is_cached: bool

    def view(self) -> Iterator[Block]:
        """How much was copied, and what made room for it."""
        done = self.done
        rate = f", {human(done.copied_bytes / done.seconds, 'B/s')}" if done.copied_bytes else ""
        size = f"{human(float(done.copied_bytes), 'B')} in {human_seconds(done.seconds)}{rate}"
        where = f" in {done.directory}" if self.is_cached else ""
        copied = f"{counted(done.copied_files, 'file')} copied, {size}"
        yield Paragraph(f"{copied}; {done.present_files:,} of {done.files:,} were there{where}")
        if done.resized:
            files = f"{counted(done.resized, 'file')} of another size than when the manifest was made"
            yield Paragraph(f"! {files}: choose the frames again with `assay data query`")
        for name in done.evicted:
            yield Paragraph(f"removed set {name}, the least recently used")

    def document(self) -> dict[str, Any]:
        """All of it."""
        return asdict(self.done)


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
