"""COCO: annotations/instances_SPLIT.json, and the images in SPLIT/, images/SPLIT/, images/ or the root.

A frame's label is its entry, `annotations/instances_SPLIT.json#ID`. Its objects' masks (polygons, RLE, or
boxes where there is neither) are painted one over another: crowds first, then the larger before the smaller.
So each pixel counts once. `background` counts those of no object, `overlaps` those that objects of several
classes claim, and `objects` the objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import msgspec

from assay.data.classes import MOST_CLASSES, Classes, of_names
from assay.data.frames import (
    IMAGES,
    Column,
    DamagedError,
    DataLayout,
    Files,
    FoundData,
    FoundFrame,
    Looked,
    ReadFrame,
    check_same_size,
    image_size,
)
from assay.errors import InputError, Problem
from assay_payloads.datasets.places import DataPlace

LARGEST_BYTES: Final = 4 << 30  # of annotations; those of COCO's own training images are 470 MB
BACKGROUND: Final = "background"
MOST_OBJECTS: Final = 20_000  # of an image: each is painted
MOST_PAINTED: Final = 1 << 31  # pixels that the objects of an image enclose, each object by itself
LONGEST_OUTLINE: Final = 1 << 22  # pixels along an object's polygons: each takes memory while it is painted
_LARGEST: Final = 1 << 53  # of a number; NaN and infinity are not below it
FARTHEST: Final = 2  # image sizes that a polygon's corner may be outside


class _Category(msgspec.Struct):
    id: int
    name: str


class _Image(msgspec.Struct):
    id: int
    file_name: str
    width: int
    height: int


class _Annotation(msgspec.Struct):
    image_id: int
    category_id: int
    iscrowd: int = 0
    bbox: msgspec.Raw = msgspec.Raw(b"null")
    segmentation: msgspec.Raw = msgspec.Raw(b"null")


class _Instances(msgspec.Struct):
    images: list[_Image]
    categories: list[_Category]
    annotations: list[_Annotation] = []


def _splits(files: Files) -> dict[str, str]:
    """Name of each file of instances → its split."""
    splits = {}
    for name in sorted(files):
        folder, _, file = name.rpartition("/")
        if folder == "annotations" and file.startswith("instances_") and file.endswith(".json"):
            splits[name] = file.removeprefix("instances_").removesuffix(".json")
    return splits


def _find(place: DataPlace, files: Files, _looked: Looked) -> FoundData:
    splits = _splits(files)
    instances = {name: _instances(place, name, files[name].size) for name in splits}
    classes, place_of = _classes(instances)
    frames = [
        frame
        for name, split in splits.items()
        for frame in _frames(name, split, instances[name], files, place_of)
    ]
    known = {frame.image for frame in frames}
    folders = {PurePosixPath(name).parts[0] for name in known if "/" in name}
    orphans = [
        name
        for name in sorted(files)
        if name.rpartition(".")[2].lower() in IMAGES
        and name.partition("/")[0] in folders
        and name not in known
    ]
    return FoundData(classes, sorted(frames, key=lambda frame: frame.label), orphans)


def _instances(place: DataPlace, name: str, size: int) -> _Instances:
    where = f"{place.address}/{name}"
    if size > LARGEST_BYTES:
        raise InputError([Problem(where, f"has {size:,} bytes; expected at most {LARGEST_BYTES:,}")])
    try:
        return msgspec.json.decode(place.read(name), type=_Instances)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError([Problem(where, f"is not COCO's annotations of instances: {error}")]) from None


def _classes(instances: Mapping[str, _Instances]) -> tuple[Classes, dict[int, int]]:
    """The classes, the background first, and each category's place. Raises InputError if files differ."""
    names: dict[int, str] = {}
    problems = []
    for file, contents in instances.items():
        twice: set[int] = set()
        for category in contents.categories:
            if category.id in twice or names.setdefault(category.id, category.name) != category.name:
                what = f"category {category.id} is {category.name!r}, and also {names[category.id]!r}"
                problems.append(Problem(file, f"{what}; expected one name for each id"))
            twice.add(category.id)
    if len(names) > MOST_CLASSES:  # one problem, as each may have another
        what = f"has {len(names):,} categories; expected at most {MOST_CLASSES:,}"
        problems = [Problem(", ".join(instances), what)]
    if not names:
        problems.append(Problem(", ".join(instances), "has no categories"))
    if problems:
        raise InputError(problems)
    ids = sorted(names)
    return of_names((BACKGROUND, *(names[id_] for id_ in ids))), {id_: n for n, id_ in enumerate(ids, 1)}


def _frames(
    file: str, split: str, instances: _Instances, files: Files, place_of: Mapping[int, int]
) -> Iterator[FoundFrame]:
    objects: dict[int, list[Any]] = {}
    for annotation in instances.annotations:
        place = place_of.get(annotation.category_id, -1)
        objects.setdefault(annotation.image_id, []).append(
            (place, bool(annotation.iscrowd), bytes(annotation.segmentation), bytes(annotation.bbox))
        )
    changed = files[file].changed_ns
    seen: set[int] = set()
    for image in instances.images:
        own = tuple(objects.pop(image.id, ()))
        name = _image_name(split, image.file_name, files)
        there = files.get(name)
        damage = "" if there is not None else f"has no image {image.file_name!r}"
        damage = "has an id that another image has, too" if image.id in seen else damage
        label = f"{file}#{image.id}" if image.id not in seen else f"{file}#{image.id} {image.file_name}"
        seen.add(image.id)
        newest = max(changed, there.changed_ns) if there is not None else changed
        size = there.size if there is not None else 0
        detail = (image.width, image.height, own)
        yield FoundFrame(label, name, split, "", 0, size, newest, detail=detail, damage=damage)
    for id_, own_list in objects.items():
        why = f"has {len(own_list)} annotations, but is not one of the images"
        yield FoundFrame(f"{file}#{id_}", "", split, "", 0, 0, changed, damage=why)


def _image_name(split: str, file_name: str, files: Files) -> str:
    """Where an image is; "" if it is nowhere. A name that leads out of the data set is none of its files."""
    for folder in (f"{split}/", f"images/{split}/", "images/", ""):
        if folder + file_name in files:
            return folder + file_name
    return ""


def _read(place: DataPlace, classes: Classes, frame: FoundFrame) -> ReadFrame:
    import numpy as np

    width, height, objects = frame.detail
    check_same_size((width, height), image_size(place, frame.image))
    if len(objects) > MOST_OBJECTS:
        raise DamagedError(f"has {len(objects):,} objects; expected at most {MOST_OBJECTS:,}")
    unknown = len(classes.names)
    painted = []
    left = MOST_PAINTED
    for category, crowd, segmentation, box in objects:
        shape = _shape(segmentation, box, height, width)
        left -= shape.width * shape.height
        if left < 0:
            raise DamagedError(f"has objects whose outlines enclose more than {MOST_PAINTED:,} pixels")
        painted.append((not crowd, -shape.area, category if category >= 0 else unknown, shape))
    canvas = np.zeros((height, width), dtype=np.int32)
    several = np.zeros((height, width), dtype=bool)
    for _, _, own, shape in sorted(painted, key=lambda layer: layer[:2]):
        mask, there = shape.mask(), canvas[shape.place]
        under = there[mask]
        several[shape.place][mask] |= (under != 0) & (under != own)
        there[mask] = own
    counts = np.bincount(canvas.ravel(), minlength=unknown + 1).tolist()
    extra = len(objects), int(several.sum())
    return ReadFrame(width, height, counts[:unknown], counts[unknown], None, extra)


@dataclass(frozen=True)
class _Shape:
    """The pixels of an object: rows and columns that enclose them, and one bit for each pixel there.

    bits  None: all of them
    """

    place: tuple[slice, slice]
    area: int
    bits: Any = None

    @property
    def height(self) -> int:
        return int(self.place[0].stop - self.place[0].start)

    @property
    def width(self) -> int:
        return int(self.place[1].stop - self.place[1].start)

    def mask(self) -> Any:
        """True where the object is, height × width."""
        import numpy as np

        if self.bits is None:
            return np.ones((self.height, self.width), dtype=bool)
        flat = np.unpackbits(self.bits, count=self.width * self.height).astype(bool)
        return flat.reshape(self.width, self.height).T


def _shape(segmentation: bytes, box: bytes, height: int, width: int) -> _Shape:
    """An object's pixels. Raises DamagedError for one that makes no sense."""
    try:
        shape, corners = msgspec.json.decode(segmentation), msgspec.json.decode(box)
    except (msgspec.DecodeError, RecursionError) as error:
        raise DamagedError(f"has an object that is not JSON: {error}") from None
    if isinstance(shape, dict):
        lengths = _run_lengths(shape.get("counts"), height * width)
        if shape.get("size") != [height, width]:
            raise DamagedError(f"has an RLE of {str(shape.get('size'))[:80]}; expected that of the image")
        return _of_runs(lengths, height)
    if isinstance(shape, list) and shape:
        return _of_polygons(shape, height, width)
    if not _numbers(corners, 4):
        raise DamagedError("has an object with neither a mask nor a box [x, y, width, height]")
    x, y, w, h = corners
    rows, columns = _within(y, h, height), _within(x, w, width)
    return _Shape((rows, columns), (rows.stop - rows.start) * (columns.stop - columns.start))


def _within(begin: float, length: float, limit: int) -> slice:
    """The whole pixels from `begin` on, as far as the image reaches."""
    first = min(max(round(begin), 0), limit)
    return slice(first, max(first, min(round(max(begin, 0) + max(length, 0)), limit)))


def _of_runs(lengths: list[int], height: int) -> _Shape:
    """The pixels of runs in columns, not of an object first."""
    import numpy as np

    ends = np.cumsum(np.array(lengths, dtype=np.int64))
    begins = ends - lengths
    own = (np.arange(len(lengths)) % 2 == 1) & (ends > begins)
    if not own.any():
        return _Shape((slice(0, 0), slice(0, 0)), 0)
    columns = slice(int(begins[own][0]) // height, (int(ends[own][-1]) - 1) // height + 1)
    borders = columns.start * height, columns.stop * height
    flat = np.repeat(own, np.clip(ends, *borders) - np.clip(begins, *borders))
    return _Shape((slice(0, height), columns), int(flat.sum()), np.packbits(flat))


def _of_polygons(polygons: list[Any], height: int, width: int) -> _Shape:
    from pycocotools import mask as rle

    limit = (1 + FARTHEST) * max(height, width)
    outline = 0.0
    for polygon in polygons:
        if not _numbers(polygon, len(polygon) if isinstance(polygon, list) else 0) or len(polygon) % 2:
            raise DamagedError("has a polygon that is not a list of x, y, x, y …")
        if len(polygon) < 6:
            raise DamagedError(f"has a polygon of {len(polygon) // 2} corners; expected at least 3")
        if any(abs(value) > limit for value in polygon):
            raise DamagedError(f"has a polygon far outside of its {width} × {height} pixels")
        outline += sum(abs(after - before) for before, after in zip(polygon, polygon[2:], strict=False))
    if outline > LONGEST_OUTLINE:
        raise DamagedError(f"has an outline of {outline:,.0f} pixels; expected at most {LONGEST_OUTLINE:,}")
    merged = rle.merge(rle.frPyObjects(polygons, height, width))
    return _of_runs(_run_lengths(merged["counts"].decode(), height * width), height)


def _numbers(value: object, count: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == count
        and all(
            isinstance(number, int | float) and not isinstance(number, bool) and abs(number) < _LARGEST
            for number in value
        )
    )


def _run_lengths(counts: object, pixels: int) -> list[int]:
    """Lengths of runs in columns, not of an object first. Raises DamagedError unless they add up."""
    if isinstance(counts, str):
        counts = _uncompressed(counts.encode("ascii", "replace"))
    if not isinstance(counts, list) or not all(isinstance(n, int) and 0 <= n <= pixels for n in counts):
        raise DamagedError("has an RLE whose counts are not numbers of pixels")
    if sum(counts) != pixels:
        raise DamagedError(f"has an RLE of {sum(counts)} pixels; expected {pixels}")
    return counts


def _uncompressed(text: bytes) -> list[int]:
    """COCO's compressed counts: five bits a character, the lowest first; from the fourth on, differences.

    Source: pycocotools, common/maskApi.c, rleFrString.
    """
    counts: list[int] = []
    value = shift = 0
    for char in text:
        bits = char - 48
        value |= (bits & 0x1F) << shift
        shift += 5
        if bits & 0x20 and shift < 64:
            continue
        if bits & 0x10:
            value -= 1 << shift
        counts.append(value + (counts[-2] if len(counts) > 2 else 0))
        value = shift = 0
    return counts


COCO: Final = DataLayout(
    "coco",
    lambda files: bool(_splits(files)),
    _find,
    _read,
    (Column("objects", "count", "layout"), Column("overlaps", "count", "layout", "pixels")),
)
