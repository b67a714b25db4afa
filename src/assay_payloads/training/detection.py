"""What the object detection trainings share. Sent to the nodes with them."""

from __future__ import annotations

import argparse

import torch
from torch import nn

from assay_payloads.datasets.coco import Coco
from assay_payloads.measuring.rank import Rank
from assay_payloads.training.benchmark import TrainingBenchmark

MOMENTUM = 0.9


class ObjectDetection(TrainingBenchmark):
    """What the benchmarks on COCO share: the splits, the number of classes, the optimizer."""

    sample, quality = "images", "AP"

    def __init__(self, rank: Rank, options: argparse.Namespace) -> None:
        super().__init__(rank, options)
        if options.cuda_graphs:
            rank.fail("--cuda-graphs needs identical steps, but here the computation depends on the images")
        self.classes = options.classes
        if options.mode != "synthetic":
            self.training = Coco(options.data, "train2017", training=True)
            self.validation = Coco(options.data, "val2017", training=False)
            self.classes = len(self.training.names)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        trained = [weights for weights in model.parameters() if weights.requires_grad]
        rate, decay = self.options.learning_rate, self.options.weight_decay
        return torch.optim.SGD(trained, rate, MOMENTUM, weight_decay=decay)

    def train_samples(self) -> int:
        """Images with objects: 117,266 of COCO's 118,287."""
        return len(self.training.ids)

    def eval_samples(self) -> int:
        """All images of val2017."""
        return len(self.validation.ids)

    def stated(self) -> dict[str, object]:
        facts: dict[str, object] = {"pretrained_backbone": self.options.backbone is not None}
        if self.options.mode != "synthetic":
            facts["boxes_without_area"] = self.training.flat_boxes  # not used in training
        return facts
