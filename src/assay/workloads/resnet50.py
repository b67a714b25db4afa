"""Training of ResNet-50: throughput on synthetic images, or on ImageNet's to MLPerf's target accuracy."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from assay.readers.image_flops import resnet_flops
from assay.workloads.training import TrainingParams, training_workload


class ResNet50Params(TrainingParams):
    """Training of torchvision's ResNet-50 with SGD, or LARS for large batches.

    On one CPU core, about 4 s: `{batch_size: 8, image_size: 64, steps: 4, warmup: 1, window: 2}`. To MLPerf's
    target: `{mode: real, data: imagenet, target: 0.759, max_epochs: 41, opt_name: lars, learning_rate: 8}`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"batch_size": 8, "image_size": 64, "steps": 4, "warmup": 1, "window": 2}]
        }
    )

    model: Literal["resnet18", "resnet34", "resnet50"] = Field(
        "resnet50", description="The network; the smaller ones are for trying out."
    )
    image_size: int = Field(224, ge=32, le=4096, description="Height and width of an image, pixels.")
    opt_name: Literal["sgd", "lars"] = Field("sgd", description="Optimiser, with momentum.")
    fused: bool = Field(True, description="All of SGD's update in one kernel.")
    momentum: float = Field(0.9, ge=0, lt=1, description="Of the optimiser.")
    weight_decay: float = Field(5e-5, ge=0, description="Of weights; biases and normalisations have none.")
    warmup_epochs: float = Field(2.0, ge=0, description="Epochs in which the learning rate rises, in real.")
    label_smoothing: float = Field(0.1, ge=0, lt=1, description="Share of a label spread over all, in real.")

    @model_validator(mode="after")
    def _last_layer_has_two_values(self) -> ResNet50Params:
        if self.batch_size == 1 and self.image_size == 32:
            raise ValueError(
                "a batch of 1 needs an image_size above 32: its last layer is normalised over 2 values"
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
