"""Training of Mask R-CNN: throughput on synthetic images, or COCO to MLPerf's target precisions."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from assay.formats.sample_flops import mask_rcnn_flops
from assay.workloads.training import TrainingParams, training_workload
from assay.workloads.workload import example

RESNET50 = (3, 4, 6, 3)
WIDTH = 256


class MaskRcnnParams(TrainingParams):
    """Train torchvision's Mask R-CNN on ResNet-50 and a feature pyramid with SGD.

    About 8 s on one CPU core: `{min_size: 64, max_size: 96, blocks: [1, 1, 1, 1], width: 32, regions: 32,
    batch_size: 2, steps: 4, warmup: 1, window: 2}`. To MLPerf's targets on 8 GPUs: `{mode: real, data: coco,
    backbone: /data/resnet50.pth, batch_size: 6, learning_rate: 0.06, target: 0.377}`.
    """

    model_config = example(
        min_size=64,
        max_size=96,
        blocks=[1, 1, 1, 1],
        width=32,
        regions=32,
        batch_size=2,
        steps=4,
        warmup=1,
        window=2,
    )

    batch_size: int = Field(2, ge=1, description="Images in each rank's micro-batch.")
    learning_rate: float = Field(
        0.02, gt=0, description="Peak learning rate of SGD with momentum 0.9, for a batch of 16."
    )
    max_epochs: float = Field(14, gt=0, description="Epochs after which training ends in `real` mode.")
    target: float | None = Field(None, description="Average precision of boxes at which training ends.")
    mask_target: float = Field(
        0.339, ge=0, le=1, description="Average precision of masks that must be reached too."
    )
    min_size: int = Field(800, ge=32, description="Images are scaled to this shorter side, pixels.")
    max_size: int = Field(1333, ge=32, description="Maximum longer side after scaling, pixels.")
    blocks: tuple[int, int, int, int] = Field(
        RESNET50,
        description="Residual blocks in each stage; default: ResNet-50's; use fewer to try things out.",
    )
    width: int = Field(
        WIDTH, ge=1, description="Channels of the pyramid and the heads; use fewer to try things out."
    )
    proposals: int = Field(2000, ge=1, description="Proposed regions kept per image.")
    regions: int = Field(
        512, ge=1, description="Regions sampled per image to train classes, boxes, and masks."
    )
    anchors: int = Field(256, ge=1, description="Anchors sampled per image to train proposals.")
    classes: int = Field(
        80, ge=1, description="Classes in synthetic images; real images have those of their annotations."
    )
    backbone: str | None = Field(
        None, pattern="^/", description="File on the nodes with torchvision's weights of ResNet-50."
    )
    weight_decay: float = Field(1e-4, ge=0, description="Weight decay, applied to all weights.")
    lr_warmup_steps: int = Field(625, ge=1, description="Steps over which the learning rate ramps up from 0.")
    decay_images: tuple[int, int] = Field(
        (960_000, 1_280_000), description="Images after which the learning rate drops to a tenth."
    )

    @model_validator(mode="after")
    def _longer_is_not_shorter(self) -> Self:
        if self.max_size < self.min_size:
            raise ValueError(f"max_size {self.max_size} is smaller than min_size {self.min_size}")
        return self


def _flops(params: MaskRcnnParams) -> float | None:
    """FLOPs of an image with COCO's most common aspect ratio, 4:3, which synthetic images have too."""
    if params.blocks != RESNET50 or params.width != WIDTH:
        return None
    longer = min(params.min_size * 4 // 3, params.max_size)
    frozen = params.backbone is not None
    return mask_rcnn_flops(longer * 3 // 4, longer, params.regions, frozen=frozen)


MASKRCNN = training_workload(
    "maskrcnn",
    "train Mask R-CNN on ResNet-50: throughput on synthetic images, or COCO to MLPerf's targets",
    "assay_payloads.training.maskrcnn",
    MaskRcnnParams,
    sample="image",
    samples="images",
    flops=_flops,
    round_="v3.1",
)
