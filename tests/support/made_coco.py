"""A data set in COCO's layout that a small network learns in seconds: coloured squares on a plain ground."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

COLOURS = {"red": (220, 40, 40), "green": (40, 200, 60)}  # classes; their ids have a gap, as COCO's have
CATEGORIES = [{"id": 3 * number, "name": name} for number, name in enumerate(COLOURS, start=1)]


def make(directory: Path, *, train: int, validation: int, side: int = 64) -> Path:
    """Write so many images of side × side pixels, each with one or two squares; gives the directory."""
    chance = np.random.default_rng(1)
    for split, images in (("train2017", train), ("val2017", validation)):
        (directory / split).mkdir(parents=True)
        annotations: dict[str, Any] = {"images": [], "annotations": [], "categories": CATEGORIES}
        for image in range(1, images + 1):
            pixels = chance.integers(90, 130, (side, side, 3), dtype=np.uint8)
            name = f"{image:012}.png"
            annotations["images"].append({"id": image, "file_name": name, "height": side, "width": side})
            for half in range(1 + image % 2):
                left, top, size = (int(n) for n in chance.integers([0, 0, 16], [8, side - 26, 24]))
                left += half * side // 2
                kind = int(chance.integers(len(COLOURS)))
                pixels[top : top + size, left : left + size] = list(COLOURS.values())[kind]
                annotations["annotations"].append(square(annotations, image, kind, (left, top), size))
            Image.fromarray(pixels).save(directory / split / name)
        write(directory, split, annotations)
    return directory


def square(
    annotations: dict[str, Any], image: int, kind: int, at: tuple[int, int], size: int
) -> dict[str, Any]:
    """One object, its outline as a polygon."""
    left, top = at
    right, bottom = left + size, top + size
    return {
        "id": len(annotations["annotations"]) + 1,
        "image_id": image,
        "category_id": CATEGORIES[kind]["id"],
        "bbox": [left, top, size, size],
        "area": size * size,
        "iscrowd": 0,
        "segmentation": [[left, top, right, top, right, bottom, left, bottom]],
    }


def write(directory: Path, split: str, annotations: dict[str, Any]) -> None:
    """The annotations of a split."""
    (directory / "annotations").mkdir(exist_ok=True)
    (directory / "annotations" / f"instances_{split}.json").write_text(json.dumps(annotations))


def annotations(directory: Path, split: str) -> dict[str, Any]:
    """As they were written."""
    found: dict[str, Any] = json.loads((directory / "annotations" / f"instances_{split}.json").read_text())
    return found
