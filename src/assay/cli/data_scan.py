"""`assay data scan`: a catalog of labelled frames, brought up to date."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from assay.cli.data import CATALOG
from assay.cli.options import JSON, echo_json
from assay.cli.redacting_stream import show_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from assay.data.scanning import Scan

MOST_SHOWN = 5  # damaged files


@click.command("scan")
@click.argument("root", metavar="PLACE")
@CATALOG
@click.option("--processes", type=click.IntRange(min=1), help="That count pixels.  [default: one per CPU]")
@click.option("--ray", metavar="ADDRESS", help="Count on Ray: `local`, or a cluster's address.")
@click.option("--tags", type=click.Path(path_type=Path, dir_okay=False), help="CSV of the site's own tags.")
@click.option("--bus", metavar="PLACE", help="Of SCENE/bus/*.json.  [default: those of the data set]")
@click.option(
    "--bus-within",
    "bus_within_s",
    type=click.FloatRange(min=0),
    default=0.1,
    show_default=True,
    help="Seconds between a frame and a value of the bus.",
)
@click.option("--parquet", type=click.Path(path_type=Path), help="Then write all frames as Parquet, too.")
@JSON
def command(
    root: str,
    catalog: Path,
    processes: int | None,
    ray: str | None,
    tags: Path | None,
    bus: str | None,
    bus_within_s: float,
    parquet: Path | None,
    as_json: bool,
) -> None:
    """Count the pixels of each class in every labeled frame, and keep them in a catalog.

    PLACE is a directory or s3://BUCKET/PREFIX, with the layout of A2D2, Cityscapes, COCO, ImageFolder, or
    webdataset's shards. Endpoint and credentials of S3 come from the usual AWS_* variables and files. Only
    new and changed frames are read; those that have vanished are removed. After a kill, the same command
    resumes. Links are not followed.

    A frame that can't be counted is kept by name and reason in the table `damaged`: a label without an image,
    an image of another size, a PNG that is cut, has a palette, or 16 bits per channel.

    Tags and the vehicle's bus become columns of frames: `--tags` joins a CSV file by `label` or `image`, or
    by `scene`, `camera`, and the times `from` and `to`.

    \b
    Examples:
      assay data scan /data/camera_lidar_semantic
      assay data scan s3://recordings/a2d2 --catalog a2d2.duckdb --parquet a2d2.parquet
      assay data scan /data/coco --ray auto
      assay data scan /data/camera_lidar_semantic --tags weather.csv
      assay data query --sql 'SELECT * FROM damaged'

    \b
    Exit codes: 0 every frame is in the catalog; 1 some are damaged; 4 the place, the tags or the catalog is
    not one; 5 the store fails, or the catalog can't be written.
    """
    from assay.questions.datasets import scan_data
    from assay.units import counted, human_seconds

    live = sys.stderr.isatty() and not as_json
    done = scan_data(
        root,
        catalog=catalog,
        processes=processes,
        ray=ray,
        tags=tags,
        bus=bus,
        bus_within_s=bus_within_s,
        parquet=parquet,
        tell=_progress() if live else None,
    )
    if live:
        show_progress("")
    damaged = _damaged(catalog)
    if as_json:
        from dataclasses import asdict

        frames = [{"label": label, "why": why} for label, why in damaged]
        echo_json({**asdict(done), "damaged_frames": frames})
    else:
        rate = f", {done.read / done.seconds:.0f} frames/s" if done.read and done.seconds else ""
        summary = f"{counted(done.read, 'frame')} read in {human_seconds(done.seconds)}{rate}"
        click.echo(f"{summary}; {done.unchanged:,} unchanged, {done.vanished:,} vanished")
        for name, why in damaged[:MOST_SHOWN]:
            click.echo(f"! {name} {why}")
        if len(damaged) > MOST_SHOWN:
            click.echo(f"! and {len(damaged) - MOST_SHOWN:,} more: assay data query --sql 'FROM damaged'")
        if done.orphans:
            click.echo(f"! {counted(len(done.orphans), 'image')} without a label, first {done.orphans[0]}")
        _echo_joined(done)
        click.echo(f"Catalog: {catalog}")
    if damaged or (done.bus is not None and done.bus.problems):
        click.get_current_context().exit(1)


def _echo_joined(done: Scan) -> None:
    """What became of the tags and of the bus' values."""
    from assay.units import counted, human_seconds

    if done.tags is not None:
        tags = done.tags
        got = f"{counted(tags.frames, 'frame')}, {tags.unmatched_frames:,} without"
        click.echo(f"Tags {', '.join(tags.columns)}: {got}")
        if tags.unmatched_rows:
            lines = ", ".join(map(str, tags.first_unmatched))
            click.echo(
                f"! Of {tags.rows:,} rows, {tags.unmatched_rows:,} match no frame; first lines: {lines}"
            )
    if done.bus is not None:
        bus = done.bus
        offset = f"nearest value at most {human_seconds(bus.largest_offset_s)} away"
        summary = f"Bus: {counted(len(bus.signals), 'signal')} for {counted(bus.frames, 'frame')}, {offset}"
        click.echo(f"{summary}; {bus.unmatched_frames:,} frames without")
        for problem in bus.problems[:MOST_SHOWN]:
            click.echo(f"! {problem}")
        if len(bus.problems) > MOST_SHOWN:
            click.echo(f"! and {len(bus.problems) - MOST_SHOWN:,} more")


def _damaged(catalog: Path) -> list[tuple[str, str]]:
    from assay.questions.datasets import query_data_sql

    rows = query_data_sql("SELECT label, why FROM damaged ORDER BY label", catalog=catalog).rows
    return [(str(label), str(why)) for label, why in rows]


def _progress() -> Callable[[Scan], None]:
    """A line on the terminal that is drawn again, at most ten times a second."""
    from assay.units import human_seconds

    begin, drawn = time.monotonic(), 0.0

    def tell(scan: Scan) -> None:
        nonlocal drawn
        now = time.monotonic()
        if now - drawn < 0.1:
            return
        drawn = now
        if scan.members:
            show_progress(f"{scan.members:,} members of shards")
            return
        left = (now - begin) / scan.read * (scan.total - scan.read) if scan.read else None
        remaining = "" if left is None else f", {human_seconds(left)} left"
        damaged = f", {scan.damaged:,} damaged" if scan.damaged else ""
        show_progress(f"{scan.read:,} of {scan.total:,} frames{damaged}{remaining}")

    return tell
