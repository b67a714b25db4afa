"""ResNet-50: the training contract on three classes of small images, and what is the image reader's own."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from training_contract import TrainingContract

COLOURS = {"blue": (40, 60, 200), "green": (60, 200, 40), "red": (200, 60, 40)}


def make_images(directory: Path, train: int = 12, val: int = 4) -> None:
    """ImageFolder's layout: images of noise around a colour, which is their class."""
    np = pytest.importorskip("numpy")
    image = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(1)
    for part, count in (("train", train), ("val", val)):
        for name, colour in COLOURS.items():
            (directory / part / name).mkdir(parents=True)
            for number in range(count):
                pixels = np.array(colour) + random.integers(-40, 40, (48, 56, 3))
                image.fromarray(pixels.clip(0, 255).astype("uint8")).save(
                    directory / part / name / f"{number}.jpg"
                )


class TestResNet50Training(TrainingContract):
    workload = "resnet50"
    synthetic: ClassVar = {
        "model": "resnet18",
        "image_size": 32,
        "batch_size": 2,
        "steps": 3,
        "warmup": 1,
        "window": 2,
    }
    real: ClassVar = {
        "model": "resnet18",
        "image_size": 32,
        "batch_size": 8,
        "max_epochs": 8,
        "learning_rate": 0.005,
        "warmup_epochs": 0,
        "target": 0.9,
    }
    ruleset = "4.0.0"
    make_data = staticmethod(make_images)

    @staticmethod
    def spoil(directory: Path) -> str:
        victim = directory / "train" / "red" / "3.jpg"
        victim.write_bytes(victim.read_bytes()[:300])
        return str(victim)
