"""What a layout finds of a data set and reads of a frame; the layouts themselves are in `layouts.py`."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from assay.data.classes import Classes
from assay_payloads.datasets.label_images import (
    HEADER_BYTES,
    MOST_BYTES,
    MOST_PIXELS,
    SIGNATURE,
    LabelImageError,
    header_of,
)
from assay_payloads.datasets.places import AbsentError, DataPlace, StoredFile

Files = Mapping[str, StoredFile]  # of a place, by their names
LARGEST_JSON_BYTES: Final = 1 << 20
HEADS: Final = (1 << 12, 1 << 18, 1 << 23)  # bytes read of an image until its size is known
IMAGES: Final = frozenset({"jpg", "jpeg", "png", "webp", "bmp", "ppm", "pgm", "tif", "tiff"})
KINDS: Final = {"text": "VARCHAR", "number": "DOUBLE", "pixels": "INTEGER", "count": "BIGINT"}


class DamagedError(Exception):
    """Why a frame can't be cataloged."""


@dataclass(frozen=True)
class Column:
    """A column of a frame beside its classes.

    kind    text, number, or count (a whole number)
    source  layout, tags, or bus
    unit    as the source states it; "" if it states none
    """

    name: str
    kind: str
    source: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class FoundFrame:
    """A label and the image that it belongs to, by their names below the data set's place.

    image        "" if there is none
    changed_ns   the newest of its files' times of change, nanoseconds since 1970
    detail       what else the layout reads it by
    damage       why it can't be read, if that is known already
    """

    label: str
    image: str
    scene: str
    camera: str
    label_bytes: int
    image_bytes: int
    changed_ns: int
    detail: Any = None
    damage: str = ""

    @property
    def is_text(self) -> bool:
        """Whether its names are UTF-8, as file names and JSON need not be."""
        try:
            f"{self.label}{self.image}{self.scene}{self.camera}".encode()
        except UnicodeEncodeError:
            return False
        return True


def escaped(name: str) -> str:
    """A name with what isn't UTF-8 of it as escapes."""
    return name.encode(errors="backslashreplace").decode()


@dataclass(frozen=True)
class FoundData:
    """A data set before its frames are read.

    frames   sorted by label
    orphans  images that no label belongs to
    """

    classes: Classes
    frames: Sequence[FoundFrame]
    orphans: Sequence[str]


class ReadFrame(NamedTuple):
    """A frame that was read.

    counts    pixels per class, in their order; with `unknown` they add up to the image
    taken_us  microseconds since 1970 as the data set counts them; None if unknown
    extra     values of the layout's own columns
    """

    width: int
    height: int
    counts: Sequence[int]
    unknown: int
    taken_us: int | None = None
    extra: tuple[int | None, ...] = ()


Looked = Callable[[int], None]


@dataclass(frozen=True)
class DataLayout:
    """A layout.

    has    whether files of these names are of it
    find   its frames; calls its last argument with the members of shards that it has looked at. Raises
           InputError if its classes can't be read
    read   one frame, in a worker. Raises DamagedError, LabelImageError or AbsentError if it can't be counted
    extra  its own columns
    """

    name: str
    has: Callable[[Files], bool]
    find: Callable[[DataPlace, Files, Looked], FoundData]
    read: Callable[[DataPlace, Classes, FoundFrame], ReadFrame]
    extra: tuple[Column, ...] = ()


def label_bytes(place: DataPlace, name: str, begin: int = 0, size: int | None = None) -> bytes:
    """A label image's bytes. Raises LabelImageError if it is larger than any."""
    data = place.read(name, begin, MOST_BYTES + 1 if size is None else min(size, MOST_BYTES + 1))
    if len(data) > MOST_BYTES:
        raise LabelImageError(f"is larger than {MOST_BYTES} bytes")
    return data


def image_size(place: DataPlace, name: str, begin: int = 0, size: int | None = None) -> tuple[int, int]:
    """Width and height in pixels, by the image's header alone: PNG, JPEG, or what else Pillow reads.

    Raises DamagedError if it has none; AbsentError.
    """
    for most in HEADS:
        length = most if size is None else min(most, size)
        head = place.read(name, begin, length)
        dimensions = _size_in(head)
        if dimensions is not None:
            return dimensions
        if len(head) < most:
            break
    raise DamagedError("its image is empty" if not head else "its image has no header of an image")


def _size_in(head: bytes) -> tuple[int, int] | None:
    if head.startswith(SIGNATURE) and len(head) >= HEADER_BYTES:
        width, height, *_ = header_of(head)
        return _checked(width, height)
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(head)) as image:
            return _checked(*image.size)
    except Image.DecompressionBombError:
        raise DamagedError(f"its image claims more than {MOST_PIXELS} pixels") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, EOFError):
        return None  # of so many bytes; the next attempt has more


def _checked(width: int, height: int) -> tuple[int, int]:
    if not 0 < width * height <= MOST_PIXELS:
        raise DamagedError(f"its image claims {width} × {height} pixels; expected 1 to {MOST_PIXELS}")
    return width, height


def check_same_size(label: tuple[int, int], image: tuple[int, int]) -> None:
    """Raises DamagedError if a label and its image differ."""
    if label != image:
        raise DamagedError(f"has {label[0]} × {label[1]} pixels, but its image {image[0]} × {image[1]}")


def stated(place: DataPlace, name: str) -> Mapping[str, Any]:
    """The table in a small JSON file beside a frame; empty if there is none, or it is something else."""
    try:
        return table_of(place.read(name, 0, LARGEST_JSON_BYTES)) or {}
    except AbsentError:
        return {}


def table_of(text: bytes) -> Mapping[str, Any] | None:
    """The table that a JSON text is; None if it is something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def taken_us(table: Mapping[str, Any]) -> int | None:
    """When a frame was taken, as A2D2's camera states it; None if unknown."""
    taken = table.get("cam_tstamp")
    return taken if isinstance(taken, int) and not isinstance(taken, bool) and 0 < taken < 2**62 else None
