"""Training of a 3D U-Net: throughput on synthetic patches, or KiTS19 to MLPerf's target Dice score."""

from __future__ import annotations

from itertools import pairwise
from typing import Self

from pydantic import Field, model_validator

from assay.workloads.training import TrainingParams, training_workload
from assay.workloads.workload import example

CLASSES = 3  # background, kidney, tumour


class UNet3DParams(TrainingParams):
    """Train MONAI's DynUNet in the sizes of MLPerf's reference, with Nesterov's SGD.

    About 6 s on one CPU core, most of it importing MONAI: `{patch_size: 16, filters: [8, 16, 32],
    steps: 4, warmup: 1, window: 2}`. To MLPerf's target on eight GPUs: `{mode: real, data: kits19,
    batch_size: 7, target: 0.908}`.
    """

    model_config = example(patch_size=16, filters=[8, 16, 32], steps=4, warmup=1, window=2)

    batch_size: int = Field(2, ge=1, description="Patches in each rank's micro-batch.")
    learning_rate: float = Field(2.0, gt=0, description="Learning rate of SGD with Nesterov momentum 0.9.")
    warmup_epochs: int = Field(
        1000, ge=0, description="Epochs over which the learning rate ramps up, in `real` mode."
    )
    patch_size: int = Field(128, ge=4, description="Voxels along each edge of a patch.")
    filters: tuple[int, ...] = Field(
        (32, 64, 128, 256, 320, 320),
        min_length=3,
        description="Filters at each level; each level halves the edge.",
    )
    oversampling: float = Field(0.4, ge=0, le=1, description="Share of patches that must contain foreground.")
    max_epochs: float = Field(4000, gt=0, description="Epochs after which training ends in `real` mode.")
    eval_every: float = Field(20, gt=0, description="Epochs between evaluations.")
    first_eval: float = Field(1000, ge=0, description="Epochs of training before the first evaluation.")

    @model_validator(mode="after")
    def _patch_can_be_halved(self) -> Self:
        halvings = len(self.filters) - 1
        if self.patch_size % 2**halvings:
            raise ValueError(
                f"{len(self.filters)} levels of filters halve the patch {halvings} times: patch_size must "
                f"be a multiple of {2**halvings}, but is {self.patch_size}"
            )
        return self


def training_flops(params: UNet3DParams) -> float:
    """FLOPs to train on one patch: all convolutions, 2 per multiply-add, 3 × forward.

    955 GFLOP forward and 2,860 in training at the defaults. Kernels have 27 voxels, except those that double
    the edge: each output voxel of those takes part in one.
    """
    widths, multiplied = params.filters, 0
    for level, (before, width) in enumerate(pairwise((1, *widths))):
        voxels = (params.patch_size // 2**level) ** 3
        multiplied += voxels * 27 * (before + width) * width
        if level + 1 < len(
            widths
        ):  # on the way up: doubled, concatenated with the skip connection, two convolutions
            multiplied += voxels * (widths[level + 1] * width + 27 * 3 * width * width)
    multiplied += params.patch_size**3 * widths[0] * CLASSES
    return 3.0 * 2 * multiplied


UNET3D = training_workload(
    "unet3d",
    "train a 3D U-Net: throughput on synthetic patches, or KiTS19 to MLPerf's target",
    "assay_payloads.training.unet3d",
    UNet3DParams,
    sample="patch",
    samples="patches",
    flops=training_flops,
    round_="v4.0",
)
