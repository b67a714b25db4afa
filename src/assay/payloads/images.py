"""Images of classes, as ImageNet is kept: a directory a class, or tar shards in webdataset's layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from rank import Rank

CLASSES = 1000
# Of ImageNet's training images, on the scale 0 to 255: torchvision's reference.
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
RESIZED = 256 / 224  # the evaluation's image before its centre is cut out


def transform(image_size: int, *, training: bool) -> Any:
    """PIL image → uint8 tensor 3×size×size; a quarter of the bytes of floats on the way to the device."""
    if training:
        ways = [v2.RandomResizedCrop(image_size, antialias=True), v2.RandomHorizontalFlip()]
    else:
        ways = [v2.Resize(round(image_size * RESIZED), antialias=True), v2.CenterCrop(image_size)]
    return v2.Compose([*ways, v2.PILToTensor()])


def normalised(images: torch.Tensor) -> torch.Tensor:
    """Pixels 0 to 255 with mean 0 and standard deviation 1, on their device; others as they are."""
    if images.dtype != torch.uint8:
        return images
    mean, std = (torch.tensor(x, device=images.device).view(1, 3, 1, 1) for x in (MEAN, STD))
    return (images - mean) / std


def image_set(rank: Rank, directory: Path, image_size: int, *, training: bool) -> Any:
    """The images below a directory, whichever of the two layouts it has."""
    if not directory.is_dir():
        rank.fail(f"{directory} is missing: expected train/ and val/ in the directory that --data names")
    try:
        return Folder(directory, transform(image_size, training=training))
    except FileNotFoundError as error:
        rank.fail(f"{directory}: {error}")


class Folder(ImageFolder):
    """A directory a class, its name the class."""

    def where(self, index: int) -> str:
        """The image's file."""
        return str(self.samples[index][0])

    def stored_bytes(self, index: int) -> int:
        """Size of the image's file."""
        return Path(self.samples[index][0]).stat().st_size
