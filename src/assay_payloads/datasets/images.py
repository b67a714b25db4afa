"""Labeled images in ImageNet's layouts: one directory per class, or tar shards in webdataset's layout."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image
from torch.utils.data import Dataset
from torchvision.datasets import ImageFolder
from torchvision.transforms import v2

from assay_payloads.datasets.tar_end import wrong_end
from assay_payloads.measuring.rank import Rank

CLASSES = 1000
# Mean and deviation of ImageNet's training images, from 0 to 255: torchvision's reference.
MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
RESIZED = 256 / 224  # size of an evaluation image before the center crop


def transform(image_size: int, *, training: bool) -> Any:
    """PIL image → uint8 tensor 3×size×size; a quarter of the bytes of floats on the way to the device."""
    if training:
        ways = [v2.RandomResizedCrop(image_size, antialias=True), v2.RandomHorizontalFlip()]
    else:
        ways = [v2.Resize(round(image_size * RESIZED), antialias=True), v2.CenterCrop(image_size)]
    return v2.Compose([*ways, v2.PILToTensor()])


def normalized(images: torch.Tensor) -> torch.Tensor:
    """Pixels 0 to 255 normalized to mean 0 and standard deviation 1, on their device; others unchanged."""
    if images.dtype != torch.uint8:
        return images
    mean, std = (torch.tensor(x, device=images.device).view(1, 3, 1, 1) for x in (MEAN, STD))
    return (images - mean) / std


def image_set(rank: Rank, directory: Path, image_size: int, *, training: bool) -> Any:
    """The images below a directory, whichever of the two layouts it has."""
    if not directory.is_dir():
        rank.fail(f"{directory} is missing: expected train/ and val/ in the directory that --data names")
    ways = transform(image_size, training=training)
    shards = sorted(directory.glob("*.tar"))
    try:
        return TarShards(shards, ways) if shards else Folder(directory, ways)
    except FileNotFoundError as error:
        rank.fail(f"{directory}: {error}")
    except (tarfile.TarError, ValueError) as error:
        rank.fail(str(error))


class Folder(ImageFolder):
    """One directory per class, named after it."""

    def location(self, index: int) -> str:
        """The image's file."""
        return str(self.samples[index][0])

    def stored_bytes(self, index: int) -> int:
        """Size of the image's file."""
        return Path(self.samples[index][0]).stat().st_size


class StoredImage(NamedTuple):
    """Location of an image: shard, offset, and size in bytes; and its class."""

    shard: int
    key: str
    begin: int
    size: int
    label: int


class TarShards(Dataset):
    """Tar files of `key.jpg` (or .jpeg, .png, .webp) and `key.cls`, the number of its class.

    The tables of contents are read once; images are then read by location, in any order.
    """

    def __init__(self, shards: Sequence[Path], transform: Any) -> None:
        self.shards, self.transform = shards, transform
        self.stored = [image for number, path in enumerate(shards) for image in _contents(number, path)]
        self.classes = sorted({image.label for image in self.stored})
        if self.classes != list(range(len(self.classes))):
            missing = sorted(set(range(max(self.classes))) - set(self.classes))
            raise ValueError(f"{shards[0].parent}: no image of class {missing[:5]} in {len(shards)} shards")

    def __len__(self) -> int:
        return len(self.stored)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        stored = self.stored[index]
        data = os.pread(_opened(self.shards[stored.shard]), stored.size, stored.begin)
        return self.transform(Image.open(io.BytesIO(data)).convert("RGB")), stored.label

    def location(self, index: int) -> str:
        """The image's shard and key."""
        return f"{self.shards[self.stored[index].shard]}: {self.stored[index].key}"

    def stored_bytes(self, index: int) -> int:
        """Size of the image in its shard."""
        return self.stored[index].size


@cache
def _opened(path: Path) -> int:
    """A descriptor for the life of the process; reading by offset, processes can share it."""
    return os.open(path, os.O_RDONLY)


def _contents(number: int, path: Path) -> list[StoredImage]:
    """The images of a shard, in order. Raises ValueError or TarError, which name the shard."""
    places: dict[str, tuple[int, int]] = {}
    labels: dict[str, int] = {}
    try:
        with tarfile.open(path, "r:") as shard:
            for member in shard:
                key, _, kind = member.name.rpartition(".")
                if kind in ("jpg", "jpeg", "png", "webp"):
                    places[key] = member.offset_data, member.size
                elif kind == "cls":
                    text = shard.extractfile(member)
                    labels[key] = int(text.read()) if text is not None else -1
            with path.open("rb") as file:
                end = wrong_end(file, shard.offset)
    except (tarfile.TarError, ValueError) as error:
        raise ValueError(f"{path} can't be read: {error}") from error
    if end:
        raise ValueError(f"{path} can't be read: {end}")
    if places.keys() != labels.keys() or not places:
        lone = sorted(places.keys() ^ labels.keys())
        raise ValueError(f"{path}: {len(places)} images, {len(labels)} classes; unpaired: {lone[:5]}")
    return [StoredImage(number, key, *place, labels[key]) for key, place in places.items()]
