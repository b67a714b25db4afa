"""FLOPs to train on an image, for networks that both Assay's workloads and MLPerf's logs train."""

from __future__ import annotations

import math
from typing import Final

# GFLOP per image at 224×224. ResNet-50: 8.18 forward (4.09 G multiply-adds: torchvision's v1.5; He et al.
# 2015 count 3.8 G for v1) and twice that backward: 3 × forward, minus the first layer's input gradient.
# The others are derived the same way from 3.63 and 7.33.
_RESNET_GFLOP_AT_224: Final = {"resnet18": 10.65, "resnet34": 21.75, "resnet50": 24.3}

# Forward FLOPs of torchvision's maskrcnn_resnet50_fpn, by torch's counter: per pixel in backbone, pyramid,
# and proposals; per sampled region in the box head; per object in the mask head. torchvision states
# 134.38 G multiply-adds: those of 800 × 800 pixels and 1,000 regions in which nothing is detected.
_FLOPS_A_PIXEL: Final = 374.5e3
_FLOPS_A_REGION: Final = 28.62e6
_FLOPS_A_MASK: Final = 1.0601e9
_FROZEN_FLOPS_A_PIXEL: Final = 31.3e3  # stem and first stage: no backward pass when they are frozen
OBJECTS: Final = 7  # a COCO image has 7.3; extra masks computed where proposals overlap are not counted


def resnet_flops(model: str, size: int = 224) -> float:
    """FLOPs to train on an image of size × size pixels.

    >>> resnet_flops("resnet50") / 1e9
    24.3
    """
    return _RESNET_GFLOP_AT_224[model] * 1e9 * (size / 224) ** 2


def mask_rcnn_flops(height: int, width: int, regions: int = 512, *, frozen: bool = True) -> float:
    """FLOPs to train on an image of this size, in whole strides of 32, with only its objects' masks.

    >>> round(mask_rcnn_flops(800, 1067) / 1e9)
    990
    """
    pixels = math.prod(32 * math.ceil(side / 32) for side in (height, width))
    heads = regions * _FLOPS_A_REGION + OBJECTS * _FLOPS_A_MASK
    return 3 * heads + (3 * _FLOPS_A_PIXEL - 2 * _FROZEN_FLOPS_A_PIXEL * frozen) * pixels
