"""Microsoft COCO in its usual layout, for the programs that detect objects in images.

    DIR/annotations/instances_train2017.json    DIR/train2017/000000000009.jpg …
    DIR/annotations/instances_val2017.json      DIR/val2017/000000000139.jpg …
    DIR/annotations/openimages-mlperf.json      DIR/validation/data/0001eeaf4aed83f9.jpg …

The last one is MLPerf Inference's part of OpenImages, in the same format.

Classes are numbered from 1 in the order of their category IDs; 0 is the background. Errors in the data raise
an UnreadableSampleError that names the file.
"""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from PIL import Image
from pycocotools import mask as rle
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from torch import nn
from torch.utils.data import Dataset
from torchvision.transforms.functional import pil_to_tensor

from assay_payloads.datasets.feed import UnreadableSampleError
from assay_payloads.measuring.rank import Rank

Target = dict[str, torch.Tensor]
OPENIMAGES = "openimages-mlperf"
# Paths of a split's annotations and images; all others are named like COCO's.
PLACES = {OPENIMAGES: ("openimages-mlperf.json", "validation/data")}


class Coco:
    """One split, with checked annotations; images are read on demand.

    ids  images with an object to train on, or all images for evaluation; in the order of their IDs
    """

    def __init__(self, directory: Path, split: str, *, training: bool) -> None:
        annotations, images = PLACES.get(split, (f"instances_{split}.json", split))
        self.path, self.images = directory / "annotations" / annotations, directory / images
        try:
            with contextlib.redirect_stdout(sys.stderr):  # it prints messages while loading
                self.api = COCO(str(self.path))
        except (OSError, ValueError, KeyError, AssertionError, TypeError) as error:
            raise UnreadableSampleError(
                f"{self.path} can't be read as COCO's annotations: {error!r}"
            ) from error
        names = {category["id"]: category["name"] for category in self.api.dataset.get("categories", ())}
        self.categories = sorted(names)
        self.names = [names[category] for category in self.categories]
        self._labels = {category: label for label, category in enumerate(self.categories, start=1)}
        self.flat_boxes = self._check()
        self.ids = sorted(self.api.imgs)
        if training:
            self.ids = [image for image in self.ids if self.objects(image)]
            self._check_classes()

    def _check(self) -> int:
        """Check that every annotation has an image, class, and box; returns how many boxes have no area."""
        if not self.categories or not self.api.imgs:
            raise UnreadableSampleError(
                f"{self.path}: found no categories or no images; COCO annotations have both"
            )
        flat = 0
        for annotation in self.api.dataset.get("annotations", ()):
            where = f"{self.path}: annotation {annotation.get('id')}"
            if annotation.get("category_id") not in self._labels:
                category = annotation.get("category_id")
                raise UnreadableSampleError(
                    f"{where}: category_id {category} is not one of its {len(self.names)} categories"
                )
            if annotation.get("image_id") not in self.api.imgs:
                raise UnreadableSampleError(
                    f"{where}: image_id {annotation.get('image_id')} is not one of its images"
                )
            box = annotation.get("bbox")
            if not (isinstance(box, list) and len(box) == 4 and all(isinstance(n, int | float) for n in box)):
                raise UnreadableSampleError(
                    f"{where}: bbox is {box!r}; expected [x, y, width, height] in pixels"
                )
            flat += min(box[2:]) <= 0
        return flat

    def _check_classes(self) -> None:
        seen = {box["category_id"] for image in self.ids for box in self.objects(image)}
        empty = [name for name, id_ in zip(self.names, self.categories, strict=True) if id_ not in seen]
        if empty:
            raise UnreadableSampleError(
                f"{self.path}: no box of class {', '.join(empty)}: the class can't be learned"
            )

    def objects(self, image: int) -> list[dict[str, Any]]:
        """Annotations of an image to learn from: single objects with some area."""
        return [
            annotation
            for annotation in self.api.imgToAnns[image]
            if not annotation.get("iscrowd") and min(annotation["bbox"][2:]) > 0
        ]

    def file(self, image: int) -> Path:
        """The file of its pixels."""
        return self.images / str(self.api.imgs[image]["file_name"])

    def read(self, image: int) -> torch.Tensor:
        """Its pixels: uint8, 3 × height × width."""
        with Image.open(self.file(image)) as picture:
            return pil_to_tensor(picture.convert("RGB"))

    def target(self, image: int, *, masks: bool = False) -> Target:
        """Its objects: boxes (float, n × 4, corners in pixels), labels (from 1), masks (uint8, n × H × W)."""
        size = self.api.imgs[image]
        limits = torch.tensor([size["width"], size["height"]] * 2)
        objects = self.objects(image)
        boxes = torch.tensor([box["bbox"] for box in objects], dtype=torch.float32).reshape(-1, 4)
        boxes[:, 2:] += boxes[:, :2]
        target = {
            "boxes": boxes.clamp(min=0).minimum(limits),
            "labels": torch.tensor([self._labels[box["category_id"]] for box in objects]),
        }
        if masks:
            target["masks"] = torch.stack([torch.from_numpy(self.api.annToMask(box)) for box in objects])
        return target

    def result(self, image: int, detections: Target) -> Iterator[dict[str, Any]]:
        """What a torchvision model found in an image, in COCO's result format."""
        boxes = detections["boxes"].cpu()
        corners = torch.cat([boxes[:, :2], boxes[:, 2:] - boxes[:, :2]], dim=1).tolist()
        labels, scores = detections["labels"].tolist(), detections["scores"].tolist()
        for index, (label, score, box) in enumerate(zip(labels, scores, corners, strict=True)):
            entry = {
                "image_id": image,
                "category_id": self.categories[label - 1],
                "bbox": box,
                "score": score,
            }
            if "masks" in detections:
                mask = (detections["masks"][index, 0] > 0.5).to(torch.uint8).cpu().numpy()
                entry["segmentation"] = rle.encode(mask.copy(order="F"))
            yield entry


class CocoImages(Dataset):
    """The reader of a split's images, with their files in the form that feed.py needs."""

    def __init__(self, coco: Coco, *, training: bool) -> None:
        self.coco, self.training = coco, training

    def __len__(self) -> int:
        return len(self.coco.ids)

    def location(self, index: int) -> Path:
        return self.coco.file(self.coco.ids[index])

    def stored_bytes(self, index: int) -> int:
        return self.location(index).stat().st_size


def load_weights(trunk: nn.Module, path: Path) -> None:
    """Load a network's weights from a file in torchvision's classifier format; all must match."""
    try:
        trunk.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except (OSError, RuntimeError, pickle.UnpicklingError, TypeError) as error:
        what = str(error).splitlines()[0]
        raise UnreadableSampleError(
            f"{path} does not contain this network's weights with torchvision's names: {what}"
        ) from error


def average_precision(
    rank: Rank, coco: Coco, detections: Sequence[dict[str, Any]], kinds: Sequence[str]
) -> list[float]:
    """COCO's AP (IoU .50 to .95) of each kind, `bbox` or `segm`, from what every rank found in its images.

    Source: pycocotools, which defines it. The first rank computes it, and all ranks get the figures.
    """
    gathered: list[Sequence[dict[str, Any]]] = [detections]
    if rank.size > 1:
        gathered = [[] for _ in range(rank.size)]
        dist.gather_object(detections, gathered if rank.rank == 0 else None)
    figures = [0.0] * len(kinds)
    results = [entry for part in gathered for entry in part]
    if rank.rank == 0:
        figures = [precision(coco, results, kind) for kind in kinds]
    return rank.over_ranks(figures, "SUM")


def precision(coco: Coco, results: list[dict[str, Any]], kind: str) -> float:
    """COCO's AP (IoU .50 to .95) of results in its form, over all images of the split; `bbox` or `segm`."""
    if not results:  # a model that finds nothing; pycocotools can't read an empty list
        return 0.0
    with contextlib.redirect_stdout(sys.stderr):
        evaluation = COCOeval(coco.api, coco.api.loadRes(results), kind)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    figure = float(evaluation.stats[0])
    if figure < 0:  # pycocotools' value if there is nothing to find
        raise UnreadableSampleError(f"{coco.path}: no object of any class: can't compute a precision")
    return figure
