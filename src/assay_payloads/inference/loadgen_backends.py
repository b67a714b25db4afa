"""What runs a model: PyTorch, or ONNX Runtime on the model that PyTorch exported. NumPy in, answers out.

Copies to the device and back are part of a call, as MLPerf counts them: samples start and answers end in host
memory.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import pickle
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from assay_payloads.inference.loadgen_models import Model
from assay_payloads.inference.loadgen_samples import Arrays

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
EXPORTED = Path("model.onnx")
# Weights of the reference's BERT that transformers' no longer has; no answer depends on them.
GONE = ("bert.pooler.", "bert.embeddings.position_ids")


class TorchBackend:
    """A network on a device, eager or compiled; a call returns an answer for each sample of a batch.

    sizes  batch sizes that it is compiled for: a batch in between is padded, since each new size would be
           compiled while the clock runs; () runs batches unchanged
    """

    def __init__(
        self,
        network: nn.Module,
        model: Model,
        device: torch.device,
        precision: str,
        *,
        channels_last: bool,
        sizes: Sequence[int],
    ) -> None:
        torch.backends.cudnn.benchmark = True
        self._device, self._type, self._sizes = device, TYPES[precision], sizes
        layout = torch.channels_last if channels_last else torch.preserve_format
        network = network.to(device, self._type, memory_format=layout)
        self._network = torch.compile(network, dynamic=False) if sizes else network
        self._answers = partial(model.answers, network)

    def __call__(self, inputs: Arrays) -> Sequence[np.ndarray]:
        count = len(inputs[0])
        filled = next((size for size in self._sizes if size >= count), count) - count
        with torch.inference_mode():
            tensors = [self._there(np.concatenate([a, a[-1:].repeat(filled, 0)])) for a in inputs]
            return self._answers(self._network(*tensors)[:count])

    def _there(self, values: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(values)
        if tensor.is_floating_point():
            return tensor.to(self._device, self._type)
        return tensor.to(self._device)


class OnnxBackend:
    """An exported model in ONNX Runtime, on its CPU or its CUDA provider; called like torch's backend.

    Raises RuntimeError if ONNX Runtime would fall back to a provider other than the requested one.
    """

    def __init__(
        self,
        file: Path,
        answers: Callable[[torch.Tensor], Sequence[np.ndarray]],
        device: torch.device,
        threads: int,
    ) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        provider = "CUDAExecutionProvider" if device.type == "cuda" else "CPUExecutionProvider"
        placed = [(provider, {"device_id": device.index or 0} if device.type == "cuda" else {})]
        self._session = ort.InferenceSession(file, options, providers=placed)
        if provider not in self._session.get_providers():
            raise RuntimeError(
                f"ONNX Runtime {ort.__version__} does not have {provider} here, only "
                f"{', '.join(ort.get_available_providers())}: install onnxruntime-gpu, or use the CPU"
            )
        self._answers = answers
        self._inputs = [
            (node.name, np.float16 if "float16" in node.type else None) for node in self._session.get_inputs()
        ]

    def __call__(self, inputs: Arrays) -> Sequence[np.ndarray]:
        inputs_by_name: Mapping[str, np.ndarray] = {
            name: array if kind is None else array.astype(kind)
            for (name, kind), array in zip(self._inputs, inputs, strict=True)
        }
        return self._answers(torch.from_numpy(self._session.run(None, inputs_by_name)[0]))


def predictors(
    model: Model, size: int, labels: int, options: argparse.Namespace, device: torch.device
) -> list[TorchBackend | OnnxBackend]:
    """A backend for each instance; instances on one device share one, with the threads divided among them.

    labels  of the boxes, 0 for a model without boxes

    Raises OSError, ValueError and RuntimeError if the weights don't match or a provider is missing.
    """
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    gpus = [torch.device("cuda", index) for index in range(min(count, options.instances))]
    devices = gpus if device.type == "cuda" else [device]
    torch.set_num_threads(max(1, torch.get_num_threads() // options.instances))
    torch.manual_seed(options.seed)
    network = model.build(size, labels).eval()
    if options.weights is not None:
        _load(network, options.weights)
    make_backends = _onnx if options.backend == "onnxruntime" else _torch
    backends = make_backends(network, model, size, options, devices)
    return [backends[index % len(backends)] for index in range(options.instances)]


def _load(network: nn.Module, weights: Path) -> None:
    """Weights with the names of the model's library; trainings store them as `model`, among other things."""
    try:
        kept = torch.load(weights, map_location="cpu", weights_only=True)
        named = {
            name: weight for name, weight in kept.get("model", kept).items() if not name.startswith(GONE)
        }
        getattr(network, "model", network).load_state_dict(named)
    except (pickle.UnpicklingError, EOFError) as error:
        raise ValueError(f"{weights}: found no weights; torch.save the model's state_dict") from error
    except (RuntimeError, AttributeError, TypeError) as error:  # another model's, or not a table of names
        why = " ".join(str(error).split())[:300]
        raise ValueError(f"{weights}: not the state_dict of this model: {why}") from error


def _torch(
    network: nn.Module, model: Model, _size: int, options: argparse.Namespace, devices: Sequence[torch.device]
) -> list[TorchBackend | OnnxBackend]:
    sizes = batch_sizes(options.batch_size) if options.compile else ()
    layout = options.channels_last and "images" in model.inputs
    return [
        TorchBackend(
            copy.deepcopy(network), model, device, options.precision, channels_last=layout, sizes=sizes
        )
        for device in devices
    ]


def _onnx(
    network: nn.Module, model: Model, size: int, options: argparse.Namespace, devices: Sequence[torch.device]
) -> list[TorchBackend | OnnxBackend]:
    kind = TYPES[options.precision]
    export(network.to(kind), model, size, kind)
    answers = partial(model.answers, network)
    return [OnnxBackend(EXPORTED, answers, device, torch.get_num_threads()) for device in devices]


def batch_sizes(largest: int) -> list[int]:
    """Powers of two up to the largest, and the largest itself.

    >>> batch_sizes(6)
    [1, 2, 4, 6]
    """
    return sorted({min(largest, 2**power) for power in range(largest.bit_length() + 1)})


def export(network: nn.Module, model: Model, size: int, kind: torch.dtype) -> None:
    """Write the network as ONNX, for batches of any size; takes some seconds."""
    import onnxscript  # noqa: F401  (torch's exporter needs it and says so too late)

    sample = [torch.from_numpy(array) for array in model.synthetic(np.random.default_rng(0), size)]
    # two samples: the exporter would turn a single one into a constant
    pair = [torch.stack([tensor, tensor]) for tensor in sample]
    with warnings.catch_warnings(), torch.inference_mode(), contextlib.redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")  # warnings about torch's own exporter
        torch.onnx.export(
            network,
            tuple(tensor.to(kind) if tensor.is_floating_point() else tensor for tensor in pair),
            EXPORTED,
            input_names=list(model.inputs),
            output_names=["outputs"],
            dynamic_shapes=tuple({0: torch.export.Dim.DYNAMIC} for _ in pair),
            dynamo=True,
        )
