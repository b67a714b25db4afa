"""A catalog of labelled frames, brought up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from os import fspath
from pathlib import Path
from typing import Annotated, Any

from assay.data.parallel import Workers
from assay.data.questions import ABOUT_CATALOG, CATALOG, CATALOG_VARIABLE, timed
from assay.data.questions.query import query_data_sql
from assay.data.scanning import JoinedSources, Scan, export, scan
from assay.errors import EXIT_OK, EXIT_WORSE
from assay.questions.question import (
    Answer,
    Count,
    Question,
    Reads,
    argument,
    function,
    option,
    progress_line,
    question,
)
from assay.questions.values import File, Location
from assay.units import counted, human_seconds
from assay.view.blocks import Block, Paragraph

MOST_SHOWN = 5  # damaged files


def _progress(so_far: Scan, seconds: float) -> str:
    if so_far.members:
        return f"{so_far.members:,} members of shards"
    left = seconds / so_far.read * (so_far.total - so_far.read) if so_far.read else None
    remaining = "" if left is None else f", {human_seconds(left)} left"
    damaged = f", {so_far.damaged:,} damaged" if so_far.damaged else ""
    return f"{so_far.read:,} of {so_far.total:,} frames{damaged}{remaining}"


def _not_negative(text: str) -> float:
    if not float(text) >= 0:
        raise ValueError(f"{text}: expected at least 0")
    return float(text)


@question
class ScanData(Question):
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

    root: Location = argument(metavar="PLACE")
    catalog: File = option(ABOUT_CATALOG, default=CATALOG, variable=CATALOG_VARIABLE)
    processes: Count | None = option("That count pixels.  [default: one per CPU]", default=None)
    ray: str | None = option(
        "Count on Ray: `local`, or a cluster's address.", default=None, metavar="ADDRESS"
    )
    tags: File | None = option("CSV of the site's own tags.", default=None)
    bus: Location | None = option(
        "Of SCENE/bus/*.json.  [default: those of the data set]", default=None, metavar="PLACE"
    )
    bus_within_s: Annotated[float, Reads(_not_negative, "FLOAT")] = option(
        "Seconds between a frame and a value of the bus.", default=0.1, names=("--bus-within",)
    )
    parquet: File | None = option("Then write all frames as Parquet, too.", default=None)
    tell: Callable[[Scan], None] | None = progress_line(timed(_progress), default=None)

    def scan(self) -> Scan:
        """The scan that was done. Raises InputError for a wrong place, HostError if a store fails."""
        sources = JoinedSources(
            None if self.tags is None else Path(self.tags),
            None if self.bus is None else fspath(self.bus),
            self.bus_within_s,
        )
        workers, catalog = Workers(self.processes, self.ray), Path(self.catalog)
        done = scan(fspath(self.root), catalog, workers=workers, sources=sources, tell=self.tell or _silent)
        if self.parquet is not None:
            export(catalog, Path(self.parquet))
        return done

    def answer(self) -> CatalogState:
        """The scan, and the damaged frames of the catalog."""
        done = self.scan()
        rows = query_data_sql("SELECT label, why FROM damaged ORDER BY label", catalog=self.catalog).rows
        return CatalogState(done, tuple((str(label), str(why)) for label, why in rows), fspath(self.catalog))


scan_data = function(ScanData, ScanData.scan)


@dataclass(frozen=True)
class CatalogState(Answer):
    """A catalog after a scan; damaged: labels and why they don't count."""

    scan: Scan
    damaged: tuple[tuple[str, str], ...]
    catalog: str

    @property
    def exit_code(self) -> int:
        """1 if something is damaged."""
        bus = self.scan.bus
        return EXIT_WORSE if self.damaged or (bus is not None and bus.problems) else EXIT_OK

    def view(self) -> Iterator[Block]:
        """What was read, what is damaged, what became of the tags and of the bus' values."""
        done = self.scan
        rate = f", {done.read / done.seconds:.0f} frames/s" if done.read and done.seconds else ""
        summary = f"{counted(done.read, 'frame')} read in {human_seconds(done.seconds)}{rate}"
        yield Paragraph(f"{summary}; {done.unchanged:,} unchanged, {done.vanished:,} vanished")
        yield from _first(
            [f"{name} {why}" for name, why in self.damaged], "assay data query --sql 'FROM damaged'"
        )
        if done.orphans:
            without = f"{counted(len(done.orphans), 'image')} without a label"
            yield Paragraph(f"! {without}, first {done.orphans[0]}")
        if (tags := done.tags) is not None:
            joined = f"{counted(tags.frames, 'frame')}, {tags.unmatched_frames:,} without"
            yield Paragraph(f"Tags {', '.join(tags.columns)}: {joined}")
            if tags.unmatched_rows:
                rows = f"Of {tags.rows:,} rows, {tags.unmatched_rows:,} match no frame"
                yield Paragraph(f"! {rows}; first lines: {', '.join(map(str, tags.first_unmatched))}")
        if (bus := done.bus) is not None:
            offset = f"nearest value at most {human_seconds(bus.largest_offset_s)} away"
            joined = f"{counted(len(bus.signals), 'signal')} for {counted(bus.frames, 'frame')}, {offset}"
            yield Paragraph(f"Bus: {joined}; {bus.unmatched_frames:,} frames without")
            yield from _first(bus.problems)
        yield Paragraph(f"Catalog: {self.catalog}")

    def document(self) -> dict[str, Any]:
        """The scan and the damaged frames."""
        damaged = [{"label": label, "why": why} for label, why in self.damaged]
        return {**asdict(self.scan), "damaged_frames": damaged}


def _first(problems: Sequence[str], rest: str = "") -> Iterator[Block]:
    """The first problems; rest: the command that shows all."""
    yield from (Paragraph(f"! {problem}") for problem in problems[:MOST_SHOWN])
    if (more := len(problems) - MOST_SHOWN) > 0:
        yield Paragraph(f"! and {more:,} more" + (f": {rest}" if rest else ""))


def _silent(_scan: Scan) -> None:
    """No progress."""
