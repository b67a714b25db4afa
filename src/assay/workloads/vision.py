"""Trainings on images: ResNet-50, SSD, Mask R-CNN and a 3D U-Net; throughput, or to MLPerf's target."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal, Self

from pydantic import Field, model_validator

from assay.formats.sample_flops import mask_rcnn_flops, resnet_flops
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


def _resnet50_flops(params: ResNet50Params) -> float | None:
    return resnet_flops(params.model, params.image_size)


RESNET50 = training_workload(
    "resnet50",
    "train ResNet-50: throughput on synthetic images, or ImageNet to MLPerf's target",
    "assay_payloads.training.resnet50",
    ResNet50Params,
    sample="image",
    samples="images",
    flops=_resnet50_flops,
    round_="v4.0",
    version=2,
)


# Forward for a 300 × 300 image and 80 classes: 31.7 GFLOP by torch's counter. Backward takes twice that.
TRAINING_FLOPS_AT_300 = 3 * 31.72e9
RESNET34_BLOCKS = (3, 4, 6)


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
        RESNET34_BLOCKS,
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


def _ssd_flops(params: SsdParams) -> float | None:
    if params.blocks != RESNET34_BLOCKS:
        return None
    return TRAINING_FLOPS_AT_300 * (params.image_size / 300) ** 2


SSD = training_workload(
    "ssd",
    "train SSD300 on ResNet-34: throughput on synthetic images, or COCO to MLPerf's target",
    "assay_payloads.training.ssd",
    SsdParams,
    sample="image",
    samples="images",
    flops=_ssd_flops,
    round_="v1.1",
)


RESNET50_BLOCKS = (3, 4, 6, 3)
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
        RESNET50_BLOCKS,
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


def _maskrcnn_flops(params: MaskRcnnParams) -> float | None:
    """FLOPs of an image with COCO's most common aspect ratio, 4:3, which synthetic images have too."""
    if params.blocks != RESNET50_BLOCKS or params.width != WIDTH:
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
    flops=_maskrcnn_flops,
    round_="v3.1",
)


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


def unet3d_training_flops(params: UNet3DParams) -> float:
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
    flops=unet3d_training_flops,
    round_="v4.0",
)
