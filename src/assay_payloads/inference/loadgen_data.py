"""Finds labeled samples: images with classes, images with boxes, or questions about texts."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from assay_payloads.inference.loadgen_samples import CLASSES, Arrays, Data
from assay_payloads.inference.squad import SQUAD_FILES, questions

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's pixels
SHORT_SIDE = 256 / 224  # short side before the center crop, relative to the crop


def labeled(path: Path, size: int) -> Data:
    """The data set at `path`: a directory of image folders, one per class in name order (like
    torchvision's ImageFolder), an .npz file of `images` and their `labels`, a directory with COCO's
    annotations, or one with SQuAD's questions.

    size  of a sample: height and width of an image, or tokens

    Raises OSError and ValueError, which name the file.
    """
    if (path / "annotations").is_dir():
        from assay_payloads.inference.loadgen_coco import annotated

        return annotated(path, size)
    if any((path / name).exists() for name in SQUAD_FILES):
        return questions(path, size)
    return _folders(path, size) if path.is_dir() else _arrays(path)


def _folders(path: Path, size: int) -> Data:
    from torchvision.datasets import ImageFolder

    try:
        folder = ImageFolder(str(path))
    except FileNotFoundError as error:
        raise ValueError(
            f"{path}: expected a folder of images per class, COCO's `annotations`, or SQuAD's "
            f"{' and '.join(SQUAD_FILES)}: {error}"
        ) from error

    def read(index: int) -> Arrays:
        return (_image(folder.samples[index][0], folder.loader, size),)

    return Data(CLASSES, len(folder.targets), read, partial(share_right, np.array(folder.targets)))


def _image(file: str, decode: Callable[[str], Any], size: int) -> np.ndarray:
    """The center crop of an image whose short side is resized, as in MLPerf's classification."""
    from torchvision.transforms import v2

    steps = [v2.Resize(round(SHORT_SIDE * size)), v2.CenterCrop(size), v2.PILToTensor()]
    try:
        pixels: np.ndarray = v2.Compose(steps)(decode(file)).numpy()
    except (
        OSError,
        SyntaxError,
    ) as error:  # Pillow's errors for a truncated file or one that is not an image
        raise ValueError(f"{file}: can't be decoded: {error}") from error
    scaled = (pixels.transpose(1, 2, 0) / 255 - MEAN) / DEVIATION
    return np.ascontiguousarray(scaled.transpose(2, 0, 1), dtype=np.float32)


def _arrays(path: Path) -> Data:
    if not zipfile.is_zipfile(path):
        path.stat()
        raise ValueError(f"{path}: found neither a directory nor an .npz file")
    with np.load(path) as file:
        missing = [name for name in ("labels", "images") if name not in file]
        if missing:
            raise ValueError(f"{path}: has no {', '.join(missing)}; it has {', '.join(file) or 'nothing'}")
        labels, images = file["labels"].astype(np.int64), file["images"]
    if labels.shape != (len(images),):
        raise ValueError(f"{path}: labels are {labels.shape}, expected one for each of {len(images)} images")
    return Data(CLASSES, len(labels), lambda index: (images[index],), partial(share_right, labels))


def share_right(labels: np.ndarray, answers: Sequence[bytes]) -> float:
    """Share of answers that match the label's class, at most 1: top-1 accuracy."""
    classes = np.stack([np.frombuffer(answer, dtype=np.int64) for answer in answers])
    return float((classes[:, 0] == labels).mean())
