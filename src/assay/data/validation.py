"""A validation: a directory with a file per chunk of frames, and what they add up to.

    DIR/validation.json    which network, frames and arithmetic; another one is refused
    DIR/chunks/0000000.json …   each chunk's counts, written whole by whoever computed it
    DIR/frames.parquet     a row per frame, made from the chunks
    DIR/result.json        the figures, made from the chunks

The chunks are the truth: what is missing is computed again, and the rest is rebuilt from them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from assay.durable import locked, make_directory, write_atomic
from assay.errors import InputError
from assay.inputs import open_plain, read_json, reading
from assay_payloads.datasets.chunks import LARGEST_BYTES, ChunkError, ValidatedChunk, parsed_chunk

ABOUT, CHUNKS, FRAMES, RESULT = "validation.json", "chunks", "frames.parquet", "result.json"
_NUMBER: Final = re.compile(r"\d{7,}\.json")
_LOGGED, _KEY = b":::MLLOG ", b'"validated_chunk"'


@dataclass(frozen=True)
class ValidationAbout:
    """What a validation is of.

    key         of its chunks: a digest of everything that may change a count
    checkpoint  SHA-256 of the network's file; step: steps that it was trained for
    manifest    digest of the frames; query: how they were chosen
    root        the data set's directory
    names       the network's classes
    size        height and width at which pixels are counted
    """

    key: str
    checkpoint: str
    step: int
    manifest: str
    query: str
    root: str
    names: tuple[str, ...]
    size: tuple[int, int]
    frames: int
    chunk_frames: int
    batch_size: int
    layout: str = "a2d2"


@dataclass
class ValidationProgress:
    """Chunks and frames of the whole, and those that are done; computed: frames of this call."""

    chunks: int = 0
    frames: int = 0
    done_chunks: int = 0
    done_frames: int = 0
    computed_frames: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class ClassResult:
    """A class: its pixels, and how well it is found.

    scenes  with the class; iou None: no label has it
    """

    name: str
    column: str
    right: int
    true: int
    predicted: int
    scenes: int
    iou: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class GroupResult:
    """Frames with the same value of a column."""

    column: str
    value: str
    frames: int
    mean_iou: float | None
    pixel_accuracy: float | None
    ious: tuple[float | None, ...]


@dataclass(frozen=True)
class FrameResult:
    """One frame; mean_iou None: its label has no class that the network knows."""

    number: int
    label: str
    image: str
    scene: str
    camera: str
    mean_iou: float | None
    pixel_accuracy: float | None
    entropy_bits: float


@dataclass(frozen=True)
class Validation:
    """What a validation amounts to.

    validated   frames that count; unreadable: those that can't be read, the first thousand named
    matrix      pixels: a row per true class, a column per predicted one
    unknown     pixels of colors that no class has; they count nowhere else
    groups      by scene, by camera, and by each requested column
    more_groups columns with more values than are listed; those listed have the lowest mean IoU
    worst       frames with the lowest mean IoU
    """

    about: ValidationAbout
    validated: int
    unreadable: int
    unreadable_frames: tuple[tuple[str, str], ...]
    classes: tuple[ClassResult, ...]
    matrix: tuple[tuple[int, ...], ...]
    unknown: int
    scenes: int
    mean_iou: float | None
    mean_iou_low: float | None
    mean_iou_high: float | None
    pixel_accuracy: float | None
    pixel_accuracy_low: float | None
    pixel_accuracy_high: float | None
    groups: tuple[GroupResult, ...]
    more_groups: tuple[str, ...]
    worst: tuple[FrameResult, ...]

    def by_column(self) -> Iterator[tuple[str, list[GroupResult]]]:
        """The groups of each column, the worst first."""
        for column in dict.fromkeys(group.column for group in self.groups):
            groups = [group for group in self.groups if group.column == column]
            yield column, sorted(groups, key=lambda g: 2.0 if g.mean_iou is None else g.mean_iou)

    def document(self) -> dict[str, Any]:
        """What `assay data validate --json` prints, and result.json holds; what isn't defined is null."""
        names = self.about.names
        groups = [
            {**asdict(group), "ious": dict(zip(names, group.ious, strict=True))} for group in self.groups
        ]
        unreadable = [{"label": label, "why": why} for label, why in self.unreadable_frames]
        return {**asdict(self), "groups": groups, "unreadable_frames": unreadable}


@dataclass
class ValidationDirectory:
    """A validation's directory, which only the process that holds its lock writes."""

    path: Path
    about: ValidationAbout
    done: set[int] = field(default_factory=set)

    def chunk_path(self, number: int) -> Path:
        """The file of a chunk."""
        return self.path / CHUNKS / f"{number:07}.json"

    def keep(self, number: int, text: str) -> None:
        """Keep a chunk, whole or not at all. Raises HostError if it can't be written."""
        write_atomic(
            self.chunk_path(number), text.encode() + b"\n", elsewhere="name another place with --into"
        )
        self.done.add(number)

    def keep_result(self, result: Validation) -> None:
        """Keep what the chunks amount to. Raises HostError if it can't be written."""
        text = json.dumps(result.document(), ensure_ascii=False, indent=1)
        write_atomic(self.path / RESULT, text.encode())

    def missing(self) -> list[int]:
        """Chunks that are still to be computed."""
        return [
            number
            for number in range(-(-self.about.frames // self.about.chunk_frames))
            if number not in self.done
        ]

    def chunk(self, number: int) -> ValidatedChunk | None:
        """A kept chunk; None if it isn't there, is damaged, or belongs to another validation."""
        try:
            with open_plain(self.chunk_path(number)) as file:
                chunk = self.accepted(json.loads(file.read(LARGEST_BYTES)))
        except (OSError, ValueError, RecursionError):
            return None
        return chunk if chunk is not None and chunk.chunk == number else None

    def accepted(self, value: Any) -> ValidatedChunk | None:
        """The chunk in plain data that others made, if it is one of this validation."""
        try:
            chunk = parsed_chunk(value, len(self.about.names))
        except ChunkError:
            return None
        first = chunk.chunk * self.about.chunk_frames
        own = {*range(first, min(first + self.about.chunk_frames, self.about.frames))}
        named = [*(frame.index for frame in chunk.frames), *(index for index, _ in chunk.unreadable)]
        return chunk if chunk.key == self.about.key and sorted(named) == sorted(own) else None

    def find(self) -> None:
        """Look which chunks are there; damaged ones are as if not there."""
        folder = self.path / CHUNKS
        names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
        numbers = (int(name.removesuffix(".json")) for name in names if _NUMBER.fullmatch(name))
        self.done = {number for number in numbers if self.chunk(number) is not None}


@contextmanager
def opened(path: Path, about: ValidationAbout) -> Iterator[ValidationDirectory]:
    """The directory of this validation, made if it isn't there. It belongs to the first that kept something.

    Raises InputError if another validation is in it, BusyError if another process works on it.
    """
    make_directory(path / CHUNKS)
    with locked(path / ".lock", f"the validation in {path}"):
        if (path / ABOUT).exists() and _keeps_something(path):
            _check_same(path, read_about(path), about)
        else:
            write_atomic(path / ABOUT, json.dumps(asdict(about), indent=1).encode())
        directory = ValidationDirectory(path, about)
        directory.find()
        yield directory


def _keeps_something(path: Path) -> bool:
    """Whether a validation has kept a chunk or a result here: one that was refused has not."""
    return any((path / CHUNKS).iterdir()) or any((path / name).exists() for name in (FRAMES, RESULT))


def read_about(path: Path) -> ValidationAbout:
    """What the validation in a directory is of. Raises InputError if there is none."""
    if not (path / ABOUT).is_file():
        raise InputError(f"{path}: has no {ABOUT}; `assay data validate … --into {path}` makes a validation")
    value = read_json(path / ABOUT)
    try:
        return ValidationAbout(**{**value, "names": tuple(value["names"]), "size": tuple(value["size"])})
    except (TypeError, KeyError) as error:
        raise InputError(f"{path / ABOUT}: is damaged ({error}); validate into another directory") from None


def _check_same(path: Path, there: ValidationAbout, here: ValidationAbout) -> None:
    what = {
        "checkpoint": "another checkpoint",
        "manifest": "other frames",
        "names": "other classes",
        "size": "another image size",
        "chunk_frames": f"chunks of {there.chunk_frames} frames",
        "batch_size": f"batches of {there.batch_size} frames",
        "key": "another version of Assay's arithmetic",
    }
    for name, difference in what.items():
        if getattr(there, name) != getattr(here, name):
            raise InputError(
                f"{path} holds a validation with {difference}; name another directory with --into"
            )


def chunks_of_log(path: Path, directory: ValidationDirectory) -> Iterator[ValidatedChunk]:
    """The chunks of this validation that a rank's log holds. Raises InputError if it can't be read."""
    with reading(path) as file:
        while line := file.readline(LARGEST_BYTES):
            _, mark, text = line.partition(_LOGGED)
            if not mark or _KEY not in text:
                continue
            try:
                event = json.loads(text)
            except (ValueError, RecursionError):  # the end of a log that was cut
                continue
            chunk = directory.accepted(event.get("value")) if isinstance(event, dict) else None
            if chunk is not None:
                yield chunk
