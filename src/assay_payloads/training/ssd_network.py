"""The network SSD with a ResNet-34: ssd.py trains it, and in loadgen.py it answers queries.

The model is torchvision's SSD with MLPerf's features: ResNet-34 without the last stage, the third at
stride 1, and five further pairs of convolutions (Liu et al., SSD: Single Shot MultiBox Detector, 2016;
mlcommons/training, single_stage_detector/ssd, round v1.1). Images of less than 300 pixels have fewer
feature maps.
"""

from __future__ import annotations

import argparse
import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from torchvision.models.detection.anchor_utils import DefaultBoxGenerator
from torchvision.models.detection.ssd import SSD
from torchvision.models.resnet import BasicBlock, ResNet

from assay_payloads.datasets.coco import Target, load_weights

# Each further map: channels inside, channels of the map, stride, padding.
EXTRA = ((256, 512, 2, 1), (256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0))
ASPECT_RATIOS = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
SCALES = (0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05)  # of default boxes, per image side: 21 of 300 pixels
STRIDES = (8, 16, 32, 64, 100, 300)


def map_sides(image_size: int) -> list[int]:
    """Sides of the feature maps: 38, 19, 10, 5, 3 and 1 for images of 300 pixels."""
    sides = [math.ceil(image_size / 8)]
    for _, _, stride, padding in EXTRA:
        if sides[-1] == 1 or (padding == 0 and sides[-1] < 3):
            break
        sides.append(math.ceil(sides[-1] / stride) if padding else sides[-1] - 2)
    return sides


class Features(nn.Module):
    """Feature maps of an image, finest first. blocks: residual blocks of each stage; 3, 4, 6 is ResNet-34."""

    def __init__(self, blocks: Sequence[int], maps: int, weights: Path | None) -> None:
        super().__init__()
        trunk = ResNet(BasicBlock, [*blocks, 3])
        if weights is not None:
            load_weights(trunk, weights)
        trunk.layer3[0].conv1.stride = trunk.layer3[0].downsample[0].stride = (1, 1)
        self.stem = nn.Sequential(trunk.conv1, trunk.bn1, trunk.relu, trunk.maxpool)
        self.stages = nn.Sequential(trunk.layer1, trunk.layer2, trunk.layer3)
        self.out_channels = [256]  # where SSD expects them
        self.extra = nn.ModuleList()
        for inside, channels, stride, padding in EXTRA[: maps - 1]:
            first = nn.Conv2d(self.out_channels[-1], inside, 1)
            second = nn.Conv2d(inside, channels, 3, stride, padding)
            for layer in (first, second):
                nn.init.xavier_uniform_(layer.weight)
            self.extra.append(nn.Sequential(first, nn.ReLU(inplace=True), second, nn.ReLU(inplace=True)))
            self.out_channels.append(channels)

    def forward(self, images: torch.Tensor) -> OrderedDict[str, torch.Tensor]:
        """Feature maps by index."""
        maps = [self.stages(self.stem(images))]
        for layer in self.extra:
            maps.append(layer(maps[-1]))
        return OrderedDict((str(number), features) for number, features in enumerate(maps))


class SsdNetwork(SSD):
    """torchvision's SSD with MLPerf's loss: a mean over images; torchvision's is a mean over objects."""

    def compute_loss(
        self,
        targets: list[Target],
        head_outputs: dict[str, torch.Tensor],
        anchors: list[torch.Tensor],
        matched_idxs: list[torch.Tensor],
    ) -> dict[str, torch.Tensor]:
        """Each image's box and class losses over its matched default boxes, three negatives per match."""
        matched = torch.stack(matched_idxs)  # images × default boxes: an object's index, or less than 0
        positive = matched >= 0
        objects = matched.clamp(min=0)
        pairs = list(zip(targets, objects, anchors, strict=True))
        # one more row: a crop can leave an image without objects
        boxes = [torch.cat([target["boxes"], default[:1]])[index] for target, index, default in pairs]
        kinds = [functional.pad(target["labels"], (0, 1))[index] for target, index, _ in pairs]
        encoded = torch.stack(
            [self.box_coder.encode_single(b, a) for b, a in zip(boxes, anchors, strict=True)]
        )
        labels = torch.stack(kinds) * positive
        matches = positive.sum(1)
        distance = functional.smooth_l1_loss(head_outputs["bbox_regression"], encoded, reduction="none").sum(
            2
        )
        surprise = functional.cross_entropy(
            head_outputs["cls_logits"].transpose(1, 2), labels, reduction="none"
        )
        order = surprise.masked_fill(positive, -1).argsort(1, descending=True).argsort(1)
        counted = positive | (order < 3 * matches[:, None])
        per_match = 1 / matches.clamp(min=1)
        return {
            "bbox_regression": ((distance * positive).sum(1) * per_match).mean(),
            "classification": ((surprise * counted).sum(1) * per_match).mean(),
        }


def detector(options: argparse.Namespace, classes: int) -> SsdNetwork:
    """The network for this many classes plus background.

    options  `image_size`: side in pixels; `blocks`: per stage; `backbone`: a file of weights, or None
    """
    maps = len(map_sides(options.image_size))
    features = Features(options.blocks, maps, options.backbone)
    strides = None if options.image_size != 300 else list(STRIDES)
    boxes = DefaultBoxGenerator(
        [list(ratios) for ratios in ASPECT_RATIOS[:maps]], scales=list(SCALES[-maps - 1 :]), steps=strides
    )
    size = (options.image_size, options.image_size)
    return SsdNetwork(
        features, boxes, size, classes + 1, score_thresh=0.05, nms_thresh=0.5, _skip_resize=True
    )


def mlperf_tensors(model: SsdNetwork) -> Iterator[str]:
    """Names of the weights in MLPerf's rules of v1.0 and v1.1."""
    backbone = model.backbone
    stages = [("", backbone.stem), *((f"stage{n}_", stage) for n, stage in enumerate(backbone.stages, 1))]
    for name, stage in stages:
        layers = list(stage.modules())
        for kind, names in (
            (nn.Conv2d, ("conv", ("weight",))),
            (nn.BatchNorm2d, ("batchnorm", ("gamma", "beta"))),
        ):
            for number in range(sum(isinstance(layer, kind) for layer in layers)):
                yield from (f"ssd0_resnetmlperf0_{name}{names[0]}{number}_{part}" for part in names[1])
    for number in range(len(backbone.extra)):
        for layer in ("expand_trans_conv", "expand_conv"):
            yield from (f"ssd0_{layer}{number}_{part}" for part in ("weight", "bias"))
    for number in range(len(backbone.out_channels)):  # here, boxes and classes have two convolutions
        yield from (f"ssd0_convpredictor{number}_conv0_{part}" for part in ("weight", "bias"))
