"""Labelled samples: a folder of images for each class, arrays of an .npz file, or images with boxes."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

Arrays = tuple[np.ndarray, ...]
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pixels
SHORT_SIDE = 256 / 224  # of an image before its middle is cut out, in sizes of the cut


@dataclass(frozen=True)
class Data:
    """Samples in a fixed order.

    read        a sample's arrays by its index and the size of an image; a ValueError names its file
    score       what answers are worth, at most 1: one to each sample, as LoadGen's accuracy log keeps them
    categories  ids of what boxes can hold; () of samples without boxes
    """

    count: int
    read: Callable[[int, int], Arrays]
    score: Callable[[Sequence[bytes]], float]
    categories: tuple[int, ...] = ()


def labelled(path: Path, inputs: Sequence[str]) -> Data:
    """What lies at `path`: a directory of folders of images, one a class in the order of their names (as
    torchvision's ImageFolder), an .npz file with `labels` and the model's inputs by name, or a directory with
    COCO's annotations.

    Raises OSError and ValueError, which name the file.
    """
    if (path / "annotations").is_dir():
        from loadgen_coco import annotated

        return annotated(path)
    return _folders(path) if path.is_dir() else _arrays(path, inputs)


def _folders(path: Path) -> Data:
    from torchvision.datasets import ImageFolder

    try:
        folder = ImageFolder(str(path))
    except FileNotFoundError as error:
        raise ValueError(f"{path}: expected a folder of images for each class: {error}") from error

    def read(index: int, size: int) -> Arrays:
        return (_image(folder.samples[index][0], folder.loader, size),)

    return Data(len(folder.targets), read, partial(share_right, np.array(folder.targets)))


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

    return Data(len(labels), read, partial(share_right, labels))


def share_right(labels: np.ndarray, answers: Sequence[bytes]) -> float:
    """Share of 1 that the answers are right.

    labels  N classes: top-1 accuracy; or N pairs of first and last token: mean F1 of the tokens answered
    """
    given = np.stack([np.frombuffer(answer, dtype=np.int64) for answer in answers])
    if labels.ndim == 1:
        return float((given[:, 0] == labels).mean())
    return float(np.mean([_overlap(answer, label) for answer, label in zip(given, labels, strict=True)]))


def _overlap(answer: np.ndarray, label: np.ndarray) -> float:
    """F1 of the tokens from first to last; an answer that ends before it begins has none.

    Source: SQuAD's evaluation, on tokens of the vocabulary instead of words.
    """
    common = min(answer[1], label[1]) - max(answer[0], label[0]) + 1
    if common <= 0:
        return 0.0
    return float(2 * common / (answer[1] - answer[0] + 1 + label[1] - label[0] + 1))
