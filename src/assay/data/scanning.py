"""Scan a data set into a catalog: what is new or changed is read, what has vanished is removed.

Processes count pixels; one writes. What was added survives a kill, and the next scan reads the rest.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from assay.data.catalog import Catalog, Rows, exporting, writing
from assay.data.classes import Classes
from assay.data.layouts import FoundFrame, frames, images_without_label, layout_of
from assay.durable import delivering
from assay_payloads.datasets.label_images import HEADER_BYTES, LabelImageError, counts, read, size_of

IN_A_TASK: Final = 16  # frames that a process reads before it answers
ADDED_AT_ONCE: Final = 1024  # rows of a transaction: few transactions are fast, and a kill loses little
WRITTEN_EVERY_S: Final = 5.0
LARGEST_JSON_BYTES: Final = 1 << 20


@dataclass
class Scan:
    """How far a scan is, and what it has found.

    total       frames that are new or changed
    read        of them so far; counted, or damaged
    unchanged   not read again
    vanished    removed from the catalog
    orphans     images without a label
    """

    total: int = 0
    read: int = 0
    damaged: int = 0
    unchanged: int = 0
    vanished: int = 0
    orphans: tuple[str, ...] = ()
    seconds: float = 0.0


def scan(
    root: Path,
    path: Path,
    *,
    processes: int | None = None,
    tell: Callable[[Scan], None] = lambda _: None,
) -> Scan:
    """Bring a catalog up to date with a data set.

    path       of the catalog
    processes  that count pixels; None: one per CPU that this process may use
    tell       is called as it goes on

    Raises InputError if the data set's directory or list of classes can't be read, or the catalog is of
    another data set.
    """
    begin = time.monotonic()
    root = root.resolve()
    layout = layout_of(root)
    classes = layout.classes(root)
    with writing(path, root, layout.name, classes) as catalog:
        found = list(frames(root, layout))
        known = catalog.known()
        wanted = [one for one in found if _changed(one, known.get(one.label))]
        labels = {one.label for one in found}
        vanished = [label for label in known if label not in labels]
        orphans = tuple(images_without_label(root, layout, {one.image for one in found}))
        so_far = Scan(len(wanted), 0, 0, len(found) - len(wanted), len(vanished), orphans)
        catalog.forget([*vanished, *(one.label for one in wanted if one.label in known)])
        tell(so_far)
        _read_all(catalog, root, classes, wanted, processes or len(os.sched_getaffinity(0)), so_far, tell)
        so_far.seconds = time.monotonic() - begin
        return so_far


def _changed(one: FoundFrame, known: tuple[int, str, int] | None) -> bool:
    if known is None:
        return True
    changed_ns, image, size = known
    if size == -1:  # damaged: its image may be what was missing
        return changed_ns != one.changed_ns
    return (changed_ns, image, size) != (one.changed_ns, one.image, one.label_bytes + one.image_bytes)


def _read_all(
    catalog: Catalog,
    root: Path,
    classes: Classes,
    wanted: Sequence[FoundFrame],
    processes: int,
    so_far: Scan,
    tell: Callable[[Scan], None],
) -> None:
    tasks = iter(range(0, len(wanted), IN_A_TASK))
    rows, written = Rows(), time.monotonic()
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("spawn")) as pool:

        def submitted(count: int) -> Iterator[Future[list[Row]]]:
            for first in islice(tasks, count):
                yield pool.submit(read_frames, str(root), classes, wanted[first : first + IN_A_TASK])

        open_tasks = set(submitted(4 * processes))
        while open_tasks:
            done, open_tasks = wait(open_tasks, return_when=FIRST_COMPLETED)
            open_tasks |= set(submitted(len(done)))
            for row in (row for task in done for row in task.result()):
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


def read_frames(root: str, classes: Classes, wanted: Sequence[FoundFrame]) -> list[Row]:
    """The rows of these frames: a list each, or for a damaged one its label, why, and time of change."""
    return [_row(Path(root), classes, one) for one in wanted]


def _row(root: Path, classes: Classes, one: FoundFrame) -> Row:
    if not one.image:
        return one.label, "has no image", one.changed_ns
    try:
        size, pixels = counts(read(root / one.label))
        with (root / one.image).open("rb") as file:
            image = size_of(file.read(HEADER_BYTES))
    except LabelImageError as error:
        return one.label, str(error), one.changed_ns
    except OSError as error:
        return one.label, f"its image can't be read: {error.strerror or error}", one.changed_ns
    if (image.width, image.height) != (size.width, size.height):
        why = f"has {size.width} × {size.height} pixels, but its image {image.width} × {image.height}"
        return one.label, why, one.changed_ns
    own, unknown = classes.counted(pixels)
    names = [one.label, one.image, one.scene, one.camera, _taken_us(root / one.image)]
    sizes = [size.width, size.height, size.width * size.height, one.label_bytes, one.image_bytes]
    return [*names, *sizes, one.changed_ns, unknown, *own]


def _taken_us(image: Path) -> int | None:
    """When the frame was taken, microseconds since 1970 as the data set counts them; None if unknown."""
    try:
        with image.with_suffix(".json").open("rb") as file:
            stated = json.loads(file.read(LARGEST_JSON_BYTES))
    except (OSError, ValueError, RecursionError):
        return None
    taken = stated.get("cam_tstamp") if isinstance(stated, dict) else None
    return taken if isinstance(taken, int) and 0 < taken < 2**62 and not isinstance(taken, bool) else None


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
