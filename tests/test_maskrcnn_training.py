"""Mask R-CNN: the training contract on coloured squares in COCO's layout, its weights, its FLOPs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import made_coco
from training_contract import TrainingContract

SMALL: dict[str, Any] = {"min_size": 64, "max_size": 96, "blocks": (1, 1, 1, 1), "width": 32, "regions": 32}


class TestMaskRcnnTraining(TrainingContract):
    workload = "maskrcnn"
    synthetic: ClassVar = SMALL | {"batch_size": 2, "steps": 3, "warmup": 1, "window": 2}
    real: ClassVar = SMALL | {
        "proposals": 1000,
        "batch_size": 4,
        "max_epochs": 6,
        "eval_every": 3,
        "learning_rate": 0.005,
        "lr_warmup_steps": 20,
        "target": 0.15,
        "mask_target": 0.15,
    }
    chance: ClassVar = {"anchors": 4096, "regions": 4096}  # more than there are: all of them
    ruleset = "3.1.0"

    @staticmethod
    def make_data(directory: Path) -> None:
        made_coco.make(directory, train=32, validation=8)

    @staticmethod
    def spoil(directory: Path) -> str:
        victim = directory / "train2017" / "000000000003.png"
        victim.unlink()
        return str(victim)
