"""Images with boxes for LoadGen: COCO's val2017, or MLPerf's part of OpenImages in the same format.

Samples are numbered in the order of the annotations' images, as MLPerf's own accuracy scripts number them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
from torchvision.transforms.v2 import functional

from assay_payloads.datasets.coco import OPENIMAGES, PLACES, Coco, precision
from assay_payloads.datasets.feed import UNREADABLE, UnreadableSampleError
from assay_payloads.inference.loadgen_detectors import COLUMNS
from assay_payloads.inference.loadgen_samples import BOXES, Arrays, Data


def annotated(directory: Path, size: int) -> Data:
    """Every image of the split, in the order of its annotations, size × size.

    Raises ValueError if the annotations can't be read.
    """
    openimages = (directory / "annotations" / PLACES[OPENIMAGES][0]).exists()
    try:
        coco = Coco(directory, OPENIMAGES if openimages else "val2017", training=False)
    except UnreadableSampleError as error:
        raise ValueError(str(error)) from error
    images = [image["id"] for image in coco.api.dataset["images"]]
    score = partial(mean_precision, coco, images)
    return Data(BOXES, len(images), partial(_read, coco, images, size), score, tuple(coco.categories))


def _read(coco: Coco, images: Sequence[int], size: int, index: int) -> Arrays:
    """One image, resized to the network's input size regardless of its shape, values from 0 to 1."""
    try:
        pixels = functional.resize(coco.read(images[index]), [size, size])
    except UNREADABLE as error:
        raise ValueError(f"{coco.file(images[index])}: can't be decoded: {error}") from error
    return ((pixels.float() / 255).numpy(),)


def mean_precision(coco: Coco, images: Sequence[int], answers: Sequence[bytes]) -> float:
    """COCO's AP (IoU .50 to .95) of logged answers, one for each image.

    Raises ValueError if a box belongs to another image than the one in the query, and if
    no image has an object.
    """
    results = []
    for index, answer in enumerate(answers):
        rows = np.frombuffer(answer, np.float32).reshape(-1, COLUMNS).astype(np.float64)
        if (rows[:, 0] != index).any():
            raise ValueError(f"the answer to sample {index} has boxes of sample {rows[0, 0]:g}")
        image = coco.api.imgs[images[index]]
        rows[:, 1:5] *= [image["height"], image["width"]] * 2
        results += [
            {
                "image_id": images[index],
                "category_id": int(category),
                "bbox": [left, top, right - left, bottom - top],
                "score": score,
            }
            for _, top, left, bottom, right, score, category in rows.tolist()
        ]
    try:
        return precision(coco, results, "bbox")
    except UnreadableSampleError as error:
        raise ValueError(str(error)) from error
