"""Training of ResNet-50: throughput on synthetic images, or ImageNet to MLPerf's target accuracy."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from assay.formats.sample_flops import resnet_flops
from assay.workloads.training import TrainingParams, training_workload
from assay.workloads.workload import example


class ResNet50Params(TrainingParams):
    """Train torchvision's ResNet-50 with SGD, or with LARS for large batches.

    About 4 s on one CPU core: `{batch_size: 8, image_size: 64, steps: 4, warmup: 1, window: 2}`. To MLPerf's
    target: `{mode: real, data: imagenet, target: 0.759, max_epochs: 41, opt_name: lars, learning_rate: 8}`.
    """

    model_config = example(batch_size=8, image_size=64, steps=4, warmup=1, window=2)

    model: Literal["resnet18", "resnet34", "resnet50"] = Field(
        "resnet50", description="The network; use a smaller one to try things out."
    )
    image_size: int = Field(224, ge=32, le=4096, description="Height and width of an image, pixels.")
    opt_name: Literal["sgd", "lars"] = Field("sgd", description="Optimizer, with momentum.")
    fused: bool = Field(True, description="Run SGD's whole update in one kernel.")
    momentum: float = Field(0.9, ge=0, lt=1, description="Momentum of the optimizer.")
    weight_decay: float = Field(
        5e-5, ge=0, description="Applied to weights, not to biases and normalization layers."
    )
    warmup_epochs: float = Field(
        2.0, ge=0, description="Epochs over which the learning rate ramps up, in `real` mode."
    )
    label_smoothing: float = Field(
        0.1, ge=0, lt=1, description="Share of a label spread over all classes, in `real` mode."
    )

    @model_validator(mode="after")
    def _last_layer_has_two_values(self) -> ResNet50Params:
        if self.batch_size == 1 and self.image_size == 32:
            raise ValueError(
                "a batch of 1 needs an image_size above 32: the last layer normalizes over at least 2 values"
            )
        return self


def _flops(params: ResNet50Params) -> float | None:
    return resnet_flops(params.model, params.image_size)


RESNET50 = training_workload(
    "resnet50",
    "train ResNet-50: throughput on synthetic images, or ImageNet to MLPerf's target",
    "assay_payloads.training.resnet50",
    ResNet50Params,
    sample="image",
    samples="images",
    flops=_flops,
    round_="v4.0",
    version=2,
)
