"""Labelled samples: a directory with a folder for each class, or the arrays of an .npz file."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pixels
SHORT_SIDE = 256 / 224  # of an image before its middle is cut out, in sizes of the cut


@dataclass(frozen=True)
class Data:
    """Samples in a fixed order.

    labels  N classes, or N pairs of first and last token of an answer
    read    a sample's arrays by its index and the size of an image; raises ValueError with the file's name
    """

    labels: np.ndarray
    read: Callable[[int, int], Arrays]


def labelled(path: Path, inputs: Sequence[str]) -> Data:
    """What lies at `path`: a directory of folders of images, one a class in the order of their names (as
    torchvision's ImageFolder), or an .npz file with `labels` and the model's inputs by name.

    Raises OSError and ValueError, which name the file.
    """
    return _folders(path) if path.is_dir() else _arrays(path, inputs)


def _folders(path: Path) -> Data:
    from torchvision.datasets import ImageFolder

    try:
        folder = ImageFolder(str(path))
    except FileNotFoundError as error:
        raise ValueError(f"{path}: expected a folder of images for each class: {error}") from error

    def read(index: int, size: int) -> Arrays:
        return (_image(folder.samples[index][0], folder.loader, size),)

    return Data(np.array(folder.targets), read)


def _image(file: str, decode: Callable[[str], Any], size: int) -> np.ndarray:
    """The middle of an image whose short side is resized, as MLPerf's classification takes it."""
    from torchvision.transforms import v2

    steps = [v2.Resize(round(SHORT_SIDE * size)), v2.CenterCrop(size), v2.PILToTensor()]
    try:
        pixels: np.ndarray = v2.Compose(steps)(decode(file)).numpy()
    except (OSError, SyntaxError) as error:  # Pillow's, of a file that is cut or no image
        raise ValueError(f"{file}: can't be decoded: {error}") from error
    scaled = (pixels.transpose(1, 2, 0) / 255 - MEAN) / DEVIATION
    return np.ascontiguousarray(scaled.transpose(2, 0, 1), dtype=np.float32)


def _arrays(path: Path, inputs: Sequence[str]) -> Data:
    if not zipfile.is_zipfile(path):
        path.stat()
        raise ValueError(f"{path}: found neither a directory nor an .npz file")
    with np.load(path) as file:
        missing = [name for name in ("labels", *inputs) if name not in file]
        if missing:
            raise ValueError(f"{path}: has no {', '.join(missing)}; it holds {', '.join(file) or 'nothing'}")
        labels, arrays = file["labels"].astype(np.int64), [file[name] for name in inputs]
    counts = {name: len(array) for name, array in zip(inputs, arrays, strict=True)}
    if any(count != len(labels) for count in counts.values()):
        raise ValueError(f"{path}: {len(labels)} labels, and samples: {counts}")

    def read(index: int, _size: int) -> Arrays:
        return tuple(array[index] for array in arrays)

    return Data(labels, read)
