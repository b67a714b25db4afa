"""SSD with a ResNet-34 on COCO, MLPerf's light-weight detection benchmark of v0.5 to v1.1.

    python ssd.py --image-size 64 --blocks 1 1 1 --batch-size 4 --steps 5
    torchrun --nproc-per-node 8 ssd.py --mode real --data /data/coco --backbone resnet34.pth --batch-size 120

The model is torchvision's SSD; its features are MLPerf's: ResNet-34 without the last stage, the third at
stride 1, and five further pairs of convolutions (Liu et al., SSD: Single Shot MultiBox Detector, 2016;
mlcommons/training, single_stage_detector/ssd, round v1.1). Images are smaller than 300 pixels in small forms
alone; they have fewer feature maps then.
"""

from __future__ import annotations

import argparse
import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torchvision import tv_tensors
from torchvision.models.detection.anchor_utils import DefaultBoxGenerator
from torchvision.models.detection.ssd import SSD
from torchvision.models.resnet import BasicBlock, ResNet
from torchvision.transforms import v2

from coco import Coco, CocoImages, Detection, Target, average_precision, load_weights
from training import arguments, train

# Each further map: channels inside, channels of the map, stride, padding.
EXTRA = ((256, 512, 2, 1), (256, 512, 2, 1), (128, 256, 2, 1), (128, 256, 1, 0), (128, 256, 1, 0))
ASPECT_RATIOS = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
SCALES = (0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05)  # of default boxes, to the image's side: 21 of 300 pixels
STRIDES = (8, 16, 32, 64, 100, 300)
OBJECTS = 7  # a synthetic image has; COCO's have 7.3 on average
Batch = tuple[torch.Tensor, list[Target]]


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
        self.out_channels = [256]  # where SSD looks for them
        self.extra = nn.ModuleList()
        for inside, channels, stride, padding in EXTRA[: maps - 1]:
            first = nn.Conv2d(self.out_channels[-1], inside, 1)
            second = nn.Conv2d(inside, channels, 3, stride, padding)
            for layer in (first, second):
                nn.init.xavier_uniform_(layer.weight)
            self.extra.append(nn.Sequential(first, nn.ReLU(inplace=True), second, nn.ReLU(inplace=True)))
            self.out_channels.append(channels)

    def forward(self, images: torch.Tensor) -> OrderedDict[str, torch.Tensor]:
        """Maps by their number."""
        maps = [self.stages(self.stem(images))]
        for layer in self.extra:
            maps.append(layer(maps[-1]))
        return OrderedDict((str(number), features) for number, features in enumerate(maps))


class Detector(SSD):
    """torchvision's SSD with MLPerf's loss: a mean over images, where torchvision's is one over objects."""

    def compute_loss(
        self,
        targets: list[Target],
        head_outputs: dict[str, torch.Tensor],
        anchors: list[torch.Tensor],
        matched_idxs: list[torch.Tensor],
    ) -> dict[str, torch.Tensor]:
        """Boxes' and classes' loss of each image over its matched default boxes; three negatives to each."""
        matched = torch.stack(matched_idxs)  # images × default boxes: an object's number, or less than 0
        positive = matched >= 0
        objects = matched.clamp(min=0)
        pairs = list(zip(targets, objects, anchors, strict=True))
        # one row more: a crop can leave an image without objects
        boxes = [torch.cat([target["boxes"], default[:1]])[index] for target, index, default in pairs]
        kinds = [functional.pad(target["labels"], (0, 1))[index] for target, index, _ in pairs]
        wanted = torch.stack(
            [self.box_coder.encode_single(b, a) for b, a in zip(boxes, anchors, strict=True)]
        )
        labels = torch.stack(kinds) * positive
        matches = positive.sum(1)
        distance = functional.smooth_l1_loss(head_outputs["bbox_regression"], wanted, reduction="none").sum(2)
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


def detector(options: argparse.Namespace, classes: int) -> Detector:
    """The network for so many classes beside the background."""
    maps = len(map_sides(options.image_size))
    features = Features(options.blocks, maps, options.backbone)
    strides = None if options.image_size != 300 else list(STRIDES)
    boxes = DefaultBoxGenerator(
        [list(ratios) for ratios in ASPECT_RATIOS[:maps]], scales=list(SCALES[-maps - 1 :]), steps=strides
    )
    size = (options.image_size, options.image_size)
    return Detector(features, boxes, size, classes + 1, score_thresh=0.05, nms_thresh=0.5, _skip_resize=True)


def mlperf_tensors(model: Detector) -> Iterator[str]:
    """Names by which MLPerf's rules of v1.0 and v1.1 know the weights."""
    backbone = model.backbone
    stages = [("", backbone.stem), *((f"stage{n}_", stage) for n, stage in enumerate(backbone.stages, 1))]
    for name, stage in stages:
        layers = list(stage.modules())
        for kind, words in (
            (nn.Conv2d, ("conv", ("weight",))),
            (nn.BatchNorm2d, ("batchnorm", ("gamma", "beta"))),
        ):
            for number in range(sum(isinstance(layer, kind) for layer in layers)):
                yield from (f"ssd0_resnetmlperf0_{name}{words[0]}{number}_{part}" for part in words[1])
    for number in range(len(backbone.extra)):
        for layer in ("expand_trans_conv", "expand_conv"):
            yield from (f"ssd0_{layer}{number}_{part}" for part in ("weight", "bias"))
    for number in range(len(backbone.out_channels)):  # boxes and classes by two convolutions here
        yield from (f"ssd0_convpredictor{number}_conv0_{part}" for part in ("weight", "bias"))


class Images(CocoImages):  # type: ignore[misc]
    """Images of one size (uint8, 3 × S × S) with their objects, in pixels of that size.

    For training they are changed by chance as MLPerf's reference does: cropped, mirrored, recoloured. For
    evaluation they are scaled, and come with their number and their true size in pixels.
    """

    def __init__(self, coco: Coco, image_size: int, *, training: bool) -> None:
        super().__init__(coco, training=training)
        scale = v2.Resize((image_size, image_size))
        colour = v2.ColorJitter(brightness=0.125, contrast=0.5, saturation=0.5, hue=0.05)
        changes = (v2.RandomIoUCrop(trials=1), scale, v2.RandomHorizontalFlip(), colour)
        self.change = v2.Compose([*changes, v2.SanitizeBoundingBoxes()]) if training else scale

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Target]:
        image = self.coco.ids[index]
        pixels = tv_tensors.Image(self.coco.read(image))
        height, width = pixels.shape[-2:]
        if not self.training:
            about = {"image": torch.tensor(image), "size": torch.tensor([width, height])}
            return self.change(pixels).as_subclass(torch.Tensor), about
        target = self.coco.target(image)
        target["boxes"] = tv_tensors.BoundingBoxes(
            target["boxes"], format="XYXY", canvas_size=(height, width)
        )
        pixels, target = self.change(pixels, target)
        return pixels.as_subclass(torch.Tensor), {
            name: value.as_subclass(torch.Tensor) for name, value in target.items()
        }


def collate(samples: list[tuple[torch.Tensor, Target]]) -> Batch:
    """Images as one tensor (uint8, n × 3 × S × S), and the objects of each."""
    images, targets = zip(*samples, strict=True)
    return torch.stack(images), list(targets)


class Ssd(Detection):
    """What there is to train and to evaluate."""

    name, round = "ssd", "v1.1"
    collate = staticmethod(collate)

    def model(self) -> Detector:
        """The detector, on the CPU."""
        model = detector(self.options, self.classes)
        if self.options.mode == "real" and self.rank.rank == 0:
            for name in mlperf_tensors(model):
                self.rank.log("weights_initialization", tensor=name)
        return model

    def learning_rate(self, step: int) -> float:
        """Rises over the first steps, falls to a tenth at each of two epochs."""
        rising = min(1.0, (step + 1) / max(1, self.options.lr_warmup_steps))
        epoch = step / self.steps_per_epoch if self.options.mode == "real" else 0.0
        fallen: float = 0.1 ** sum(epoch >= at for at in self.options.decay_epochs)
        return float(self.options.learning_rate) * rising * fallen

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean over the images."""
        images, targets = batch
        losses = model(list(images.float() / 255), targets)
        return torch.stack(list(losses.values())).sum()

    def synthetic(self) -> Batch:
        """Noise with as many objects as COCO's images have."""
        size, device, batch = self.options.image_size, self.rank.device, self.options.batch_size
        images = torch.randint(256, (batch, 3, size, size), dtype=torch.uint8, device=device)
        corner = torch.rand(batch, OBJECTS, 2, device=device) * 0.6
        boxes = torch.cat([corner, corner + 0.1 + torch.rand_like(corner) * 0.3], dim=2) * size
        labels = torch.randint(1, self.classes + 1, (batch, OBJECTS), device=device)
        return images, [{"boxes": b, "labels": n} for b, n in zip(boxes, labels, strict=True)]

    def training_data(self, epoch: int) -> Images:
        """Images that have objects."""
        return Images(self.training, self.options.image_size, training=True)

    def evaluate(self, model: nn.Module) -> float:
        """COCO's average precision of boxes, over all images of val2017."""
        found: list[dict[str, Any]] = []
        data = Images(self.validation, self.options.image_size, training=False)
        for images, about in self.feed.evaluation(data):
            for seen, image in zip(model(list(images.float() / 255)), about, strict=True):
                seen["boxes"] *= image["size"].repeat(2) / self.options.image_size
                found += self.validation.result(int(image["image"]), seen)
        return average_precision(self.rank, self.validation, found, ["bbox"])[0]

    def stated(self) -> dict[str, object]:
        """What MLPerf's rules want of this benchmark, and its form."""
        options = self.options
        return super().stated() | {
            "opt_base_learning_rate": options.learning_rate,
            "opt_learning_rate_warmup_factor": 0,
            "opt_learning_rate_warmup_steps": options.lr_warmup_steps,
            "opt_learning_rate_decay_boundary_epochs": options.decay_epochs,
            "opt_weight_decay": options.weight_decay,
            "model_bn_span": options.batch_size,
            "max_samples": 1,  # tries of a crop before another kind of crop is drawn
            "image_size": options.image_size,
        }


def main() -> None:
    """Read the command line and train."""
    parser = arguments(__doc__, batch_size=32, learning_rate=2.5e-3, max_epochs=80.0, eval_every=5.0)
    add = parser.add_argument
    add("--image-size", type=int, default=300, help="height and width in pixels, 32 or more")
    add("--blocks", type=int, nargs=3, default=[3, 4, 6], help="residual blocks of each stage; ResNet-34's")
    add("--classes", type=int, default=80, help="of synthetic images; others have those of their annotations")
    add("--backbone", type=Path, help="file of torchvision's weights of ResNet-34; default: begin by chance")
    add("--weight-decay", type=float, default=1.6e-4)
    add("--lr-warmup-steps", type=int, default=650, help="steps over which the learning rate rises from 0")
    add("--decay-epochs", type=int, nargs=2, default=[40, 50], help="where it falls to a tenth")
    options = parser.parse_args()
    if (
        options.image_size < 32
        or min(options.blocks) < 1
        or options.classes < 1
        or options.lr_warmup_steps < 1
    ):
        parser.error("--image-size is 32 or more; --blocks, --classes and --lr-warmup-steps are 1 or more")
    train(Ssd, options)


if __name__ == "__main__":
    main()
