"""Models of MLPerf inference: from libraries, built from their configurations, with their samples.

| model         | network                                               | sample         | answer            |
|---------------|-------------------------------------------------------|----------------|-------------------|
| resnet50      | torchvision's ResNet-50 v1.5                          | image, 224×224 | class             |
| mobilenet     | torchvision's MobileNetV2 (MLPerf v0.5: V1)           | image, 224×224 | class             |
| ssd-mobilenet | torchvision's SSDLite with MobileNetV3 (v0.5: V1)     | image, 320×320 | boxes             |
| retinanet     | torchvision's RetinaNet with ResNeXt-50 (MLPerf v2.1) | image, 800×800 | boxes             |
| bert-large    | transformers' BERT that answers questions on a text   | 384 tokens     | first, last token |
| bert-tiny     | the same with 2 layers of 128 (Turc et al. 2019)      | 128 tokens     | first, last token |

Weights are drawn from a seed unless a file gives them: speed doesn't depend on them, but for the boxes that
detection has to sort out, and accuracy is that of guessing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from loadgen_data import Arrays

COCO_CLASSES, OPENIMAGES_CLASSES = 91, 264 + 1  # with the background
WORDS = 30522  # BERT's vocabulary


@dataclass(frozen=True)
class Model:
    """A network, what goes in and what comes out.

    build      the network: batched tensors in, one batched tensor out (of boxes: a row a box)
    inputs     names of its inputs
    size       of a sample: height and width of the image, or tokens
    bound_s    Server's latency bound by the rules (mlperf.conf), seconds
    synthetic  a sample from random numbers and its size: an array for each input
    answers    outputs of a batch, and its size → one array a sample
    batched    it exports to ONNX with batches of any size, not of one alone
    """

    build: Callable[[int], nn.Module]
    inputs: tuple[str, ...]
    size: int
    bound_s: float
    synthetic: Callable[[np.random.Generator, int], Arrays]
    answers: Callable[[np.ndarray, int], Sequence[np.ndarray]]
    batched: bool = True


def _image(rng: np.random.Generator, size: int) -> Arrays:
    return (rng.standard_normal((3, size, size), dtype=np.float32),)


def _colours(rng: np.random.Generator, size: int) -> Arrays:
    return (rng.random((3, size, size), dtype=np.float32),)  # detection normalises by itself


def _tokens(rng: np.random.Generator, size: int) -> Arrays:
    """A question of a quarter of the length and its text; nothing is padding."""
    types = (np.arange(size) >= size // 4).astype(np.int64)
    return rng.integers(1000, WORDS, size), np.ones(size, dtype=np.int64), types


def _classes(logits: np.ndarray, _count: int) -> list[np.ndarray]:
    return list(logits.argmax(axis=1, keepdims=True))


def _spans(logits: np.ndarray, _count: int) -> list[np.ndarray]:
    return list(logits.argmax(axis=1))


def boxes(rows: np.ndarray, count: int) -> list[np.ndarray]:
    """Of each image its boxes: x1, y1, x2, y2, score, class."""
    return [rows[rows[:, 0] == at, 1:] for at in range(count)]


class Detector(nn.Module):
    """A detection model of torchvision as one of tensors: a row is image, x1, y1, x2, y2, score, class."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        """Boxes of all images, N×7, pixels."""
        rows = []
        for at, found in enumerate(self.model(list(images))):
            columns = (found["scores"][:, None], found["labels"][:, None].to(images.dtype))
            rows.append(torch.cat([torch.full_like(columns[0], at), found["boxes"], *columns], dim=1))
        return torch.cat(rows)


class Reader(nn.Module):
    """BERT that answers a question on a text: logits of each token to be the answer's first and last."""

    def __init__(self, layers: int, hidden: int, heads: int) -> None:
        super().__init__()
        from transformers import BertConfig, BertForQuestionAnswering

        shape = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads}
        config = BertConfig(**shape, intermediate_size=4 * hidden, vocab_size=WORDS)
        self.model = BertForQuestionAnswering(config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Batch×tokens×2."""
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return torch.stack((out.start_logits, out.end_logits), dim=-1)


def _classifier(name: str) -> Callable[[int], nn.Module]:
    def build(_size: int) -> nn.Module:
        from torchvision.models import get_model

        network: nn.Module = get_model(name, weights=None)
        return network

    return build


def _ssd_mobilenet(_size: int) -> nn.Module:
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    return Detector(
        ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=COCO_CLASSES)
    )


def _retinanet(size: int) -> nn.Module:
    from torchvision.models import resnext50_32x4d
    from torchvision.models.detection import RetinaNet
    from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7

    trunk = _resnet_fpn_extractor(
        resnext50_32x4d(weights=None), 5, returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(2048, 256)
    )
    return Detector(RetinaNet(trunk, OPENIMAGES_CLASSES, min_size=size, max_size=size))


_IMAGES, _TEXT = ("images",), ("input_ids", "attention_mask", "token_type_ids")
MODELS = {
    "resnet50": Model(_classifier("resnet50"), _IMAGES, 224, 0.015, _image, _classes),
    "mobilenet": Model(_classifier("mobilenet_v2"), _IMAGES, 224, 0.010, _image, _classes),
    "ssd-mobilenet": Model(_ssd_mobilenet, _IMAGES, 320, 0.010, _colours, boxes, batched=False),
    "retinanet": Model(_retinanet, _IMAGES, 800, 0.100, _colours, boxes, batched=False),
    "bert-large": Model(lambda _: Reader(24, 1024, 16), _TEXT, 384, 0.130, _tokens, _spans),
    "bert-tiny": Model(lambda _: Reader(2, 128, 2), _TEXT, 128, 0.130, _tokens, _spans),
}
