"""Training of a 3D U-Net: throughput on synthetic patches, or KiTS19's volumes to MLPerf's target Dice."""

from __future__ import annotations

from itertools import pairwise
from typing import Self

from pydantic import ConfigDict, Field, model_validator

from assay.workloads.training import TrainingParams, training_workload

CLASSES = 3  # background, kidney, tumour


class UNet3DParams(TrainingParams):
    """Training of MONAI's DynUNet in the sizes of MLPerf's reference, with Nesterov's SGD.

    On one CPU core, about 6 s, most of them to import MONAI: `{patch_size: 16, filters: [8, 16, 32],
    steps: 4, warmup: 1, window: 2}`. To MLPerf's target on eight GPUs: `{mode: real, data: kits19,
    batch_size: 7, target: 0.908}`.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"patch_size": 16, "filters": [8, 16, 32], "steps": 4, "warmup": 1, "window": 2}]
        }
    )

    batch_size: int = Field(2, ge=1, description="Patches of a micro batch on each rank.")
    learning_rate: float = Field(2.0, gt=0, description="Of SGD with Nesterov's momentum 0.9.")
    warmup_epochs: int = Field(1000, ge=0, description="Epochs in which it rises to that, in real.")
    patch_size: int = Field(128, ge=4, description="Voxels along each edge of a patch.")
    filters: tuple[int, ...] = Field(
        (32, 64, 128, 256, 320, 320), min_length=3, description="Of each level; the next has half the edge."
    )
    oversampling: float = Field(0.4, ge=0, le=1, description="Share of patches that must show foreground.")
    max_epochs: float = Field(4000, gt=0, description="Epochs after which a real training ends.")
    eval_every: float = Field(20, gt=0, description="Epochs between two evaluations.")
    first_eval: float = Field(1000, ge=0, description="Epochs that are trained before the first of them.")

    @model_validator(mode="after")
    def _patch_can_be_halved(self) -> Self:
        halvings = len(self.filters) - 1
        if self.patch_size % 2**halvings:
            raise ValueError(
                f"{len(self.filters)} levels of filters halve the patch {halvings} times: patch_size has to "
                f"be a multiple of {2**halvings}, and is {self.patch_size}"
            )
        return self


def training_flops(params: UNet3DParams) -> float:
    """FLOPs to train on one patch: all convolutions, 2 a multiply-add, 3 × forward.

    955 GFLOP forward and 2,860 in training at the defaults: a kernel of 27 voxels but for those that double
    the edge, of which each voxel made takes part in one.
    """
    widths, multiplied = params.filters, 0
    for level, (before, width) in enumerate(pairwise((1, *widths))):
        voxels = (params.patch_size // 2**level) ** 3
        multiplied += voxels * 27 * (before + width) * width
        if level + 1 < len(
            widths
        ):  # on the way back up: doubled, joined with what was here, two convolutions
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
