"""ImageFolder: a directory per class, CLASS/….jpg, below each split's directory if there are splits.

The whole image is of its class. A frame's label is where its image lies, so both have the same name.
"""

from __future__ import annotations

from typing import Final

from assay.data.classes import MOST_CLASSES, Classes, of_names
from assay.data.frames import IMAGES, DataLayout, Files, FoundData, FoundFrame, Looked, ReadFrame, image_size
from assay.errors import InputError
from assay_payloads.datasets.places import DataPlace

SPLITS: Final = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})


def _is_image(name: str) -> bool:
    return name.rpartition(".")[2].lower() in IMAGES and not name.rpartition("/")[2].startswith(".")


def _has(files: Files) -> bool:
    others = any(name.endswith("/class_list.json") or "/gtFine/" in name for name in files)
    return not others and any(_is_image(name) and "/" in name for name in files)


def _depth(names: list[str]) -> int:
    """Where in a name its class is: below a split, if every image lies in one."""
    return int(all(name.partition("/")[0].lower() in SPLITS for name in names if "/" in name))


def _find(place: DataPlace, files: Files, _looked: Looked) -> FoundData:
    names = sorted(filter(_is_image, files))
    depth = _depth(names)
    parts = {name: name.split("/") for name in names}
    inside = [name for name in names if len(parts[name]) > depth + 1]
    classes = of_names(tuple(sorted({parts[name][depth] for name in inside})))
    if len(classes.names) > MOST_CLASSES:
        raise InputError(
            f"{place.address}: found {len(classes.names):,} directories with images; expected at most "
            f"{MOST_CLASSES:,} classes"
        )
    place_of = {name: number for number, name in enumerate(classes.names)}
    frames = [
        FoundFrame(
            name,
            name,
            parts[name][0] if depth else "",
            "",
            0,
            files[name].size,
            files[name].changed_ns,
            detail=place_of[parts[name][depth]],
        )
        for name in inside
    ]
    return FoundData(classes, frames, [name for name in names if len(parts[name]) <= depth + 1])


def _read(place: DataPlace, classes: Classes, frame: FoundFrame) -> ReadFrame:
    width, height = image_size(place, frame.image)
    counts = [0] * len(classes.names)
    counts[frame.detail] = width * height
    return ReadFrame(width, height, counts, 0)


IMAGEFOLDER: Final = DataLayout("imagefolder", _has, _find, _read)
