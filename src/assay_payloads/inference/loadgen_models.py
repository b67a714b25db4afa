"""Models of MLPerf Inference: from libraries, built from their configurations, with their samples.

| model         | network                                               | sample         | answer            |
|---------------|-------------------------------------------------------|----------------|-------------------|
| resnet50      | torchvision's ResNet-50 v1.5                          | image, 224×224 | class             |
| mobilenet     | torchvision's MobileNetV2 (MLPerf v0.5: V1)           | image, 224×224 | class             |
| ssd-mobilenet | torchvision's SSDLite with MobileNetV3 (v0.5: V1)     | image, 320×320 | boxes             |
| ssd-resnet34  | the one that workload ssd trains (v0.5: 1200×1200)    | image, 300×300 | boxes             |
| retinanet     | torchvision's RetinaNet with ResNeXt-50 (MLPerf v2.1) | image, 800×800 | boxes             |
| bert-large    | transformers' BERT, answering questions about a text  | 384 tokens     | logits of tokens  |
| bert-tiny     | the same with 2 layers of 128 (Turc et al. 2019)      | 128 tokens     | logits of tokens  |

Weights are random, drawn from a seed, unless a file provides them: speed doesn't depend on them, except for
the number of boxes that detection has to select from, and accuracy is that of guessing.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from assay_payloads.inference.loadgen_detectors import Detector, RetinaNetDetector, SsdDetector
from assay_payloads.inference.loadgen_samples import BOXES, CLASSES, SPANS, Arrays
from assay_payloads.inference.squad import PIECES

RESNET34 = (3, 4, 6)  # blocks of its first three stages


@dataclass(frozen=True)
class Model:
    """A network, its inputs, and its outputs.

    build      the network for a size and a number of labels: batched tensors in, one tensor out
    answers    the network and its outputs → the answers for each sample, one array each, in host memory
    inputs     names of its inputs
    size       of a sample: height and width of the image, or tokens
    bound_s    Server's latency bound by the rules (mlperf.conf), seconds
    held       samples that LoadGen keeps in memory at a time by the rules (mlperf.conf)
    synthetic  a sample from random numbers and its size: an array for each input
    labels     of boxes if no data set defines them; 0: answers without boxes
    numbered   labels are 1, 2, … in the order of the categories' IDs, rather than those IDs
    """

    build: Callable[[int, int], nn.Module]
    answers: Callable[[Any, Tensor], Sequence[np.ndarray]]
    inputs: tuple[str, ...]
    size: int
    bound_s: float
    held: int
    synthetic: Callable[[np.random.Generator, int], Arrays]
    labels: int = 0
    numbered: bool = False

    @property
    def says(self) -> str:
        """The kind of its answers: classes, boxes, or spans of a text."""
        if self.labels:
            return BOXES
        return SPANS if self.inputs == _TEXT else CLASSES

    def labels_for(self, categories: Sequence[int]) -> int:
        """How many labels the network distinguishes for these categories, or without any."""
        if not categories:
            return self.labels
        return len(categories) if self.numbered else max(categories) + 1


def _image(rng: np.random.Generator, size: int) -> Arrays:
    return (rng.standard_normal((3, size, size), dtype=np.float32),)


def _colors(rng: np.random.Generator, size: int) -> Arrays:
    return (rng.random((3, size, size), dtype=np.float32),)  # detection normalizes on its own


def _tokens(rng: np.random.Generator, size: int) -> Arrays:
    """A question, which takes a quarter of the length, and its text, without padding."""
    types = (np.arange(size) >= size // 4).astype(np.int64)
    return rng.integers(1000, PIECES, size), np.ones(size, dtype=np.int64), types


def _classes(_network: nn.Module, logits: Tensor) -> Sequence[np.ndarray]:
    return list(logits.argmax(1, keepdim=True).cpu().numpy())


def _logits(_network: nn.Module, logits: Tensor) -> Sequence[np.ndarray]:
    """Tokens × 2 32-bit values, as MLPerf's script reads them; the scoring selects the span."""
    return list(logits.float().cpu().numpy())


class BertQuestionAnswering(nn.Module):
    """BERT for question answering: logits of each token to be the answer's first and last."""

    def __init__(self, layers: int, hidden: int, heads: int) -> None:
        super().__init__()
        from transformers import BertConfig, BertForQuestionAnswering

        shape = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads}
        config = BertConfig(**shape, intermediate_size=4 * hidden, vocab_size=PIECES)
        self.model = BertForQuestionAnswering(config)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> Tensor:
        """Batch×tokens×2."""
        out = self.model(input_ids=input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        return torch.stack((out.start_logits, out.end_logits), dim=-1)


def _classifier(name: str) -> Callable[[int, int], nn.Module]:
    def build(_size: int, _labels: int) -> nn.Module:
        from torchvision.models import get_model

        network: nn.Module = get_model(name, weights=None)
        return network

    return build


def _reader(layers: int, hidden: int, heads: int) -> Callable[[int, int], nn.Module]:
    return lambda _size, _labels: BertQuestionAnswering(layers, hidden, heads)


def _ssd_mobilenet(size: int, labels: int) -> nn.Module:
    from torchvision.models.detection import ssdlite320_mobilenet_v3_large

    return SsdDetector(
        ssdlite320_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=labels), size
    )


def _ssd_resnet34(size: int, labels: int) -> nn.Module:
    from assay_payloads.training.ssd_network import detector

    form = Namespace(image_size=size, blocks=RESNET34, backbone=None)
    return SsdDetector(detector(form, labels), size)


def _retinanet(size: int, labels: int) -> nn.Module:
    from torchvision.models import resnext50_32x4d
    from torchvision.models.detection import RetinaNet as TorchvisionsRetinaNet
    from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
    from torchvision.ops.feature_pyramid_network import LastLevelP6P7

    trunk = _resnet_fpn_extractor(
        resnext50_32x4d(weights=None), 5, returned_layers=[2, 3, 4], extra_blocks=LastLevelP6P7(2048, 256)
    )
    return RetinaNetDetector(TorchvisionsRetinaNet(trunk, labels), size)


_IMAGES, _TEXT = ("images",), ("input_ids", "attention_mask", "token_type_ids")
# Labels: COCO's IDs end at 90; MLPerf's part of OpenImages has IDs 0 to 263, and RetinaNet no background.
MODELS = {
    "resnet50": Model(_classifier("resnet50"), _classes, _IMAGES, 224, 0.015, 1024, _image),
    "mobilenet": Model(_classifier("mobilenet_v2"), _classes, _IMAGES, 224, 0.010, 1024, _image),
    "ssd-mobilenet": Model(_ssd_mobilenet, Detector.boxes, _IMAGES, 320, 0.010, 256, _colors, 91),
    "ssd-resnet34": Model(_ssd_resnet34, Detector.boxes, _IMAGES, 300, 0.100, 64, _colors, 80, numbered=True),
    "retinanet": Model(_retinanet, Detector.boxes, _IMAGES, 800, 0.100, 64, _colors, 264),
    "bert-large": Model(_reader(24, 1024, 16), _logits, _TEXT, 384, 0.130, 10833, _tokens),
    "bert-tiny": Model(_reader(2, 128, 2), _logits, _TEXT, 128, 0.130, 10833, _tokens),
}
