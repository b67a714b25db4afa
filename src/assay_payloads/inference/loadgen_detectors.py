"""torchvision's detection models split in two: a network of tensors only, and the selection of its boxes.

The network ends with the same number of candidates for every image, best first of each kind, so that it runs
in batches and exports to ONNX like any other. Whatever depends on the image, thresholds and non-maximum
suppression, comes after it and is the same code for every backend. The detections are torchvision's own.

With random weights, the choice of candidates is random: SSDLite then gives every box the same score, and each
backend breaks ties in its own way. With trained weights, both find the same.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torchvision.models.detection.image_list import ImageList
from torchvision.ops import batched_nms

CORNERS, COLUMNS = 4, 7


class Anchors(nn.Module):
    """Corners of the boxes that a model starts from, A×4, in pixels.

    They stay fp32 when the model is converted to fp16 or bf16, whose steps at 800 are 0.5 and 4 pixels.
    """

    def __init__(self, corners: Tensor) -> None:
        super().__init__()
        self.corners = corners

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> nn.Module:
        self.corners = self.corners.to(fn(self.corners).device)
        return self


class Detector(nn.Module):
    """A detection model for images of size × size pixels, values from 0 to 1.

    levels  default boxes of each feature map
    """

    def __init__(self, model: Any, size: int) -> None:
        super().__init__()
        self.model, self.size = model, size
        self.register_buffer(
            "mean", torch.tensor(model.transform.image_mean)[:, None, None], persistent=False
        )
        self.register_buffer(
            "deviation", torch.tensor(model.transform.image_std)[:, None, None], persistent=False
        )
        sides = _map_sides(model, size)
        maps = [torch.empty(1, 1, height, width) for height, width in sides]
        images = ImageList(torch.empty(1, 3, size, size), [(size, size)])
        self.anchors = Anchors(model.anchor_generator(images, maps)[0])
        each = model.anchor_generator.num_anchors_per_location()
        self.levels = [height * width * boxes for (height, width), boxes in zip(sides, each, strict=True)]

    def forward(self, images: Tensor) -> Tensor:
        """Candidates, batch × K × 6: x1, y1, x2, y2 in pixels, score, label."""
        maps = list(self.model.backbone((images - self.mean) / self.deviation).values())
        outputs = self.model.head(maps)
        return self.candidates(outputs["cls_logits"].float(), outputs["bbox_regression"].float())

    def candidates(self, logits: Tensor, codes: Tensor) -> Tensor:
        """The best of all default boxes and labels.

        logits  batch × A × classes
        codes   batch × A × 4: how to move each default box
        """
        raise NotImplementedError

    def _corners(self, codes: Tensor, anchors: Tensor) -> Tensor:
        """Boxes within the image, batch × k × 4, from their codes and the default boxes that they move."""
        flat = self.model.box_coder.decode_single(codes.reshape(-1, CORNERS), anchors.reshape(-1, CORNERS))
        return flat.reshape(codes.shape).clamp(0, self.size)

    def boxes(self, candidates: Tensor) -> list[np.ndarray]:
        """The objects of each image, n × 6: ymin, xmin, ymax, xmax as shares of its sides, score, label."""
        return [self._sorted_out(rows).cpu().numpy() for rows in candidates]

    def _sorted_out(self, rows: Tensor) -> Tensor:
        rows = rows[rows[:, 4] > self.model.score_thresh]
        kept = batched_nms(rows[:, :CORNERS], rows[:, 4], rows[:, 5], self.model.nms_thresh)
        rows = rows[kept[: self.model.detections_per_img]]
        return torch.cat([rows[:, [1, 0, 3, 2]] / self.size, rows[:, CORNERS:]], dim=1)


class SsdDetector(Detector):
    """The best boxes of each class; class 0 is the background."""

    def candidates(self, logits: Tensor, codes: Tensor) -> Tensor:
        scores = logits.softmax(-1)[..., 1:].transpose(1, 2)  # batch × classes × A
        best, places = scores.topk(min(self.model.topk_candidates, scores.shape[-1]))
        anchors = self.anchors.corners.expand(codes.shape)
        corners = _taken(self._corners(codes, anchors), places.flatten(1))
        labels = torch.arange(1, logits.shape[-1], device=places.device)[None, :, None].expand(places.shape)
        columns = (best.flatten(1)[..., None], labels.flatten(1)[..., None].to(best.dtype))
        return torch.cat([corners, *columns], dim=2)


class RetinaNetDetector(Detector):
    """The best pairs of box and class of each feature map; there is no background.

    Such a pair's box is among the same number of boxes with the best class scores. Those are searched first:
    they are fewer than the pairs by the number of classes, and sorting all pairs would take as long as the
    network.
    """

    def candidates(self, logits: Tensor, codes: Tensor) -> Tensor:
        anchors = self.anchors.corners.expand(codes.shape)
        parts = zip(*(every.split(self.levels, 1) for every in (logits, codes, anchors)), strict=True)
        return torch.cat([self._level(*part) for part in parts], dim=1)

    def _level(self, logits: Tensor, codes: Tensor, anchors: Tensor) -> Tensor:
        classes, most = logits.shape[-1], self.model.topk_candidates
        boxes = logits.amax(-1).topk(min(most, logits.shape[1])).indices
        pairs = _taken(logits, boxes).flatten(1)
        best, places = pairs.topk(min(most, pairs.shape[1]))
        boxes = boxes.gather(1, places.div(classes, rounding_mode="floor"))
        corners = self._corners(_taken(codes, boxes), _taken(anchors, boxes))
        return torch.cat(
            [corners, best.sigmoid()[..., None], (places % classes)[..., None].to(best.dtype)], dim=2
        )


def logged(boxes: np.ndarray, index: int, numbered: Sequence[int]) -> np.ndarray:
    """An answer in the form that MLPerf's accuracy scripts read, n × 7 floats (32 bits): sample, four shares,
    score, category.

    boxes     n × 6 from `Detector.boxes`
    index     of the sample
    numbered  IDs of the categories if labels are their numbers from 1; () if labels are IDs

    Source: mlcommons/inference, vision/classification_and_detection/tools/accuracy-coco.py.
    """
    rows = np.column_stack([np.full(len(boxes), index), boxes]).astype(np.float32)
    if numbered:
        rows[:, -1] = np.take(numbered, rows[:, -1].astype(np.int64) - 1)
    return rows


def _taken(rows: Tensor, numbers: Tensor) -> Tensor:
    """Rows (batch × A × n) selected by their numbers (batch × k): batch × k × n."""
    return rows.gather(1, numbers[..., None].expand(-1, -1, rows.shape[-1]))


def _map_sides(model: Any, size: int) -> list[tuple[int, int]]:
    """Height and width of the feature maps, from a copy of the network without allocated weights."""
    backbone = copy.deepcopy(model.backbone).to("meta").eval()
    maps = backbone(torch.empty(1, 3, size, size, device="meta"))
    return [(features.shape[-2], features.shape[-1]) for features in maps.values()]
