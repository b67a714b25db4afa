"""Scan a data set into a catalog: what is new or changed is read, what has vanished is removed.

Workers count pixels; one process writes. What was added survives a kill, and the next scan reads the rest.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import Any, Final

from assay.data.bus import BusJoin, join_bus
from assay.data.catalog import Catalog, Rows, exporting, writing
from assay.data.classes import Classes
from assay.data.frames import DamagedError, DataLayout, FoundData, FoundFrame, escaped
from assay.data.layouts import BY_NAME, layout_of
from assay.data.parallel import Workers, mapped
from assay.data.tags import TagJoin, join_tags
from assay.durable import delivering
from assay.errors import HostError, InputError
from assay_payloads.datasets.label_images import LabelImageError, keep_freed_memory
from assay_payloads.datasets.places import AbsentError, DataPlace, PlaceError, is_remote, place

IN_A_TASK: Final = 16  # frames that a process reads before it answers
ADDED_AT_ONCE: Final = 1024  # rows of a transaction: few transactions are fast, and a kill loses little
WRITTEN_EVERY_S: Final = 5.0
TOLD_EVERY_MEMBERS: Final = 1000


@dataclass
class Scan:
    """How far a scan is, and what it has found.

    total       frames that are new or changed
    read        of them so far; counted, or damaged
    unchanged   not read again
    vanished    removed from the catalog
    orphans     images without a label
    tags, bus   what was joined; None if nothing was
    members     of shards that were looked at, before it is known what is to be read
    """

    total: int = 0
    read: int = 0
    damaged: int = 0
    unchanged: int = 0
    vanished: int = 0
    orphans: tuple[str, ...] = ()
    seconds: float = 0.0
    tags: TagJoin | None = None
    bus: BusJoin | None = None
    members: int = 0


@dataclass(frozen=True)
class JoinedSources:
    """What is joined to the frames.

    tags          a CSV file of the site's own tags
    bus           the address of recordings of the vehicle's bus; None: those beside the frames
    bus_within_s  a value counts for frames this close to it
    """

    tags: Path | None = None
    bus: str | None = None
    bus_within_s: float = 0.1


@dataclass(frozen=True)
class FramesToRead:
    """A worker's task."""

    address: str
    layout: str
    classes: Classes
    frames: Sequence[FoundFrame]


def scan(
    address: str,
    path: Path,
    *,
    workers: Workers = Workers(),  # noqa: B008 - frozen
    sources: JoinedSources = JoinedSources(),
    tell: Callable[[Scan], None] = lambda _: None,
) -> Scan:
    """Bring a catalog up to date with a data set.

    address  of the data set: a directory, or s3://BUCKET/PREFIX
    path     of the catalog
    workers  that count pixels
    sources  what is joined to the frames
    tell     takes the state so far, again and again

    Raises InputError if the data set or its list of classes can't be read, tags are wrong, or the catalog is
    of another data set; HostError if a store or workers fail.
    """
    begin = time.monotonic()
    with _place_errors():
        there = _opened(address)
        files = dict(there.files())
        layout = layout_of(there, files)
        looked = partial(_look, Scan(), tell)
        contents = _with_names_of_text(layout.find(there, files, looked))
        with writing(path, there.address, layout.name, contents.classes, layout.extra) as catalog:
            so_far, to_read = _compared(catalog, contents)
            tell(so_far)
            frames = FramesToRead(there.address, layout.name, contents.classes, to_read)
            _read_all(catalog, frames, workers, so_far, tell)
            so_far.tags = None if sources.tags is None else join_tags(catalog, sources.tags)
            changed = bool(to_read or so_far.vanished)
            buses = there if sources.bus is None else _opened(sources.bus)
            listed = files if sources.bus is None else dict(buses.files())
            so_far.bus = join_bus(catalog, buses, listed, sources.bus_within_s, changed=changed)
    so_far.seconds = time.monotonic() - begin
    return so_far


def _look(so_far: Scan, tell: Callable[[Scan], None], members: int) -> None:
    so_far.members = members
    if members % TOLD_EVERY_MEMBERS == 0:
        tell(so_far)


def _opened(address: str) -> DataPlace:
    return place(address if is_remote(address) else str(Path(address).resolve()))


@contextmanager
def _place_errors() -> Iterator[None]:
    try:
        yield
    except AbsentError as error:
        raise InputError(str(error)) from None
    except PlaceError as error:
        raise HostError(str(error)) from None


def _with_names_of_text(contents: FoundData) -> FoundData:
    """What was found; frames whose names are no UTF-8, which no catalog holds, are damaged ones."""
    frames = [frame if frame.is_text else replace(frame, **_escaped(frame)) for frame in contents.frames]
    return FoundData(contents.classes, frames, [escaped(name) for name in contents.orphans])


def _escaped(frame: FoundFrame) -> dict[str, Any]:
    names = {name: escaped(getattr(frame, name)) for name in ("label", "image", "scene", "camera")}
    return {**names, "damage": "has a name that is not UTF-8; rename it"}


def _compared(catalog: Catalog, contents: FoundData) -> tuple[Scan, list[FoundFrame]]:
    """What is to be read; what has vanished or changed is removed from the catalog."""
    known = catalog.known()
    to_read = [frame for frame in contents.frames if _changed(frame, known.get(frame.label))]
    labels = {frame.label for frame in contents.frames}
    vanished = [label for label in known if label not in labels]
    catalog.forget([*vanished, *(frame.label for frame in to_read if frame.label in known)])
    unchanged = len(contents.frames) - len(to_read)
    return Scan(len(to_read), 0, 0, unchanged, len(vanished), tuple(contents.orphans)), to_read


def _changed(frame: FoundFrame, known: tuple[int, str, int] | None) -> bool:
    if known is None:
        return True
    changed_ns, image, size = known
    if size == -1:  # damaged: its image may be what was missing
        return changed_ns != frame.changed_ns
    return (changed_ns, image, size) != (frame.changed_ns, frame.image, frame.label_bytes + frame.image_bytes)


def _read_all(
    catalog: Catalog, whole: FramesToRead, workers: Workers, so_far: Scan, tell: Callable[[Scan], None]
) -> None:
    if not whole.frames:
        return
    readable = [frame for frame in whole.frames if not frame.damage]
    tasks = (
        FramesToRead(whole.address, whole.layout, whole.classes, readable[first : first + IN_A_TASK])
        for first in range(0, len(readable), IN_A_TASK)
    )
    damaged: Iterator[list[Row]] = ([_damaged_row(frame)] for frame in whole.frames if frame.damage)
    rows, written = Rows(), time.monotonic()
    for answer in chain(damaged, mapped(read_frames, tasks, workers) if readable else ()):
        for row in answer:
            so_far.read += 1
            if isinstance(row, tuple):
                so_far.damaged += 1
                rows.damaged.append(row)
            else:
                rows.frames.append(row)
        if len(rows) >= ADDED_AT_ONCE or time.monotonic() - written >= WRITTEN_EVERY_S:
            catalog.add(rows)
            rows, written = Rows(), time.monotonic()
        tell(so_far)
    catalog.add(rows)


Row = list[Any] | tuple[str, str, int]  # of a frame, in the catalog's order; of a damaged one


def read_frames(task: FramesToRead) -> list[Row]:
    """The rows of these frames: a list each, or for a damaged one its label, why, and time of change."""
    _prepare_worker()
    there, layout = place(task.address), BY_NAME[task.layout]
    if there.at_once == 1:
        return [_row(there, layout, task.classes, frame) for frame in task.frames]
    with ThreadPoolExecutor(there.at_once) as threads:
        return list(threads.map(lambda frame: _row(there, layout, task.classes, frame), task.frames))


@cache
def _prepare_worker() -> None:
    """Once for a process."""
    keep_freed_memory()


def _damaged_row(frame: FoundFrame) -> Row:
    return frame.label, frame.damage, frame.changed_ns


def _row(there: DataPlace, layout: DataLayout, classes: Classes, frame: FoundFrame) -> Row:
    if frame.damage:
        return _damaged_row(frame)
    try:
        content = layout.read(there, classes, frame)
    except (DamagedError, LabelImageError) as error:
        return frame.label, str(error), frame.changed_ns
    except AbsentError:
        return frame.label, "vanished while it was scanned", frame.changed_ns
    except PlaceError as error:
        if is_remote(there.address):  # the store fails, not this file
            raise
        return frame.label, str(error), frame.changed_ns
    names = [frame.label, frame.image, frame.scene, frame.camera, content.taken_us]
    sizes = [
        content.width,
        content.height,
        content.width * content.height,
        frame.label_bytes,
        frame.image_bytes,
    ]
    return [*names, *sizes, frame.changed_ns, content.unknown, *content.counts, *content.extra]


def export(path: Path, parquet: Path) -> None:
    """All frames of a catalog as Parquet, sorted by label: the same bytes for the same data set.

    Raises HostError if it can't be written.
    """
    with exporting(path) as catalog, delivering(parquet, option="--parquet"):
        unfinished = parquet.with_name(f".{parquet.name}.{os.getpid()}.tmp")
        try:
            catalog.export(unfinished)
            unfinished.replace(parquet)
        finally:
            unfinished.unlink(missing_ok=True)
