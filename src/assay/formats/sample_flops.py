"""FLOPs that MLPerf Training benchmarks need for one sample, with the source of each.

2 × multiply-adds; training is 3 × forward: backward computes a gradient by the weights and one by the input.
Some benchmarks have no entry, because the logs don't show what a sample took: their samples differ in length
(GNMT, Transformer, BERT, RNN-T), or their time goes into tables (DLRM, NCF, GNN) or into games (MiniGo).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from assay.formats.benchmarks import InRounds, in_round

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


@dataclass(frozen=True)
class SampleFlops(InRounds):
    """FLOPs of one sample."""

    flops: float
    sample: str
    source: str


def _dense_transformer(multiplied: float, layers: int, width: int, tokens: int) -> float:
    """FLOPs to train on one sequence: 6 per parameter and token, plus attention between all its tokens.

    multiplied  parameters that take part in products: all but the token embedding table

    Source: Chowdhery et al., PaLM (2022), appendix B.
    """
    return tokens * (6 * multiplied + 12 * layers * width * tokens)


_TORCH: Final = "torch's FlopCounterMode, forward"
_RETINANET: Final = 3 * 402.42e9 - 2 * 19.19e9  # the stem and the first stage are frozen: no backward pass
_LLAMA: Final = (
    "Grattafiori et al., The Llama 3 Herd of Models (2024), table 3, counted as in PaLM, appendix B"
)
_VOCABULARY: Final = 128_256

SAMPLE_FLOPS: Final = (
    SampleFlops(
        "resnet", (0, 5), (4, 0), resnet_flops("resnet50"), "image, 224 × 224",
        "torchvision's ResNet-50 v1.5: 4.09 G multiply-adds forward",
    ),
    SampleFlops(
        "ssd", (0, 5), (1, 1), 3 * 31.72e9, "image, 300 × 300",
        f"{_TORCH}: SSD300 on ResNet-34 with 38 × 38 features, 81 classes",
    ),
    SampleFlops(
        "ssd", (2, 0), (4, 1), _RETINANET, "image, 800 × 800",
        f"{_TORCH}: torchvision's RetinaNet on ResNeXt-50 32x4d, 264 classes",
    ),
    SampleFlops(
        "retinanet", (2, 0), (5, 1), _RETINANET, "image, 800 × 800",
        f"{_TORCH}: torchvision's RetinaNet on ResNeXt-50 32x4d, 264 classes",
    ),
    SampleFlops(
        "maskrcnn", (0, 5), (3, 1), mask_rcnn_flops(800, 1067), "image, 800 × 1,067",
        f"{_TORCH}: torchvision's maskrcnn_resnet50_fpn, 512 regions, 7 masks; stem and first stage frozen",
    ),
    SampleFlops(
        "unet3d", (1, 0), (4, 0), 3 * 954.6e9, "patch, 128 × 128 × 128",
        f"{_TORCH}: U-Net of 32 to 320 filters, 3 classes",
    ),
    SampleFlops(
        "llama31_8b", (5, 1), (6, 1), _dense_transformer(8.03e9 - _VOCABULARY * 4096, 32, 4096, 8192),
        "sequence, 8,192 tokens", _LLAMA,
    ),
    SampleFlops(
        "llama31_405b", (5, 0), (6, 0), _dense_transformer(405.9e9 - _VOCABULARY * 16384, 126, 16384, 8192),
        "sequence, 8,192 tokens", _LLAMA,
    ),
)  # fmt: skip


def sample_flops(benchmark: str | None, round_: str | None) -> SampleFlops | None:
    """FLOPs of one sample of a benchmark, named by its result folder; None if unknown.

    An unknown round doesn't matter if the benchmark's samples are the same in all rounds.

    >>> f"{sample_flops('ssd', 'v1.1').flops / 1e9:.1f}", f"{sample_flops('ssd', 'v2.1').flops / 1e9:.0f}"
    ('95.2', '1169')
    >>> sample_flops("ssd", None), sample_flops("bert", "v3.1")
    (None, None)
    """
    if round_ is not None:
        return in_round(SAMPLE_FLOPS, benchmark, round_)
    known = [entry for entry in SAMPLE_FLOPS if entry.benchmark == benchmark]
    return known[0] if len(known) == 1 else None
