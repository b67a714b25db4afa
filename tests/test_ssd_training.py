"""SSD: the training contract on coloured squares in COCO's layout, its loss, its FLOPs, its annotations."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import made_coco
from training_contract import TrainingContract

SMALL: dict[str, Any] = {"image_size": 48, "blocks": (1, 1, 1)}


class TestSsdTraining(TrainingContract):
    workload = "ssd"
    synthetic: ClassVar = SMALL | {"batch_size": 2, "steps": 3, "warmup": 1, "window": 2}
    real: ClassVar = SMALL | {
        "batch_size": 8,
        "max_epochs": 10,
        "eval_every": 5,
        "learning_rate": 0.02,
        "lr_warmup_steps": 5,
        "target": 0.2,
    }
    ruleset = "0.7.0"  # 1.1.0 wants the names of all of ResNet-34's weights: see below

    @staticmethod
    def make_data(directory: Path) -> None:
        made_coco.make(directory, train=32, validation=8)

    @staticmethod
    def spoil(directory: Path) -> str:
        victim = directory / "train2017" / "000000000003.png"
        victim.write_bytes(victim.read_bytes()[:300])
        return str(victim)
