"""Small pieces of what training and inference do, with inputs, operations, bytes, and the right result.

Results are checked against NumPy in float64. Bytes are those of inputs read and results written once.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
Arrays = Mapping[str, Array]
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp64": 8}
TOLERANCES = {"fp64": 1e-10, "fp32": 1e-3, "bf16": 0.15, "fp16": 0.03}
"""How far a result may be from the right one, as a share of its standard deviation.

Attention sets them: its scores, rounded to 8 bits, change each weight by 1 %, and the largest error of 16,000
results that this makes is 8 %.
"""


@dataclass(frozen=True)
class IndicatorCase:
    """One indicator.

    inputs       float64, converted to the number format that is measured; or indices and images, which aren't
    flop         of one step
    elements     numbers of that format that one step reads and writes, each once
    right        the result of one step, in float64
    whole_bytes  of the indices and images that one step reads, in any number format
    """

    inputs: Arrays
    flop: int
    elements: int
    right: Callable[[Arrays], Array]
    whole_bytes: int = 0

    def bytes_of(self, dtype: str) -> int:
        """Bytes that one step reads and writes in a number format."""
        return self.elements * BYTES[dtype] + self.whole_bytes


def cases(options: argparse.Namespace) -> dict[str, IndicatorCase]:
    """Every indicator that computes something, by name; `import` is measured by starting Python."""
    case_makers = {
        "matmul": _matmul,
        "conv1d": _conv1d,
        "conv2d": _conv2d,
        "attention": _attention,
        "embedding": _embedding,
        "optimizer": _optimizer,
        "data": _data,
    }
    random = np.random.default_rng(options.seed)
    return {name: make(options, random) for name, make in case_makers.items() if name in options.indicators}


def _matmul(o: argparse.Namespace, random: np.random.Generator) -> IndicatorCase:
    n = o.matrix_size
    inputs = {name: random.standard_normal((o.matrix_batch, n, n)) for name in "ab"}
    return IndicatorCase(
        inputs, 2 * o.matrix_batch * n**3, 3 * o.matrix_batch * n * n, lambda x: x["a"] @ x["b"]
    )


def _conv1d(o: argparse.Namespace, random: np.random.Generator) -> IndicatorCase:
    length = o.length - o.kernel + 1
    inputs = {
        "x": random.standard_normal((o.batch, o.channels, o.length)),
        "w": random.standard_normal((o.filters, o.channels, o.kernel)),
    }
    out = o.batch * o.filters * length
    flop = 2 * out * o.channels * o.kernel
    return IndicatorCase(inputs, flop, out + sum(array.size for array in inputs.values()), conv1d)


def conv1d(x: Arrays) -> Array:
    """Cross-correlation of x (batch, channels, length) with w (filters, channels, kernel)."""
    windows = np.lib.stride_tricks.sliding_window_view(x["x"], x["w"].shape[2], axis=2)
    return np.tensordot(windows, x["w"], axes=((1, 3), (1, 2))).transpose(0, 2, 1)


def _conv2d(o: argparse.Namespace, random: np.random.Generator) -> IndicatorCase:
    side = o.side - o.kernel + 1
    inputs = {
        "x": random.standard_normal((o.batch, o.channels, o.side, o.side)),
        "w": random.standard_normal((o.filters, o.channels, o.kernel, o.kernel)),
    }
    out = o.batch * o.filters * side * side
    flop = 2 * out * o.channels * o.kernel**2
    return IndicatorCase(inputs, flop, out + sum(array.size for array in inputs.values()), conv2d)


def conv2d(x: Arrays) -> Array:
    """Cross-correlation of x (batch, channels, height, width) with w (filters, channels, kernel, kernel)."""
    windows = np.lib.stride_tricks.sliding_window_view(x["x"], x["w"].shape[2:], axis=(2, 3))
    return np.tensordot(windows, x["w"], axes=((1, 4, 5), (1, 2, 3))).transpose(0, 3, 1, 2)


def _attention(o: argparse.Namespace, random: np.random.Generator) -> IndicatorCase:
    shape = (o.batch, o.heads, o.tokens, o.head_size)
    inputs = {name: random.standard_normal(shape) for name in ("q", "k", "v")}
    flop = 4 * o.batch * o.heads * o.tokens**2 * o.head_size
    return IndicatorCase(inputs, flop, 4 * math.prod(shape), attention)


def attention(x: Arrays) -> Array:
    """Softmax(q·kᵀ/√d)·v, over (batch, heads, tokens, head size)."""
    scores = x["q"] @ x["k"].swapaxes(-1, -2) / math.sqrt(x["q"].shape[-1])
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True)) @ x["v"]


def _embedding(o: argparse.Namespace, random: np.random.Generator) -> IndicatorCase:
    inputs = {
        "table": random.standard_normal((o.vocabulary, o.head_size)),
        "indices": random.integers(o.vocabulary, size=o.lookups),
    }
    return IndicatorCase(
        inputs,
        0,
        2 * o.lookups * o.head_size,
        lambda x: x["table"][x["indices"]],
        whole_bytes=inputs["indices"].nbytes,
    )


def _optimizer(o: argparse.Namespace, random: np.random.Generator) -> IndicatorCase:
    inputs = {name: random.standard_normal(o.parameters) for name in ("w", "g", "m")}
    inputs["v"] = 0.1 + random.random(o.parameters)  # no half-precision number is so small that it is 0
    return IndicatorCase(inputs, 12 * o.parameters, 5 * o.parameters, adam)


def adam(x: Arrays) -> Array:
    """Parameters after one step of Adam with bias corrections of 1, learning rate 0.001."""
    m = 0.9 * x["m"] + 0.1 * x["g"]
    v = 0.999 * x["v"] + 0.001 * x["g"] ** 2
    return x["w"] - 0.001 * m / (v**0.5 + 1e-8)


def _data(o: argparse.Namespace, random: np.random.Generator) -> IndicatorCase:
    images = random.integers(256, size=(256, o.side, o.side, 3), dtype=np.uint8)
    indices = random.integers(256, size=8 * o.batch)
    inputs = {"images": images, "indices": indices, "mean": np.array([127.5]), "deviation": np.array([58.0])}
    numbers = 8 * o.batch * o.side * o.side * 3
    return IndicatorCase(inputs, 2 * numbers, numbers, normalized, whole_bytes=numbers + indices.nbytes)


def normalized(x: Arrays) -> Array:
    """Images of the indices as numbers around 0 of the mean's format, channels first."""
    return ((x["images"][x["indices"]] - x["mean"]) / x["deviation"]).transpose(0, 3, 1, 2)


def error_of(computed: Array, right: Array) -> float:
    """Largest difference, as a share of the right result's standard deviation; infinite for another shape."""
    if computed.shape != right.shape:
        return math.inf
    difference = float(np.abs(computed.astype(np.float64) - right).max() / right.std())
    return difference if math.isfinite(difference) else math.inf


Step = Callable[[], Any]
