"""`assay data stage`: the frames of a manifest, copied near to where they are read."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.options import JSON, echo_json, size
from assay.cli.redacting_stream import show_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay_payloads.datasets.staged_files import Staging


@click.command("stage")
@click.argument("manifest", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--to", required=True, metavar="PLACE", help="Directory to copy to, or s3://BUCKET/PREFIX.")
@click.option(
    "--from", "source", metavar="PLACE", help="The data set's place.  [default: as in the manifest]"
)
@click.option("--threads", type=click.IntRange(min=1), help="That copy.  [default: 8]")
@click.option(
    "--space",
    callback=size,
    metavar="SIZE",
    help="Make the directory a cache of several sets, with at most this much, such as 200GB.",
)
@click.option("--shards", callback=size, metavar="SIZE", help="Write webdataset shards of at most this size.")
@click.option(
    "--render", "system", metavar="SYSTEM", help="Print a Job that stages in a pod of this Kubernetes system."
)
@click.option(
    "--systems",
    type=click.Path(path_type=Path),
    help="With --render: the systems file.  [default: systems.yaml here]",
)
@JSON
def command(
    manifest: Path,
    to: str,
    source: str | None,
    threads: int | None,
    space: int | None,
    shards: int | None,
    system: str | None,
    systems: Path | None,
    as_json: bool,
) -> None:
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
    from assay.questions.stage_data import stage_data, staging_job
    from assay.units import counted, human, human_seconds

    if system is not None:
        if shards is not None or threads is not None or as_json:
            raise click.UsageError(
                "--render prints a Job that copies files; leave out --shards, --threads, --json"
            )
        click.echo(
            staging_job(manifest, to, system, systems=systems, source=source, space_bytes=space), nl=False
        )
        return
    live = sys.stderr.isatty() and not as_json
    done = stage_data(
        manifest,
        to,
        source=source,
        threads=threads,
        space_bytes=space,
        shard_bytes=shards,
        tell=_progress() if live else None,
    )
    if live:
        show_progress("")
    if as_json:
        from dataclasses import asdict

        echo_json(asdict(done))
        return
    rate = f", {human(done.copied_bytes / done.seconds, 'B/s')}" if done.copied_bytes else ""
    much = human(float(done.copied_bytes), "B")
    copied = f"{counted(done.copied_files, 'file')} copied, {much} in {human_seconds(done.seconds)}{rate}"
    where = f" in {done.directory}" if space is not None else ""
    click.echo(f"{copied}; {done.present_files:,} of {done.files:,} were there{where}")
    if done.resized:
        files = f"{counted(done.resized, 'file')} of another size than when the manifest was made"
        click.echo(f"! {files}: choose the frames again with `assay data query`")
    for name in done.evicted:
        click.echo(f"removed set {name}, the least recently used")


def _progress() -> Callable[[Staging], None]:
    from assay.units import human, human_seconds

    begin, drawn = time.monotonic(), 0.0

    def tell(done: Staging) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - drawn < 0.1:
            return
        drawn = now
        left = (now - begin) / done.copied_bytes * (done.bytes - done.copied_bytes)
        size = f"{human(float(done.copied_bytes), 'B')} of {human(float(done.bytes), 'B')}"
        show_progress(f"{size}, at most {human_seconds(left)} left")

    return tell
