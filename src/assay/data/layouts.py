"""Where the frames of a data set lie: its labels and images, by the layouts that data sets have.

a2d2         class_list.json, SCENE/label/CAMERA/…_label_….png, SCENE/camera/CAMERA/…_camera_….png
cityscapes   gtFine/SPLIT/CITY/…_gtFine_labelIds.png, leftImg8bit/SPLIT/CITY/…_leftImg8bit.png
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.data.classes import CITYSCAPES, Classes, of_class_list, of_names
from assay.errors import InputError


@dataclass(frozen=True, slots=True)
class FoundFrame:
    """A label and the image that it belongs to, by their paths below the data set's directory.

    image        "" if there is none
    changed_ns   the newer of the two files' times of change, nanoseconds since 1970
    """

    label: str
    image: str
    scene: str
    camera: str
    label_bytes: int
    image_bytes: int
    changed_ns: int


@dataclass(frozen=True)
class DataLayout:
    """A layout: how its classes are read, and the path of a label → scene, camera, path of the image."""

    name: str
    images: str
    classes: Callable[[Path], Classes]
    parts: Callable[[str], tuple[str, str, str] | None]


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


LAYOUTS: Final = (
    DataLayout("a2d2", "camera", lambda root: of_class_list(root / "class_list.json"), _a2d2),
    DataLayout("cityscapes", "leftImg8bit", lambda _: of_names(CITYSCAPES), _cityscapes),
)


def layout_of(root: Path) -> DataLayout:
    """The layout of a data set's directory. Raises InputError if it has none of the known ones."""
    if not root.is_dir():
        raise InputError(f"{root}: there is no such directory")
    if (root / "class_list.json").is_file():
        return LAYOUTS[0]
    if (root / "gtFine").is_dir():
        return LAYOUTS[1]
    nested = [path.parent for path in root.glob("*/class_list.json")]
    also = f"; it has {nested[0].name}/, which is A2D2's: scan that" if nested else ""
    raise InputError(
        f"{root}: found no known data set; expected class_list.json and SCENE/label/CAMERA/*.png (A2D2), or "
        f"gtFine/ and leftImg8bit/ (Cityscapes){also}"
    )


def frames(root: Path, layout: DataLayout) -> Iterator[FoundFrame]:
    """The frames, sorted by label, links out of the directory left out. Raises InputError if unreadable."""
    files = dict(_files(root))
    for label in sorted(files):
        parts = layout.parts(label)
        if parts is None:
            continue
        scene, camera, image = parts
        size, changed = files[label]
        image_size, image_changed = files.get(image, (0, 0))
        newest = max(changed, image_changed)
        yield FoundFrame(label, image if image in files else "", scene, camera, size, image_size, newest)


def images_without_label(root: Path, layout: DataLayout, known: set[str]) -> list[str]:
    """Paths of images that no label belongs to."""
    return sorted(
        path
        for path, _ in _files(root)
        if path.endswith(".png") and f"/{layout.images}/" in f"/{path}" and path not in known
    )


def _files(root: Path) -> Iterator[tuple[str, tuple[int, int]]]:
    """Relative path → bytes and time of change of every plain file; links are not followed."""
    folders = [""]
    try:
        while folders:
            folder = folders.pop()
            with os.scandir(root / folder) as entries:
                for entry in entries:
                    path = f"{folder}{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(f"{path}/")
                    elif entry.is_file(follow_symlinks=False):
                        status = entry.stat(follow_symlinks=False)
                        yield path, (status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise InputError(f"{error.filename or root}: can't be read: {error.strerror or error}") from None
