"""Mask R-CNN with a ResNet-50 and a feature pyramid on COCO: MLPerf's heavyweight detection of v0.5 to v3.1.

    python -m assay_payloads.training.maskrcnn --min-size 64 --max-size 96 --blocks 1 1 1 1 --width 32 \\
        --batch-size 2 --steps 4
    torchrun --nproc-per-node 8 -m assay_payloads.training.maskrcnn --mode real --data /data/coco2017 \\
        --backbone resnet50.pth

The model is torchvision's maskrcnn_resnet50_fpn, weight for weight. With --backbone, the weights of an
ImageNet classifier, it is trained as MLPerf's reference is: the first two stages and all batch normalization
stay unchanged. Without it, all weights start at random, and training doesn't reach MLPerf's target.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torchvision.models.detection.backbone_utils import BackboneWithFPN
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.mask_rcnn import MaskRCNN, MaskRCNNHeads, MaskRCNNPredictor
from torchvision.models.resnet import Bottleneck, ResNet
from torchvision.ops.misc import FrozenBatchNorm2d

from assay_payloads.datasets.coco import CocoImages, Target, average_precision, load_weights
from assay_payloads.training.detection import ObjectDetection
from assay_payloads.training.training import arguments, train

FROZEN = ("conv1", "bn1", "layer1")  # with a classifier's weights: layers that detect edges need no training
OBJECTS = 7  # per synthetic image; COCO's have 7.3 on average
DECAY = 0.1
# Names in MLPerf's rules of v1.0 and v1.1 for the weights that always start at random.
INITIALIZED = (
    *(f"FPN_{kind}_block{number}" for number in range(1, 5) for kind in ("inner", "layer")),
    *(f"RPNHead_{part}" for part in ("conv", "cls", "bbox")),
    *(f"ROI_BOX_{part}" for part in ("FEATURE_EXTRACTOR_fc6", "FEATURE_EXTRACTOR_fc7")),
    *(f"ROI_BOX_PREDICTOR_{part}" for part in ("cls", "bbox")),
    *(f"ROI_MASK_FEATURE_EXTRACTOR_fcn{number}" for number in range(1, 5)),
    *(f"ROI_MASK_PREDICTOR_{part}" for part in ("fcn5", "fcn_logits")),
)
Batch = list[tuple[torch.Tensor, Any]]


def trunk(options: argparse.Namespace) -> ResNet:
    """The residual network below the pyramid; blocks 3, 4, 6, 3 are ResNet-50."""
    if options.backbone is None:
        return ResNet(Bottleneck, list(options.blocks))
    network = ResNet(Bottleneck, list(options.blocks), norm_layer=FrozenBatchNorm2d)
    load_weights(network, options.backbone)
    for name, weights in network.named_parameters():
        weights.requires_grad_(not name.startswith(FROZEN))
    return network


def detector(options: argparse.Namespace, classes: int) -> MaskRCNN:
    """The network for this many classes plus background; `width` channels in pyramid and heads."""
    width = options.width
    pyramid = BackboneWithFPN(
        trunk(options), {f"layer{n + 1}": str(n) for n in range(4)}, [256, 512, 1024, 2048], width
    )
    return MaskRCNN(
        pyramid,
        min_size=options.min_size,
        max_size=options.max_size,
        rpn_post_nms_top_n_train=options.proposals,
        rpn_batch_size_per_image=options.anchors,
        box_batch_size_per_image=options.regions,
        box_head=TwoMLPHead(width * 7 * 7, 4 * width),
        box_predictor=FastRCNNPredictor(4 * width, classes + 1),
        mask_head=MaskRCNNHeads(width, [width] * 4, 1),
        mask_predictor=MaskRCNNPredictor(width, width, classes + 1),
    )


class MaskRcnnImages(CocoImages):  # type: ignore[misc]
    """Images (uint8, 3 × H × W) with their objects, half of them mirrored; or with their index."""

    def __getitem__(self, index: int) -> tuple[torch.Tensor, Target | int]:
        image = self.coco.ids[index]
        pixels = self.coco.read(image)
        if not self.training:
            return pixels, image
        target = self.coco.target(image, masks=True)
        if torch.rand(()) < 0.5:
            pixels, target["masks"] = pixels.flip(2), target["masks"].flip(2)
            target["boxes"][:, [0, 2]] = pixels.shape[2] - target["boxes"][:, [2, 0]]
        return pixels, target


class MaskRcnn(ObjectDetection):
    """The data for training and evaluation."""

    name, round = "maskrcnn", "v3.1"
    collate: Callable[..., Any] = staticmethod(list)  # images differ in size

    def model(self) -> MaskRCNN:
        """The detector, on the CPU."""
        if self.options.mode == "real" and self.rank.rank == 0:
            for name in INITIALIZED:
                self.rank.log("weights_initialization", tensor=name)
        return detector(self.options, self.classes)

    @property
    def decay_steps(self) -> list[int]:
        """Steps at which the learning rate drops."""
        return [images // self.global_batch_size for images in self.options.decay_images]

    def learning_rate(self, step: int) -> float:
        """Rises over the first steps, then drops to a tenth at two later steps."""
        rising = min(1.0, (step + 1) / self.options.lr_warmup_steps)
        fallen: float = DECAY ** sum(step >= decay_step for decay_step in self.decay_steps)
        return float(self.options.learning_rate) * rising * fallen

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Losses of proposals, classes, boxes, and masks, each a mean over the drawn samples."""
        losses = model([image.float() / 255 for image, _ in batch], [target for _, target in batch])
        return torch.stack(list(losses.values())).sum()

    def samples(self, batch: Batch) -> int:
        """Images."""
        return len(batch)

    def synthetic(self) -> Batch:
        """Noise in COCO's most common shape, 4:3, with as many rows as the network scales images to."""
        height, width = self.options.min_size, self.options.min_size * 4 // 3
        return [self._noise(height, width) for _ in range(self.options.batch_size)]

    def _noise(self, height: int, width: int) -> tuple[torch.Tensor, Target]:
        device = self.rank.device
        pixels = torch.randint(256, (3, height, width), dtype=torch.uint8, device=device)
        side = torch.tensor([width, height])
        corner = (torch.rand(OBJECTS, 2) * 0.6 * side).int()
        edges = torch.cat([corner, corner + 1 + ((0.1 + torch.rand(OBJECTS, 2) * 0.2) * side).int()], dim=1)
        masks = torch.zeros(OBJECTS, height, width, dtype=torch.uint8, device=device)
        for mask, (left, top, right, bottom) in zip(masks, edges.tolist(), strict=True):
            mask[top:bottom, left:right] = 1
        labels = torch.randint(1, self.classes + 1, (OBJECTS,), device=device)
        return pixels, {"boxes": edges.float().to(device), "labels": labels, "masks": masks}

    def training_data(self, epoch: int) -> MaskRcnnImages:
        """Images with objects."""
        return MaskRcnnImages(self.training, training=True)

    def evaluation_data(self) -> MaskRcnnImages:
        """All images of val2017."""
        return MaskRcnnImages(self.validation, training=False)

    def evaluate(self, model: nn.Module) -> dict[str, float]:
        """COCO's average precision of boxes and masks over all images of val2017."""
        detections: list[dict[str, Any]] = []
        for batch in self.feed.evaluation(self.evaluation_data()):
            seen = model([pixels.float() / 255 for pixels, _ in batch])
            for (_, image), objects in zip(batch, seen, strict=True):
                detections += self.validation.result(image, objects)
        boxes, masks = average_precision(self.rank, self.validation, detections, ["bbox", "segm"])
        return {"BBOX": boxes, "SEGM": masks}

    def reached(self, quality: dict[str, float], target: float) -> bool:
        """Boxes and masks both have a target."""
        return quality["BBOX"] >= target and quality["SEGM"] >= self.options.mask_target

    def stated(self) -> dict[str, object]:
        """What MLPerf's rules require of this benchmark, and its configuration."""
        options = self.options
        return super().stated() | {
            "opt_base_learning_rate": options.learning_rate,
            "opt_learning_rate_warmup_factor": 1 / options.lr_warmup_steps,
            "opt_learning_rate_warmup_steps": options.lr_warmup_steps,
            "opt_learning_rate_decay_factor": DECAY,
            "opt_learning_rate_decay_steps": self.decay_steps,
            "opt_weight_decay": options.weight_decay,
            "num_image_candidates": options.proposals,
            "min_image_size": options.min_size,
            "max_image_size": options.max_size,
        }


def main() -> None:
    """Parse the command line and train."""
    parser = arguments(__doc__, batch_size=2, learning_rate=0.02, max_epochs=14.0)
    add = parser.add_argument
    add(
        "--mask-target",
        type=float,
        default=0.339,
        help="average precision of masks; --target is that of boxes",
    )
    add("--min-size", type=int, default=800, help="shorter side after scaling, pixels")
    add("--max-size", type=int, default=1333, help="maximum longer side after scaling, pixels")
    add(
        "--blocks",
        type=int,
        nargs=4,
        default=[3, 4, 6, 3],
        help="residual blocks in each stage; default: ResNet-50's",
    )
    add("--width", type=int, default=256, help="channels of the pyramid and the heads")
    add("--proposals", type=int, default=2000, help="proposed regions kept per image")
    add("--regions", type=int, default=512, help="regions sampled per image for classes, boxes, and masks")
    add("--anchors", type=int, default=256, help="anchors sampled per image for the proposals")
    add(
        "--classes",
        type=int,
        default=80,
        help="classes in synthetic images; real images have those of their annotations",
    )
    add("--backbone", type=Path, help="file with torchvision's weights of ResNet-50; default: random")
    add("--weight-decay", type=float, default=1e-4)
    add("--lr-warmup-steps", type=int, default=625, help="steps over which the learning rate ramps up from 0")
    add(
        "--decay-images",
        type=int,
        nargs=2,
        default=[960_000, 1_280_000],
        help="images after which the learning rate drops to a tenth",
    )
    options = parser.parse_args()
    sizes = ("min_size", "width", "proposals", "regions", "anchors", "classes", "lr_warmup_steps")
    if min(*options.blocks, *(getattr(options, name) for name in sizes)) < 1:
        names = ", ".join(f"--{name.replace('_', '-')}" for name in sizes)
        parser.error(f"--blocks, {names} must be at least 1")
    if options.max_size < options.min_size:
        parser.error("--max-size must be at least --min-size")
    train(MaskRcnn, options)


if __name__ == "__main__":
    main()
