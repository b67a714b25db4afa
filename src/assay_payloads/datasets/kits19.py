"""KiTS19 as MLPerf preprocesses it: volumes of kidneys and tumors, and random patches of them.

A directory contains case_00000_x.npy (1 × depth × height × width, float) and case_00000_y.npy (the same
shape, integers: 0 background, 1 kidney, 2 tumor). The cases in EVALUATED are for evaluation, all others for
training. Errors in the data raise an UnreadableSampleError that names the file.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from assay_payloads.datasets.feed import UnreadableSampleError

CLASSES = 3  # background, kidney, tumor
Array: TypeAlias = np.ndarray[Any, Any]
# mlcommons/training, image_segmentation/pytorch/evaluation_cases.txt
EVALUATED = frozenset(
    (
        *(
            0,
            3,
            5,
            6,
            12,
            24,
            34,
            41,
            44,
            49,
            52,
            56,
            61,
            65,
            66,
            70,
            76,
            78,
            80,
            84,
            86,
            87,
            92,
            111,
            112,
            125,
        ),
        *(128, 138, 157, 160, 161, 162, 169, 171, 176, 185, 187, 189, 198, 203, 206, 207),
    )
)


class Cases:
    """Pairs of an image and its labels in a directory, with checked headers."""

    def __init__(self, directory: Path, *, evaluated: bool) -> None:
        self.directory = directory
        images, labels = ({path.name[:-6] for path in directory.glob(f"case_*_{kind}.npy")} for kind in "xy")
        for name in sorted(images ^ labels):
            missing = directory / f"{name}_{'x' if name in labels else 'y'}.npy"
            raise UnreadableSampleError(f"{missing} is missing, but the other file of its pair exists")
        those = {f"case_{number:05}" for number in EVALUATED}
        self.names = sorted(images & those if evaluated else images - those)
        if not self.names:
            kind = "to evaluate" if evaluated else "to train on"
            raise UnreadableSampleError(
                f"{directory} has no case {kind}; expected files like case_00000_x.npy"
            )
        for index in range(len(self)):
            self._check(index)

    def __len__(self) -> int:
        return len(self.names)

    def paths(self, index: int) -> tuple[Path, Path]:
        """Image and labels of a case."""
        name = self.names[index]
        return self.directory / f"{name}_x.npy", self.directory / f"{name}_y.npy"

    def location(self, index: int) -> str:
        """The files of a case, for messages."""
        return str(self.paths(index)[0])

    def stored_bytes(self, index: int) -> int:
        """Bytes of both files: they are read whole, as in MLPerf's reference."""
        return sum(path.stat().st_size for path in self.paths(index))

    def shape(self, index: int) -> tuple[int, ...]:
        """Shape of the volume: depth, height, width."""
        return load(self.paths(index)[0], mmap_mode="r").shape[1:]

    def pair(self, index: int) -> tuple[Array, Array]:
        """Image and labels, 1 × depth × height × width."""
        image, labels = (load(path) for path in self.paths(index))
        if labels.min() < 0 or labels.max() >= CLASSES:
            worst = labels.max() if labels.max() >= CLASSES else labels.min()
            raise UnreadableSampleError(
                f"{self.paths(index)[1]} has the label {worst}; expected 0 to {CLASSES - 1}"
            )
        return image.astype(np.float32, copy=False), labels.astype(np.uint8, copy=False)

    def _check(self, index: int) -> None:
        where, beside = self.paths(index)
        image, labels = (load(path, mmap_mode="r").shape for path in (where, beside))
        if len(image) != 4 or image[0] != 1:
            raise UnreadableSampleError(f"{where} has the shape {image}; expected 1 × depth × height × width")
        if image != labels:
            raise UnreadableSampleError(f"{where} has the shape {image}, but {beside.name} {labels}")


def load(path: Path, mmap_mode: Literal["r"] | None = None) -> Array:
    """The contents of an .npy file. Raises UnreadableSampleError, which names it."""
    try:
        array: Array = np.load(path, mmap_mode=mmap_mode)
    except (OSError, ValueError, EOFError) as error:
        raise UnreadableSampleError(f"{path} can't be read as .npy: {error}") from error
    return array


class Patches(Cases):
    """A random patch of each training case: its location, its flips, its brightness.

    oversampling  share of patches that must contain kidney or tumor
    """

    def __init__(self, directory: Path, size: int, oversampling: float) -> None:
        super().__init__(directory, evaluated=False)
        self.size, self.oversampling = size, oversampling
        for index in range(len(self)):
            if min(self.shape(index)) < size:
                raise UnreadableSampleError(
                    f"{self.location(index)} is smaller than a patch: {self.shape(index)} voxels, and "
                    f"--patch-size is {size}; preprocessing pads to 128"
                )

    def __getitem__(self, index: int) -> tuple[Array, Array]:
        image, labels = self.pair(index)
        chance = np.random.default_rng(random.getrandbits(64))
        around = self._foreground(index, labels[0], chance) if chance.random() < self.oversampling else None
        corner = self._corner(labels.shape[1:], around, chance)
        cut = (slice(None), *(slice(low, low + self.size) for low in corner))
        image, labels = image[cut], labels[cut]
        axes = tuple(axis for axis in (1, 2, 3) if chance.random() < 1 / 3)
        image, labels = np.flip(image, axes), np.flip(labels, axes)
        if chance.random() < 0.1:  # by a factor of 1.7 to 2.3, not 0.7 to 1.3: as in MLPerf's reference
            image = image * np.float32(1 + chance.uniform(0.7, 1.3))
        if chance.random() < 0.1:
            image = image + chance.normal(0, chance.uniform(0, 0.1), image.shape).astype(np.float32)
        return np.ascontiguousarray(image), np.ascontiguousarray(labels)

    def _foreground(self, index: int, labels: Array, chance: np.random.Generator) -> tuple[int, ...]:
        """A voxel of kidney or tumor, whichever of the two is drawn."""
        present = [label for label in range(1, CLASSES) if (labels == label).any()]
        if not present:
            raise UnreadableSampleError(
                f"{self.paths(index)[1]} has neither kidney nor tumor: all its labels are 0"
            )
        voxels = np.flatnonzero(labels == chance.choice(present))
        return tuple(int(place) for place in np.unravel_index(chance.choice(voxels), labels.shape))

    def _corner(
        self, shape: tuple[int, ...], around: tuple[int, ...] | None, chance: np.random.Generator
    ) -> list[int]:
        """The first voxel of a patch within the volume that contains the voxel `around`."""
        lows, highs = [0] * len(shape), [extent - self.size for extent in shape]
        if around is not None:
            lows = [max(low, place - self.size + 1) for low, place in zip(lows, around, strict=True)]
            highs = [min(high, place) for high, place in zip(highs, around, strict=True)]
        return [int(chance.integers(low, high + 1)) for low, high in zip(lows, highs, strict=True)]
