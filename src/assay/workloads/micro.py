"""Micro benchmarks of a node: arithmetic, memory, pieces of training, and its GPUs by the site's programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from assay.formats import gpu_burn, nvbandwidth
from assay.formats.reader import Params
from assay.records import Metric, Shape, Task
from assay.workloads.payload_log import payload_reader
from assay.workloads.site_reports import reported_reader
from assay.workloads.workload import Workload, example, program_task

_MATMUL_METRICS = (
    Metric("flop_rate", "FLOP/s", "higher", "operations per second of all ranks together, 2n³ per product"),
    Metric(
        "flop_rate_slowest", "FLOP/s", "higher", "operations per second of the slowest rank", scales=False
    ),
)


class MatmulParams(Params):
    """Products of n×n matrices, in every combination of size and number format.

    About 3 s on one CPU core: `{sizes: [1024], dtypes: [fp32, bf16], min_time_s: 0.5}`.
    """

    model_config = example(sizes=[1024], dtypes=["fp32", "bf16"], min_time_s=0.5)

    sizes: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (512, 1024, 2048), min_length=1, description="Rows of the square matrices."
    )
    dtypes: tuple[Literal["fp32", "tf32", "bf16", "fp16"], ...] = Field(
        ("fp32", "bf16"), min_length=1, description="Number formats; tf32 needs an NVIDIA GPU."
    )
    min_time_s: float = Field(0.5, gt=0, description="Seconds to time each size and format.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU if there is one.")


def _matmul_task(params: MatmulParams, _shape: Shape, seed: int) -> Task:
    return program_task("assay_payloads.micro.matmul", params, seed=seed)


MATMUL = Workload(
    reader=payload_reader("matmul", MatmulParams, _MATMUL_METRICS),
    about="multiply matrices: arithmetic rate by size and number format, results checked",
    task=_matmul_task,
    timed_s=lambda params: len(params.sizes) * len(params.dtypes) * params.min_time_s,
)


_MEMBW_METRICS = (
    Metric(
        "bandwidth",
        "B/s",
        "higher",
        "bytes per second of all ranks together, counted as in STREAM, median triad",
    ),
    Metric("bandwidth_best", "B/s", "higher", "the same for the fastest triad, as STREAM reports it"),
)


class MembwParams(Params):
    """The triad a = b + s·c on arrays of float64.

    About 3 s on one CPU core: `{min_time_s: 0.5}`.
    """

    model_config = example(min_time_s=0.5)

    array_bytes: int | None = Field(
        None,
        ge=8,
        multiple_of=8,
        description="Size of each of the three arrays on a rank; default: four times the last-level caches.",
    )
    min_time_s: float = Field(1.0, gt=0, description="Seconds to time.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU if there is one.")


def _membw_task(params: MembwParams, _shape: Shape, _seed: int) -> Task:
    return program_task("assay_payloads.micro.membw", params)


MEMBW = Workload(
    reader=payload_reader("membw", MembwParams, _MEMBW_METRICS),
    about="STREAM's triad on CPU or GPU: memory bandwidth, results checked",
    task=_membw_task,
    timed_s=lambda params: params.min_time_s,
)


_INDICATORS_METRICS = (
    Metric("step_time", "s", "lower", "seconds of one step of an indicator, or of the framework's import"),
    Metric("flop_rate", "FLOP/s", "higher", "operations per second, counted as for the usual algorithm"),
    Metric("byte_rate", "B/s", "higher", "inputs read once and results written once, per second"),
)
Size = Annotated[int, Field(ge=1)]


class IndicatorsParams(Params):
    """Indicators of one framework; each result is compared with NumPy's in float64.

    About 3 s on one CPU core: `{framework: numpy, indicators: [matmul, conv2d], min_time_s: 0.2}`.
    """

    model_config = example(framework="numpy", indicators=["matmul", "conv2d"], min_time_s=0.2)

    framework: Literal["torch", "numpy", "jax", "tensorflow"] = Field(
        "torch", description="What computes; it must be installed where trials run."
    )
    indicators: tuple[
        Literal["matmul", "conv1d", "conv2d", "attention", "embedding", "optimizer", "data", "import"], ...
    ] = Field(
        ("matmul", "conv1d", "conv2d", "attention", "embedding", "optimizer", "data", "import"),
        min_length=1,
        description="Which; `import` is the time to import the framework.",
    )
    dtypes: tuple[Literal["fp32", "fp64", "bf16", "fp16"], ...] = Field(
        ("fp32",), min_length=1, description="Number formats."
    )
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU if there is one.")
    min_time_s: float = Field(0.5, gt=0, description="Seconds to time each indicator and format.")
    matrix_size: Size = Field(512, description="Rows of the matrices of `matmul`.")
    matrix_batch: Size = Field(1, description="Matrices that one step multiplies.")
    batch: Size = Field(
        4, description="Samples of convolutions and attention; `data` loads eight times as many."
    )
    channels: Size = Field(32, description="Of the inputs of convolutions.")
    filters: Size = Field(32, description="Of convolutions.")
    kernel: Size = Field(3, description="Width of the filters.")
    length: Size = Field(4096, description="Of the inputs of `conv1d`.")
    side: Size = Field(64, description="Of the images of `conv2d` and `data`.")
    heads: Size = Field(8, description="Of `attention`.")
    tokens: Size = Field(256, description="Of `attention`.")
    head_size: Size = Field(64, description="Of `attention`, and width of the embedding.")
    vocabulary: Size = Field(50_000, description="Rows of the embedding.")
    lookups: Size = Field(8192, description="Rows that one step reads from it.")
    parameters: Size = Field(1_000_000, description="Numbers that `optimizer` changes: Adam.")


def _indicators_task(params: IndicatorsParams, _shape: Shape, seed: int) -> Task:
    return program_task("assay_payloads.micro.indicators", params, seed=seed)


INDICATORS = Workload(
    reader=payload_reader("indicators", IndicatorsParams, _INDICATORS_METRICS),
    about="small pieces of training and inference on torch, NumPy, JAX or TensorFlow, results checked",
    task=_indicators_task,
    timed_s=lambda params: len(params.indicators) * len(params.dtypes) * params.min_time_s,
)


class NvbandwidthParams(Params):
    """One run on each node, over all GPUs that it sees.

    A test that the node's GPUs don't support counts as waived.
    """

    model_config = example(tests=["device_to_device_memcpy_read_ce"], samples=5)

    tests: tuple[Annotated[str, Field(pattern=r"^\w+$")], ...] = Field(
        (), description="Names of tests; default: all that the node's GPUs support."
    )
    samples: int | None = Field(
        None, ge=1, description="Repetitions of each copy; default: nvbandwidth's, 3."
    )
    buffer_mib: int | None = Field(
        None, ge=1, description="Size of a copy, MiB; default: nvbandwidth's, 512."
    )
    program: str = Field(
        "nvbandwidth", min_length=1, description="The program's path on the nodes, or its name on the PATH."
    )


class GpuBurnParams(Params):
    """One run on each node, over all its GPUs, until they are hot.

    The trial fails if a GPU computes wrong results or dies.
    """

    model_config = example(seconds=300, tensor_cores=True)

    seconds: int = Field(60, ge=1, description="Duration.")
    precision: str = Field(
        "single", pattern=r"^(single|double)$", description="Precision of the products: single or double."
    )
    tensor_cores: bool = Field(False, description="Use tensor cores if the GPU has them.")
    memory_percent: int | None = Field(
        None, ge=1, le=100, description="Share of each GPU's free memory; default: gpu_burn's, 90."
    )
    program: str = Field(
        "gpu_burn",
        min_length=1,
        description="The program's path on the nodes, or its name on the PATH; it runs in its own directory, "
        "which contains compare.ptx.",
    )


def _on_each_node(params: Params, arguments: Sequence[str], *, in_its_directory: bool) -> Task:
    task = program_task(
        "assay_payloads.micro.each_node", params, without=type(params).model_fields.keys() - {"program"}
    )
    place = ("--in-its-directory",) if in_its_directory else ()
    return replace(task, argv=(*task.argv, *place, "--", *arguments))


def _nvbandwidth_task(params: NvbandwidthParams, _shape: Shape, _seed: int) -> Task:
    argv: list[str] = []
    for test in params.tests:
        argv += ["-t", test]
    argv += ["-i", str(params.samples)] if params.samples else []
    argv += ["-b", str(params.buffer_mib)] if params.buffer_mib else []
    return _on_each_node(params, argv, in_its_directory=False)


def _gpu_burn_task(params: GpuBurnParams, _shape: Shape, _seed: int) -> Task:
    argv = ["-d"] if params.precision == "double" else []
    argv += ["-tc"] if params.tensor_cores else []
    argv += ["-m", f"{params.memory_percent}%"] if params.memory_percent else []
    return _on_each_node(params, [*argv, str(params.seconds)], in_its_directory=True)


NVBANDWIDTH = Workload(
    reader=reported_reader(
        "nvbandwidth", NvbandwidthParams, nvbandwidth.report, lambda _params: nvbandwidth.METRICS, version=3
    ),
    about="copies between the GPUs of a node, and between them and its memory, with NVIDIA's nvbandwidth",
    task=_nvbandwidth_task,
)
GPU_BURN = Workload(
    reader=reported_reader("gpu-burn", GpuBurnParams, gpu_burn.report, lambda _params: gpu_burn.METRICS),
    about="matrix products on all GPUs of a node with gpu-burn: rate, temperature, power, and wrong results",
    task=_gpu_burn_task,
    timed_s=lambda params: float(params.seconds),
)
