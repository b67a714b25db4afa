"""SSD with a ResNet-34 on COCO: MLPerf's lightweight detection benchmark of v0.5 to v1.1.

    python -m assay_payloads.training.ssd --image-size 64 --blocks 1 1 1 --batch-size 4 --steps 5
    torchrun --nproc-per-node 8 -m assay_payloads.training.ssd --mode real --data /data/coco \\
        --backbone resnet34.pth --batch-size 120

The network is that of ssd_network.py. Only small configurations have images of less than 300 pixels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn
from torchvision import tv_tensors
from torchvision.transforms import v2

from assay_payloads.datasets.coco import Coco, CocoImages, Target, average_precision
from assay_payloads.training.detection import ObjectDetection
from assay_payloads.training.ssd_network import SsdNetwork, detector, mlperf_tensors
from assay_payloads.training.training import arguments, train

OBJECTS = 7  # per synthetic image; COCO's have 7.3 on average
Batch = tuple[torch.Tensor, list[Target]]


class SsdImages(CocoImages):  # type: ignore[misc]
    """Images of one size (uint8, 3 × S × S) with their objects, in pixels of that size.

    For training, they are changed at random as in MLPerf's reference: cropped, mirrored, recolored. For
    evaluation, they are scaled, and have their number and their true size in pixels.
    """

    def __init__(self, coco: Coco, image_size: int, *, training: bool) -> None:
        super().__init__(coco, training=training)
        scale = v2.Resize((image_size, image_size))
        color = v2.ColorJitter(brightness=0.125, contrast=0.5, saturation=0.5, hue=0.05)
        changes = (v2.RandomIoUCrop(trials=1), scale, v2.RandomHorizontalFlip(), color)
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


class Ssd(ObjectDetection):
    """The data for training and evaluation."""

    name, round = "ssd", "v1.1"
    collate = staticmethod(collate)

    def model(self) -> SsdNetwork:
        """The detector, on the CPU."""
        model = detector(self.options, self.classes)
        if self.options.mode == "real" and self.rank.rank == 0:
            for name in mlperf_tensors(model):
                self.rank.log("weights_initialization", tensor=name)
        return model

    def learning_rate(self, step: int) -> float:
        """Rises over the first steps, then drops to a tenth at each of two epochs."""
        rising = min(1.0, (step + 1) / max(1, self.options.lr_warmup_steps))
        epoch = step / self.steps_per_epoch if self.options.mode == "real" else 0.0
        fallen: float = 0.1 ** sum(epoch >= decay_epoch for decay_epoch in self.options.decay_epochs)
        return float(self.options.learning_rate) * rising * fallen

    def loss(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Mean loss over the images."""
        images, targets = batch
        losses = model(list(images.float() / 255), targets)
        return torch.stack(list(losses.values())).sum()

    def synthetic(self) -> Batch:
        """Noise with as many objects as COCO's images."""
        size, device, batch = self.options.image_size, self.rank.device, self.options.batch_size
        images = torch.randint(256, (batch, 3, size, size), dtype=torch.uint8, device=device)
        corner = torch.rand(batch, OBJECTS, 2, device=device) * 0.6
        boxes = torch.cat([corner, corner + 0.1 + torch.rand_like(corner) * 0.3], dim=2) * size
        labels = torch.randint(1, self.classes + 1, (batch, OBJECTS), device=device)
        return images, [{"boxes": b, "labels": n} for b, n in zip(boxes, labels, strict=True)]

    def training_data(self, epoch: int) -> SsdImages:
        """Images with objects."""
        return SsdImages(self.training, self.options.image_size, training=True)

    def evaluation_data(self) -> SsdImages:
        """All images of val2017."""
        return SsdImages(self.validation, self.options.image_size, training=False)

    def evaluate(self, model: nn.Module) -> float:
        """COCO's average precision of boxes over all images of val2017."""
        detections: list[dict[str, Any]] = []
        for images, about in self.feed.evaluation(self.evaluation_data()):
            for seen, image in zip(model(list(images.float() / 255)), about, strict=True):
                seen["boxes"] *= image["size"].repeat(2) / self.options.image_size
                detections += self.validation.result(int(image["image"]), seen)
        return average_precision(self.rank, self.validation, detections, ["bbox"])[0]

    def stated(self) -> dict[str, object]:
        """What MLPerf's rules require of this benchmark, and its configuration."""
        options = self.options
        return super().stated() | {
            "opt_base_learning_rate": options.learning_rate,
            "opt_learning_rate_warmup_factor": 0,
            "opt_learning_rate_warmup_steps": options.lr_warmup_steps,
            "opt_learning_rate_decay_boundary_epochs": options.decay_epochs,
            "opt_weight_decay": options.weight_decay,
            "model_bn_span": options.batch_size,
            "max_samples": 1,  # tries of a crop before another kind is drawn
            "image_size": options.image_size,
        }


def main() -> None:
    """Parse the command line and train."""
    parser = arguments(__doc__, batch_size=32, learning_rate=2.5e-3, max_epochs=80.0, eval_every=5.0)
    add = parser.add_argument
    add("--image-size", type=int, default=300, help="height and width in pixels, 32 or more")
    add(
        "--blocks",
        type=int,
        nargs=3,
        default=[3, 4, 6],
        help="residual blocks in each stage; default: ResNet-34's",
    )
    add(
        "--classes",
        type=int,
        default=80,
        help="classes in synthetic images; real images have those of their annotations",
    )
    add("--backbone", type=Path, help="file with torchvision's weights of ResNet-34; default: random")
    add("--weight-decay", type=float, default=1.6e-4)
    add("--lr-warmup-steps", type=int, default=650, help="steps over which the learning rate ramps up from 0")
    add(
        "--decay-epochs",
        type=int,
        nargs=2,
        default=[40, 50],
        help="epochs after which the learning rate drops to a tenth",
    )
    options = parser.parse_args()
    if (
        options.image_size < 32
        or min(options.blocks) < 1
        or options.classes < 1
        or options.lr_warmup_steps < 1
    ):
        parser.error(
            "--image-size must be at least 32; --blocks, --classes, and --lr-warmup-steps at least 1"
        )
    train(Ssd, options)


if __name__ == "__main__":
    main()
