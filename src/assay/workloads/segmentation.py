"""Segmentation of street scenes: training on synthetic images or A2D2, and validation over many frames."""

from __future__ import annotations

import math
from typing import Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from assay.formats.reader import Params
from assay.records import Metric, Shape, Task
from assay.workloads.data import CHOOSE_HELP, Choose, is_unset
from assay.workloads.payload_log import payload_reader
from assay.workloads.training import TrainingParams, training_workload
from assay.workloads.workload import Workload, absolute, example, program_task

# Forward FLOPs per pixel for 20 classes, by torch's counter; 653 GFLOP for 1,216 × 1,920 with the first.
FLOPS_A_PIXEL = {
    ("deeplabv3plus", "resnet50"): 279.6e3,
    ("deeplabv3plus", "resnet18"): 139.8e3,
    ("unet", "resnet50"): 330.0e3,
    ("unet", "resnet18"): 170.2e3,
}


class SegmentationParams(TrainingParams):
    """Train DeepLabV3+ or U-Net on A2D2's street scenes with SGD.

    About 6 s on one CPU core: `{encoder: resnet18, image_size: [64, 96], batch_size: 2, steps: 4, warmup: 1,
    window: 2}`. On the data: `{mode: real, data: /data/a2d2/camera_lidar_semantic, max_epochs: 10}`.
    """

    model_config = example(encoder="resnet18", image_size=[64, 96], batch_size=2, steps=4, warmup=1, window=2)

    batch_size: int = Field(4, ge=1, description="Images in each rank's micro-batch.")
    max_epochs: float = Field(10, gt=0, description="Epochs after which training ends in `real` mode.")
    eval_every: float = Field(10, gt=0, description="Epochs between evaluations.")
    target: float | None = Field(None, description="Mean intersection over union at which training ends.")
    architecture: Literal["deeplabv3plus", "unet"] = Field("deeplabv3plus", description="The network.")
    encoder: str = Field(
        "resnet50", description="The network's encoder, one of segmentation-models-pytorch's."
    )
    image_size: tuple[int, int] = Field(
        (1216, 1920), description="Images are scaled to this height and width, pixels; multiples of 32."
    )
    reduced: bool = Field(True, description="Use 20 classes, as in the Redbook's training; otherwise all 38.")
    camera: str = Field("cam_front_center", description="Which of the six cameras' frames.")
    manifest: str | None = Field(
        None, description="Frames chosen by `assay data query`, a path on the nodes; instead of a camera's."
    )
    choose: Choose | None = Field(None, exclude_if=is_unset, description=CHOOSE_HELP)
    source: str | None = Field(
        None,
        description="Where to read frames of the manifest that `data` lacks: it then keeps them. Set by "
        "`data: {stage: through}`.",
    )
    frames: int | None = Field(None, ge=2, description="Number of frames to draw at random; default: all.")
    held_out: int = Field(10, ge=2, description="One in this many frames is held out for the evaluation.")
    weight_decay: float = Field(1e-4, ge=0, description="Weight decay, applied to all weights.")
    dropout: float = Field(0.5, ge=0, lt=1, description="Dropout rate of DeepLabV3+'s features.")

    @field_validator("manifest")
    @classmethod
    def _is_a_place(cls, path: str | None, info: ValidationInfo) -> str | None:
        """Relative to the suite's directory if the context names it, otherwise to the current one."""
        return None if path is None else absolute(path, info)

    @field_validator("image_size")
    @classmethod
    def _halves_five_times(cls, size: tuple[int, int]) -> tuple[int, int]:
        if any(side < 32 or side % 32 for side in size):
            fitting = tuple(max(32, 32 * round(side / 32)) for side in size)
            raise ValueError(f"the network halves both sides five times; write {list(fitting)}")
        return size

    @model_validator(mode="after")
    def _normalises_over_two_values(self) -> Self:
        if self.architecture == "deeplabv3plus" and self.batch_size == 1:
            raise ValueError(
                "DeepLabV3+ normalizes one value per image over the batch; use a batch_size of at least 2"
            )
        return self

    @model_validator(mode="after")
    def _has_one_source_of_frames(self) -> Self:
        if self.choose is not None and self.manifest is not None:
            raise ValueError("choose makes the manifest when a trial is submitted; remove manifest")
        return self


def _flops(params: SegmentationParams) -> float | None:
    forward = FLOPS_A_PIXEL.get((params.architecture, params.encoder))
    if forward is None:
        return None
    return 3 * forward * math.prod(params.image_size)


SEGMENTATION = training_workload(
    "segmentation",
    "train DeepLabV3+ or U-Net on street scenes: throughput on synthetic images, or training on A2D2",
    "assay_payloads.training.segmentation",
    SegmentationParams,
    sample="image",
    samples="images",
    flops=_flops,
    choose=lambda params: params.choose,
    round_="v3.1",
    version=2,
)


_VALIDATION_METRICS = (
    Metric("throughput", "images/s", "higher", "frames per second of all ranks together, with reading them"),
    Metric("mean_iou", "", "higher", "intersection over union, mean of the classes that are in labels"),
    Metric("pixel_accuracy", "", "higher", "share of pixels that were predicted right"),
)


class SegmentationValidationParams(Params):
    """Run a trained network of `segmentation` over all frames of a manifest.

    The ranks share the frames and print the counts of each chunk, and `assay data validate … --run` adds them
    up by scene, camera and tag. Paths are those on the nodes. How to: docs/how-to/data-validate.md.
    """

    model_config = example(checkpoint="/runs/a2d2/trained.pt", manifest="/data/all.jsonl")

    checkpoint: str = Field(
        description="trained.pt or checkpoint.pt that a training of `segmentation` saved."
    )
    manifest: str = Field(description="Frames chosen by `assay data query`.")
    data: str | None = Field(None, description="The data set's directory; default: as in the manifest.")
    into: str | None = Field(
        None, description="Directory, shared by all ranks, that keeps each chunk for the next try."
    )
    batch_size: int = Field(4, ge=1, description="Frames at once.")
    chunk_frames: int = Field(64, ge=1, description="Frames of a chunk, which one rank computes.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU if there is one.")

    @field_validator("checkpoint", "manifest", "data", "into")
    @classmethod
    def _is_absolute(cls, path: str | None, info: ValidationInfo) -> str | None:
        """Relative to the suite's directory if the context names it, otherwise to the current one."""
        return None if path is None else absolute(path, info)


def _validation_task(params: SegmentationValidationParams, _shape: Shape, _seed: int) -> Task:
    return program_task("assay_payloads.training.validation", params)


SEGMENTATION_VALIDATION = Workload(
    reader=payload_reader("segmentation-validation", SegmentationValidationParams, _VALIDATION_METRICS),
    about="a trained segmentation network over many frames: counts by true and predicted class",
    task=_validation_task,
)
