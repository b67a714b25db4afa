"""Small pieces of what training and inference do, and how each framework does one.

A case has inputs, operations, bytes, and the right result. Results are checked against NumPy in float64.
Bytes are those of inputs read and results written once. A framework gets the same inputs and returns what can
become a NumPy array: a function that does one step, and one that waits for the device. It is imported on use.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

MODULES = {"numpy": "numpy", "torch": "torch", "jax": "jax", "tensorflow": "tensorflow"}
Operations = Mapping[str, Callable[[Mapping[str, Any]], Any]]
Array = np.ndarray
Arrays = Mapping[str, Array]
BYTES = {"fp32": 4, "bf16": 2, "fp16": 2, "fp64": 8}
TOLERANCES = {"fp64": 1e-10, "fp32": 1e-3, "bf16": 0.15, "fp16": 0.03}
"""How far a result may be from the right one, as a share of its standard deviation.

Attention sets them: its scores, rounded to 8 bits, change each weight by 1 %, and the largest error of 16,000
results that this makes is 8 %.
"""
Step = Callable[[], Any]


@dataclass(frozen=True)
class IndicatorFramework:
    """What runs the indicators.

    dtypes      number formats that it has
    place       an array on the device, in the number format; indices and images keep theirs
    operations  indicator → one step, given the placed inputs
    finish      waits until a result is there
    array       a result as float64
    """

    version: str
    dtypes: tuple[str, ...]
    place: Callable[[np.ndarray, str], Any]
    operations: Operations
    finish: Callable[[Any], object]
    array: Callable[[Any], np.ndarray]


def framework(name: str, device: str) -> IndicatorFramework:
    """The framework on a device. Raises ImportError if it is missing, ValueError if it has no such device."""
    return {"numpy": _numpy, "torch": _torch, "jax": _jax, "tensorflow": _tensorflow}[name](device)


def _is_number(array: np.ndarray) -> bool:
    return array.dtype.kind == "f"


def _numpy(device: str) -> IndicatorFramework:
    if device == "cuda":
        raise ValueError("NumPy runs on the CPU only")
    types = {"fp32": np.float32, "fp64": np.float64}
    return IndicatorFramework(
        np.__version__,
        tuple(types),
        lambda array, dtype: array.astype(types[dtype]) if _is_number(array) else array,
        {
            "matmul": lambda x: x["a"] @ x["b"],
            "conv1d": conv1d,
            "conv2d": conv2d,
            "attention": attention,
            "embedding": lambda x: x["table"][x["indices"]],
            "optimizer": adam,
            "data": normalized,
        },
        lambda _: None,
        lambda output: np.asarray(output, np.float64),
    )


def _torch(device: str) -> IndicatorFramework:
    import torch
    import torch.nn.functional as f

    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("torch finds no GPU")
    on = torch.device("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
    types = {
        "fp32": torch.float32,
        "fp64": torch.float64,
        "bf16": torch.bfloat16,
        "fp16": torch.float16,
    }

    def place(array: np.ndarray, dtype: str) -> Any:
        return torch.from_numpy(array).to(on, types[dtype] if _is_number(array) else None)

    def images(x: Mapping[str, Any]) -> Any:
        return ((x["images"][x["indices"]] - x["mean"]) / x["deviation"]).permute(0, 3, 1, 2).contiguous()

    def finish(_: Any) -> None:
        if on.type == "cuda":
            torch.cuda.synchronize(on)

    return IndicatorFramework(
        torch.__version__,
        tuple(types),
        place,
        {
            "matmul": lambda x: x["a"] @ x["b"],
            "conv1d": lambda x: f.conv1d(x["x"], x["w"]),
            "conv2d": lambda x: f.conv2d(x["x"], x["w"]),
            "attention": lambda x: f.scaled_dot_product_attention(x["q"], x["k"], x["v"]),
            "embedding": lambda x: f.embedding(x["indices"], x["table"]),
            "optimizer": adam,
            "data": images,
        },
        finish,
        lambda output: output.double().cpu().numpy(),
    )


def _jax(device: str) -> IndicatorFramework:
    import jax
    import jax.numpy as jnp

    kind = {"cpu": "cpu", "cuda": "gpu", "auto": None}[device]
    try:
        on = jax.devices(kind)[0]
    except RuntimeError as error:
        raise ValueError(f"JAX finds no such device: {error}") from error
    types = {"fp32": jnp.float32, "bf16": jnp.bfloat16, "fp16": jnp.float16}

    def attention(x: Mapping[str, Any]) -> Any:
        scores = x["q"] @ x["k"].swapaxes(-1, -2) / x["q"].shape[-1] ** 0.5
        return jax.nn.softmax(scores, axis=-1) @ x["v"]

    operations = {
        "matmul": lambda x: x["a"] @ x["b"],
        "conv1d": lambda x: jax.lax.conv(x["x"], x["w"], (1,), "VALID"),
        "conv2d": lambda x: jax.lax.conv(x["x"], x["w"], (1, 1), "VALID"),
        "attention": attention,
        "embedding": lambda x: jnp.take(x["table"], x["indices"], axis=0),
        "optimizer": adam,
        "data": normalized,
    }
    return IndicatorFramework(
        jax.__version__,
        tuple(types),
        lambda array, dtype: jax.device_put(array.astype(types[dtype]) if _is_number(array) else array, on),
        {name: jax.jit(operation) for name, operation in operations.items()},
        lambda output: output.block_until_ready(),
        lambda output: np.asarray(output.astype(jnp.float32), np.float64),
    )


def _tensorflow(device: str) -> IndicatorFramework:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if device == "cuda" and not gpus:
        raise ValueError("TensorFlow finds no GPU")
    on = "/GPU:0" if gpus and device != "cpu" else "/CPU:0"
    types = {"fp32": tf.float32, "fp64": tf.float64, "bf16": tf.bfloat16, "fp16": tf.float16}

    def place(array: np.ndarray, dtype: str) -> Any:
        with tf.device(on):
            return tf.cast(tf.constant(array), types[dtype]) if _is_number(array) else tf.constant(array)

    def attention(x: Mapping[str, Any]) -> Any:
        scores = tf.matmul(x["q"], x["k"], transpose_b=True) / float(x["q"].shape[-1]) ** 0.5
        return tf.matmul(tf.nn.softmax(scores), x["v"])

    def conv1d(x: Mapping[str, Any]) -> Any:  # on CPUs, TensorFlow convolves channels-last only
        last = tf.nn.conv1d(tf.transpose(x["x"], (0, 2, 1)), tf.transpose(x["w"], (2, 1, 0)), 1, "VALID")
        return tf.transpose(last, (0, 2, 1))

    def conv2d(x: Mapping[str, Any]) -> Any:
        last = tf.nn.conv2d(
            tf.transpose(x["x"], (0, 2, 3, 1)), tf.transpose(x["w"], (2, 3, 1, 0)), 1, "VALID"
        )
        return tf.transpose(last, (0, 3, 1, 2))

    def images(x: Mapping[str, Any]) -> Any:
        chosen = tf.cast(tf.gather(x["images"], x["indices"]), x["mean"].dtype)
        return tf.transpose((chosen - x["mean"]) / x["deviation"], (0, 3, 1, 2))

    operations = {
        "matmul": lambda x: tf.matmul(x["a"], x["b"]),
        "conv1d": conv1d,
        "conv2d": conv2d,
        "attention": attention,
        "embedding": lambda x: tf.gather(x["table"], x["indices"]),
        "optimizer": adam,
        "data": images,
    }
    return IndicatorFramework(
        tf.__version__,
        tuple(types),
        place,
        {name: tf.function(operation) for name, operation in operations.items()},
        lambda output: output.numpy() if on == "/CPU:0" else output[..., :1].numpy(),
        lambda output: np.asarray(tf.cast(output, tf.float64).numpy()),
    )


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
