"""What runs a model: PyTorch, or ONNX Runtime on the model that PyTorch exported. NumPy in, NumPy out.

Copies to the device and back are part of a call, as MLPerf counts them: samples begin and answers end in the
host's memory.
"""

from __future__ import annotations

import argparse
import copy
import pickle
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import nn

from loadgen_data import Arrays
from loadgen_models import Model

TYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
EXPORTED = Path("model.onnx")


class TorchBackend:
    """A network on a device, eager or compiled.

    sizes  batch sizes that it is compiled for: a batch in between is filled up, since each new size would be
           compiled while the clock runs; () runs batches as they come
    """

    def __init__(
        self,
        network: nn.Module,
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

    def __call__(self, inputs: Arrays) -> Arrays:
        """Outputs of one batch."""
        count = len(inputs[0])
        filled = next((size for size in self._sizes if size >= count), count) - count
        with torch.inference_mode():
            tensors = [self._there(np.concatenate([a, a[-1:].repeat(filled, 0)])) for a in inputs]
            outputs = self._network(*tensors)
            return (outputs[:count].float().cpu().numpy() if filled else outputs.float().cpu().numpy(),)

    def _there(self, values: np.ndarray) -> torch.Tensor:
        tensor = torch.from_numpy(values)
        if tensor.is_floating_point():
            return tensor.to(self._device, self._type)
        return tensor.to(self._device)


class OnnxBackend:
    """An exported model in ONNX Runtime, on its CPU or its CUDA provider.

    alone  the model takes one sample at a time: a batch is a row of calls

    Raises RuntimeError where ONNX Runtime would fall back to another provider than the one asked for.
    """

    def __init__(self, file: Path, device: torch.device, *, threads: int, alone: bool) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        provider = "CUDAExecutionProvider" if device.type == "cuda" else "CPUExecutionProvider"
        placed = [(provider, {"device_id": device.index or 0} if device.type == "cuda" else {})]
        self._session = ort.InferenceSession(file, options, providers=placed)
        if provider not in self._session.get_providers():
            raise RuntimeError(
                f"ONNX Runtime {ort.__version__} has no {provider} here, only "
                f"{', '.join(ort.get_available_providers())}: install onnxruntime-gpu, or use the cpu"
            )
        self._alone = alone
        self._inputs = [
            (one.name, np.float16 if "float16" in one.type else None) for one in self._session.get_inputs()
        ]

    def __call__(self, inputs: Arrays) -> Arrays:
        """Outputs of one batch."""
        if not self._alone:
            return (self._once(inputs),)
        rows = [self._once(tuple(array[at : at + 1] for array in inputs)) for at in range(len(inputs[0]))]
        for at, found in enumerate(rows):
            found[:, 0] = at
        return (np.concatenate(rows),)

    def _once(self, inputs: Arrays) -> np.ndarray:
        given: Mapping[str, np.ndarray] = {
            name: array if kind is None else array.astype(kind)
            for (name, kind), array in zip(self._inputs, inputs, strict=True)
        }
        outputs: np.ndarray = self._session.run(None, given)[0]
        return outputs.astype(np.float32, copy=False)


def predictors(
    model: Model, size: int, options: argparse.Namespace, device: torch.device
) -> list[TorchBackend | OnnxBackend]:
    """A backend for each instance; instances on one device share one, with the threads divided among them.

    Raises OSError, ValueError and RuntimeError where the weights don't fit or a provider is missing.
    """
    count = torch.cuda.device_count() if device.type == "cuda" else 1
    gpus = [torch.device("cuda", at) for at in range(min(count, options.instances))]
    devices = gpus if device.type == "cuda" else [device]
    torch.set_num_threads(max(1, torch.get_num_threads() // options.instances))
    torch.manual_seed(options.seed)
    network = model.build(size).eval()
    if options.weights is not None:
        _load(network, options.weights)
    made = _onnx if options.backend == "onnxruntime" else _torch
    backends = made(network, model, size, options, devices)
    return [backends[at % len(backends)] for at in range(options.instances)]


def _load(network: nn.Module, weights: Path) -> None:
    try:
        network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    except (pickle.UnpicklingError, EOFError) as error:
        raise ValueError(f"{weights}: found no weights; torch.save the model's state_dict") from error
    except (RuntimeError, AttributeError, TypeError) as error:  # another model's, or no table of names
        why = " ".join(str(error).split())[:300]
        raise ValueError(f"{weights}: not the state_dict of this model: {why}") from error


def _torch(
    network: nn.Module, model: Model, _size: int, options: argparse.Namespace, devices: Sequence[torch.device]
) -> list[TorchBackend | OnnxBackend]:
    sizes = batch_sizes(options.batch_size) if options.compile else ()
    layout = options.channels_last and "images" in model.inputs
    return [
        TorchBackend(copy.deepcopy(network), device, options.precision, channels_last=layout, sizes=sizes)
        for device in devices
    ]


def _onnx(
    network: nn.Module, model: Model, size: int, options: argparse.Namespace, devices: Sequence[torch.device]
) -> list[TorchBackend | OnnxBackend]:
    example = [torch.from_numpy(one)[None] for one in model.synthetic(np.random.default_rng(0), size)]
    kind = TYPES[options.precision]
    tensors = tuple(one.to(kind) if one.is_floating_point() else one for one in example)
    export(network.to(kind), tensors, model)
    threads = torch.get_num_threads()
    return [OnnxBackend(EXPORTED, device, threads=threads, alone=not model.batched) for device in devices]


def batch_sizes(largest: int) -> list[int]:
    """Powers of two up to the largest, and that.

    >>> batch_sizes(6)
    [1, 2, 4, 6]
    """
    return sorted({min(largest, 2**power) for power in range(largest.bit_length() + 1)})


def export(network: nn.Module, example: tuple[torch.Tensor, ...], model: Model) -> None:
    """Write the network as ONNX, for batches of any size where the model can.

    By tracing: it needs nothing but torch, and exports torchvision's detection. It warns that it is the older
    of torch's two ways, and of each shape that it takes for a constant (ours are).
    """
    batched = {name: {0: "batch"} for name in (*model.inputs, "outputs")}
    with warnings.catch_warnings(), torch.inference_mode():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            example,
            EXPORTED,
            input_names=list(model.inputs),
            output_names=["outputs"],
            dynamic_axes=batched if model.batched else {"outputs": {0: "boxes"}},
            dynamo=False,
        )
