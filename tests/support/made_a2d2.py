"""A data set in A2D2's layout that a small network learns in seconds: sky, street, and a car on it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from PIL import Image

SCENES = ("20180807_145028", "20181107_132730")
CAMERA = "cam_front_center"
# Colour of the label → name, as in A2D2's class_list.json, of which this is a part.
CLASSES = {
    "#ff0000": "Car 1",
    "#c80000": "Car 2",
    "#ff00ff": "RD normal street",
    "#87ceff": "Sky",
    "#b65906": "Bicycle 1",
}
SKY, STREET, CARS = (0x87, 0xCE, 0xFF), (0xFF, 0x00, 0xFF), ((0xFF, 0x00, 0x00), (0xC8, 0x00, 0x00))
UNKNOWN, UNKNOWN_PIXELS = (1, 2, 3), 5  # a colour of no class, in each label: less than one in a hundred
SEEN = {"sky": (120, 170, 230), "street": (70, 70, 75), "car": (200, 40, 40)}  # in the camera's image


def make(directory: Path, *, frames: int, height: int = 64, width: int = 96) -> Path:
    """Write so many frames of height × width pixels into two scenes; gives the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "class_list.json").write_text(json.dumps(CLASSES))
    chance = np.random.default_rng(1)
    for number in range(frames):
        image, label = frame(chance, number, height, width)
        for kind, pixels in (("camera", image), ("label", label)):
            path = file(directory, number, kind)
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(path)
    return directory


def file(directory: Path, number: int, kind: str) -> Path:
    """Where the `camera` image or the `label` of a frame lies."""
    scene = SCENES[number % len(SCENES)]
    name = f"{scene.replace('_', '')}_{kind}_frontcenter_{number:09}.png"
    return directory / scene / kind / CAMERA / name


def frame(chance: np.random.Generator, number: int, height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """The camera's image and its label."""
    horizon = int(chance.integers(height // 3, height // 2))
    left, car = int(chance.integers(0, width // 2)), width // 4
    image, label = np.zeros((2, height, width, 3), dtype=np.uint8)
    image[:horizon], label[:horizon] = SEEN["sky"], SKY
    image[horizon:], label[horizon:] = SEEN["street"], STREET
    body = slice(horizon, horizon + height // 3), slice(left, left + car)
    image[body], label[body] = SEEN["car"], CARS[number % 2]
    label[0, :UNKNOWN_PIXELS] = UNKNOWN
    noise = chance.integers(-15, 16, image.shape)
    return (image.astype(int) + noise).clip(0, 255).astype(np.uint8), label
