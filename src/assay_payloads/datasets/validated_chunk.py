"""What a network made of a chunk of labeled frames: integer counts of pixels, as one line of JSON.

The same line is a worker's result, a durable file, and a line of a job's log. Counts of chunks add up to the
same whole in any order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

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


def parsed(value: Any, classes: int) -> ValidatedChunk:
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
