"""The indicators in each framework: a function that does one step, and one that waits for the device.

Each framework gets the same inputs and returns what can become a NumPy array. It is imported on use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from assay_payloads.micro import indicator_cases

MODULES = {"numpy": "numpy", "torch": "torch", "jax": "jax", "tensorflow": "tensorflow"}
Operations = Mapping[str, Callable[[Mapping[str, Any]], Any]]


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
            "conv1d": indicator_cases.conv1d,
            "conv2d": indicator_cases.conv2d,
            "attention": indicator_cases.attention,
            "embedding": lambda x: x["table"][x["indices"]],
            "optimizer": indicator_cases.adam,
            "data": indicator_cases.normalized,
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
            "optimizer": indicator_cases.adam,
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
        "optimizer": indicator_cases.adam,
        "data": indicator_cases.normalized,
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
        "optimizer": indicator_cases.adam,
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
