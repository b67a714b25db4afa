"""A catalog of frames whose pixels are known, without images: frame i has i pixels of cars."""

from __future__ import annotations

from pathlib import Path

from assay.data.catalog import Rows, writing
from assay.data.classes import Classes

CLASSES = Classes(("Car", "Fußgänger"), ("car", "fußgänger"), {})
CAMERAS = ("cam_front_center", "cam_front_left")
PIXELS = 1000


def catalog(path: Path, frames: range) -> Path:
    """Add frames with these numbers to a catalog, made if it isn't there; each tenth shows a pedestrian."""
    rows = Rows()
    for i in frames:
        camera = CAMERAS[i % 2]
        label = f"s{i % 3}/label/{camera}/{i:05}.png"
        own = [label, label.replace("label", "camera"), f"s{i % 3}", camera, None, 40, 25, PIXELS, 10, 100, 1]
        rows.frames.append([*own, 0, i, 5 * (i % 10 == 0)])
    with writing(path, Path("/data"), "a2d2", CLASSES) as opened:
        opened.add(rows)
    return path
