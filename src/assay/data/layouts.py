"""The layouts that data sets have; what they have in common is in `frames.py`.

a2d2         class_list.json, SCENE/label/CAMERA/…_label_….png, SCENE/camera/CAMERA/…_camera_….png
cityscapes   gtFine/SPLIT/CITY/…_gtFine_labelIds.png, leftImg8bit/SPLIT/CITY/…_leftImg8bit.png
coco         annotations/instances_SPLIT.json, SPLIT/….jpg: `coco_layout.py`
webdataset   ….tar of KEY.jpg and KEY.png or KEY.cls: `shard_layout.py`
imagefolder  CLASS/….jpg, or SPLIT/CLASS/….jpg; the whole image is of its class
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from assay.data.classes import CITYSCAPES, MOST_CLASSES, Classes, class_list, of_names
from assay.data.coco_layout import COCO
from assay.data.frames import (
    IMAGES,
    DataLayout,
    Files,
    FoundData,
    FoundFrame,
    Looked,
    ReadFrame,
    check_same_size,
    image_size,
    label_bytes,
    stated,
    taken_us,
)
from assay.data.shard_layout import WEBDATASET
from assay.errors import InputError
from assay_payloads.datasets.label_images import counts
from assay_payloads.datasets.places import DataPlace

CLASS_LIST: Final = "class_list.json"
Parts = Callable[[str], tuple[str, str, str] | None]  # of a label's name: scene, camera, its image's name


def layout_of(place: DataPlace, files: Files) -> DataLayout:
    """The layout of a data set. Raises InputError if it has none of the known ones."""
    for layout in LAYOUTS:
        if layout.has(files):
            return layout
    nested = sorted(name.split("/")[0] for name in files if name.split("/")[1:] == [CLASS_LIST])
    also = f"; it has {nested[0]}/, which is A2D2's: scan that" if nested else ""
    raise InputError(
        f"{place.address}: found no known data set; expected class_list.json and SCENE/label/CAMERA/*.png "
        "(A2D2), gtFine/ and leftImg8bit/ (Cityscapes), annotations/instances_*.json (COCO), *.tar "
        f"(webdataset), or a directory of images per class{also}"
    )


def _a2d2(label: str) -> tuple[str, str, str] | None:
    parts = label.split("/")
    if len(parts) != 4 or parts[1] != "label" or "_label_" not in parts[3]:
        return None
    scene, _, camera, name = parts
    return scene, camera, f"{scene}/camera/{camera}/{name.replace('_label_', '_camera_')}"


def _cityscapes(label: str) -> tuple[str, str, str] | None:
    head, _, rest = label.partition("/")
    if head != "gtFine" or not rest.endswith("_gtFine_labelIds.png"):
        return None
    image = f"leftImg8bit/{rest.removesuffix('_gtFine_labelIds.png')}_leftImg8bit.png"
    return rest.rpartition("/")[0], "", image


def _in_pairs(classes: Classes, files: Files, parts_of: Parts, folder: str) -> FoundData:
    """The frames of a layout in which a label image's name says its image's."""
    frames = list(_pairs(files, parts_of))
    known = {frame.image for frame in frames}
    orphans = (
        name for name in files if name.endswith(".png") and f"/{folder}/" in f"/{name}" and name not in known
    )
    return FoundData(classes, frames, sorted(orphans))


def _pairs(files: Files, parts_of: Parts) -> Iterator[FoundFrame]:
    for label in sorted(files):
        parts = parts_of(label)
        if parts is None:
            continue
        scene, camera, image = parts
        (size, changed), there = files[label], files.get(image)
        yield FoundFrame(
            label,
            image if there is not None else "",
            scene,
            camera,
            size,
            there.size if there is not None else 0,
            max(changed, there.changed_ns) if there is not None else changed,
            damage="" if there is not None else "has no image",
        )


def _read_pair(place: DataPlace, classes: Classes, frame: FoundFrame) -> ReadFrame:
    size, pixels = counts(label_bytes(place, frame.label))
    check_same_size((size.width, size.height), image_size(place, frame.image))
    own, unknown = classes.counted(pixels)
    beside = stated(place, frame.image.rpartition(".")[0] + ".json")
    return ReadFrame(size.width, size.height, own, unknown, taken_us(beside))


SPLITS: Final = frozenset({"train", "training", "val", "valid", "validation", "test", "testing"})


def _is_image(name: str) -> bool:
    return name.rpartition(".")[2].lower() in IMAGES and not name.rpartition("/")[2].startswith(".")


def _has_class_folders(files: Files) -> bool:
    others = any(name.endswith("/class_list.json") or "/gtFine/" in name for name in files)
    return not others and any(_is_image(name) and "/" in name for name in files)


def _class_depth(names: list[str]) -> int:
    """Where in a name its class is: below a split, if every image lies in one."""
    return int(all(name.partition("/")[0].lower() in SPLITS for name in names if "/" in name))


def _find_images(place: DataPlace, files: Files, _looked: Looked) -> FoundData:
    names = sorted(filter(_is_image, files))
    depth = _class_depth(names)
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


def _read_image(place: DataPlace, classes: Classes, frame: FoundFrame) -> ReadFrame:
    width, height = image_size(place, frame.image)
    counts = [0] * len(classes.names)
    counts[frame.detail] = width * height
    return ReadFrame(width, height, counts, 0)


LAYOUTS: Final = (
    WEBDATASET,
    DataLayout(
        "a2d2",
        lambda files: CLASS_LIST in files,
        lambda place, files, _: _in_pairs(class_list(place, CLASS_LIST), files, _a2d2, "camera"),
        _read_pair,
    ),
    DataLayout(
        "cityscapes",
        lambda files: any(name.startswith("gtFine/") for name in files),
        lambda _place, files, _: _in_pairs(of_names(CITYSCAPES), files, _cityscapes, "leftImg8bit"),
        _read_pair,
    ),
    COCO,
    DataLayout("imagefolder", _has_class_folders, _find_images, _read_image),
)
BY_NAME: Final = {layout.name: layout for layout in LAYOUTS}
