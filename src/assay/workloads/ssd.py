"""Training of SSD on ResNet-34: throughput on synthetic images, or COCO to MLPerf's target precision."""

from __future__ import annotations

from pydantic import Field

from assay.workloads.training import TrainingParams, training_workload
from assay.workloads.workload import example

# Forward for a 300 × 300 image and 80 classes: 31.7 GFLOP by torch's counter. Backward takes twice that.
TRAINING_FLOPS_AT_300 = 3 * 31.72e9
RESNET34 = (3, 4, 6)


class SsdParams(TrainingParams):
    """Train SSD300 on ResNet-34 with SGD.

    About 5 s on one CPU core: `{image_size: 64, blocks: [1, 1, 1], batch_size: 4, steps: 4, warmup: 1,
    window: 2}`. To MLPerf's target on 8 GPUs: `{mode: real, data: coco, backbone: /data/resnet34.pth,
    batch_size: 120, learning_rate: 0.0875, target: 0.23}`.
    """

    model_config = example(image_size=64, blocks=[1, 1, 1], batch_size=4, steps=4, warmup=1, window=2)

    learning_rate: float = Field(
        2.5e-3, gt=0, description="Of SGD with momentum 0.9, at its highest; for a batch of 32."
    )
    max_epochs: float = Field(80, gt=0, description="Epochs after which training ends in `real` mode.")
    eval_every: float = Field(5, gt=0, description="Epochs between evaluations.")
    image_size: int = Field(300, ge=32, le=4096, description="Height and width of an image, pixels.")
    blocks: tuple[int, int, int] = Field(
        RESNET34,
        description="Residual blocks in each stage; default: ResNet-34's; use fewer to try things out.",
    )
    classes: int = Field(
        80, ge=1, description="Classes in synthetic images; real images have those of their annotations."
    )
    backbone: str | None = Field(
        None, pattern="^/", description="File on the nodes with torchvision's weights of ResNet-34."
    )
    weight_decay: float = Field(1.6e-4, ge=0, description="Weight decay, applied to all weights.")
    lr_warmup_steps: int = Field(650, ge=1, description="Steps over which the learning rate ramps up from 0.")
    decay_epochs: tuple[int, int] = Field(
        (40, 50), description="Epochs after which the learning rate drops to a tenth."
    )


def _flops(params: SsdParams) -> float | None:
    if params.blocks != RESNET34:
        return None
    return TRAINING_FLOPS_AT_300 * (params.image_size / 300) ** 2


SSD = training_workload(
    "ssd",
    "train SSD300 on ResNet-34: throughput on synthetic images, or COCO to MLPerf's target",
    "assay_payloads.training.ssd",
    SsdParams,
    sample="image",
    samples="images",
    flops=_flops,
    round_="v1.1",
)
