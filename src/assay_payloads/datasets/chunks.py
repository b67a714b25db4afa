"""Frames in chunks: of a manifest of any size, of which only one chunk is in memory, and of a validation."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import eq
from pathlib import Path
from typing import Any

from assay_payloads.datasets.manifest import (
    LONGEST_LINE,
    ChosenFrame,
    Manifest,
    about,
    check_whole,
    frames,
    parsed,
)

MOST_BITS = 64.0
LARGEST_BYTES = 1 << 26  # of a file that says that it is a chunk


class ChunkError(Exception):
    """Why a text is no chunk, or not one of this validation."""


@dataclass(frozen=True)
class ValidatedFrame:
    """One frame.

    index    in the manifest, from 0
    unknown  pixels of unknown colors, which count nowhere else
    entropy  of the predicted distribution over the classes, mean of all pixels, bits
    classes  that are in the label or predicted: (class, right, true, predicted), in pixels
    """

    index: int
    unknown: int
    entropy: float
    classes: Sequence[Sequence[int]]


@dataclass(frozen=True)
class ValidatedChunk:
    """All frames of a chunk.

    key         of the validation that it is a part of
    confusion   (true class, predicted class, pixels), without zeros
    frames      that could be read
    unreadable  index and reason of the others
    """

    key: str
    chunk: int
    confusion: Sequence[Sequence[int]]
    frames: Sequence[ValidatedFrame]
    unreadable: Sequence[Sequence[Any]]

    def document(self) -> dict[str, Any]:
        """As plain data."""
        frames = [[f.index, f.unknown, f.entropy, f.classes] for f in self.frames]
        return {**asdict(self), "frames": frames}

    def text(self) -> str:
        """One line."""
        return json.dumps(self.document(), ensure_ascii=True, separators=(",", ":"))


def parsed_chunk(value: Any, classes: int) -> ValidatedChunk:
    """A chunk from its plain data. Raises ChunkError if it is none, or its counts don't add up.

    classes  of the network
    """
    try:
        frames = [ValidatedFrame(*frame) for frame in value["frames"]]
        chunk = ValidatedChunk(value["key"], value["chunk"], value["confusion"], frames, value["unreadable"])
        _check(chunk, classes)
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise ChunkError(f"is not a chunk of a validation ({error})") from None
    return chunk


def _check(chunk: ValidatedChunk, classes: int) -> None:
    """Raises ValueError if a number is none, or the frames don't add up to the confusion matrix."""
    plain = [number for cell in chunk.confusion for number in cell]
    plain += [number for frame in chunk.frames for row in frame.classes for number in row]
    plain += [number for frame in chunk.frames for number in (frame.index, frame.unknown)]
    if not isinstance(chunk.key, str) or any(type(number) is not int or number < 0 for number in plain):
        raise ValueError("found something else than counts")
    sums = [[0, 0, 0] for _ in range(classes)]
    for true, predicted, pixels in chunk.confusion:
        if true >= classes or predicted >= classes:
            raise ValueError(f"found class {max(true, predicted)} of {classes}")
        sums[true][0] += pixels if true == predicted else 0
        sums[true][1] += pixels
        sums[predicted][2] += pixels
    for frame in chunk.frames:
        if not 0 <= frame.entropy < MOST_BITS:
            raise ValueError(f"found an entropy of {frame.entropy}")
        for name, right, true, predicted in frame.classes:
            sums[name] = [sums[name][0] - right, sums[name][1] - true, sums[name][2] - predicted]
    if any(any(row) for row in sums):
        raise ValueError("its frames don't add up to its matrix")
    if not all(type(index) is int and isinstance(why, str) for index, why in chunk.unreadable):
        raise ValueError("found an unreadable frame without its reason")


class ManifestChunks:
    """A manifest's frames, so many to a chunk, in the order of the file.

    about   the manifest without its frames
    count   frames of all chunks
    size    frames of a chunk; the last one has the rest
    """

    def __init__(self, path: Path, size: int) -> None:
        """Read it once, and note where each chunk begins.

        Raises ManifestError if it is damaged, names a file outside the data set, or has a frame twice;
        OSError.
        """
        self.path, self.size, self.count = path, size, 0
        self._starts: list[int] = []
        sha256, hashes = hashlib.sha256(), array("q")  # eight bytes a label, of a million labels
        with path.open("rb") as file:
            stated = about(file.readline(LONGEST_LINE))
            place = file.tell()
            while line := file.readline(LONGEST_LINE):
                (frame,) = frames([line], self.count + 2)
                if self.count % size == 0:
                    self._starts.append(place)
                sha256.update(frame.line().encode() + b"\n")
                hashes.append(hash(frame.label))
                self.count += 1
                place += len(line)
        check_whole(stated, self.count, sha256.hexdigest())
        in_order = sorted(hashes)
        if any(map(eq, in_order, in_order[1:])):
            parsed(path)  # raises, with both lines, unless it was chance
        self.about = Manifest(stated["root"], stated["layout"], stated["query"], stated["digest"], ())

    def __len__(self) -> int:
        return len(self._starts)

    def frames(self, chunk: int) -> list[ChosenFrame]:
        """The frames of a chunk, from 0."""
        first = chunk * self.size
        with self.path.open("rb") as file:
            file.seek(self._starts[chunk])
            lines = [file.readline(LONGEST_LINE) for _ in range(min(self.size, self.count - first))]
        return list(frames(lines, first + 2))
