"""Training throughput of ResNet-50 on synthetic images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from assay.records import Metric, Reading, Shape, Task
from assay.workloads import payload_log
from assay.workloads.program import Params, program_task
from assay.workloads.workload import Workload

# 8.18 GFLOP forward at 224×224 (4.09 G multiply-adds: torchvision's ResNet-50 v1.5; He et al. 2015 count
# 3.8 G for v1) and twice that backward: 3 × forward less the first layer's gradient by its input.
TRAINING_FLOPS_AT_224 = 24.3e9

METRICS = (
    Metric("throughput", "images/s", "higher", "images trained a second by all ranks together"),
    Metric("step_time", "s", "lower", "one training step on the slowest rank", scales=False),
)


class ResNet50Params(Params):
    """Training steps of torchvision's ResNet-50 with SGD.

    On one CPU core, about 4 s: `{batch_size: 8, image_size: 64, steps: 4, warmup: 1, window: 2}`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"batch_size": 8, "image_size": 64, "steps": 4, "warmup": 1, "window": 2}]
        }
    )

    batch_size: int = Field(32, ge=1, description="Images a step on each rank.")
    image_size: int = Field(224, ge=32, le=4096, description="Height and width of an image, pixels.")
    precision: Literal["fp32", "bf16", "fp16"] = Field(
        "fp32", description="Number format of the arithmetic; bf16 and fp16 by autocast, weights in fp32."
    )
    channels_last: bool = Field(True, description="Lay images out as NHWC, which most devices prefer.")
    steps: int = Field(100, ge=1, description="Training steps that count.")
    warmup: int = Field(10, ge=0, description="Steps before them that don't count.")
    window: int = Field(10, ge=1, description="Steps between two readings of the clock.")
    learning_rate: float = Field(0.01, gt=0, description="Of SGD with momentum 0.9.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU where there is one.")

    @model_validator(mode="after")
    def _last_layer_has_two_values(self) -> ResNet50Params:
        if self.batch_size == 1 and self.image_size == 32:
            raise ValueError(
                "a batch of 1 needs an image_size above 32: its last layer is normalised over 2 values"
            )
        return self


def _metrics(_params: ResNet50Params) -> tuple[Metric, ...]:
    return METRICS


def _flops(params: ResNet50Params) -> float:
    return TRAINING_FLOPS_AT_224 * (params.image_size / 224) ** 2


def _task(params: ResNet50Params, _shape: Shape, seed: int) -> Task:
    return program_task("resnet50.py", params, seed=seed)


def _read(logs: Mapping[str, Path], _params: ResNet50Params) -> Reading:
    return payload_log.read(logs, METRICS)


RESNET50 = Workload(
    name="resnet50",
    about="train ResNet-50 on synthetic images: throughput",
    params=ResNet50Params,
    metrics=_metrics,
    sample="image",
    flops=_flops,
    task=_task,
    read=_read,
)
