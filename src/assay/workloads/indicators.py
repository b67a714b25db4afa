"""Performance indicators: what a full workload is made of, seconds each, on several frameworks."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from assay.formats.reader import Params
from assay.records import Metric, Shape, Task
from assay.workloads.payload_log import payload_reader
from assay.workloads.program import program_task
from assay.workloads.workload import Workload, example

METRICS = (
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


def _task(params: IndicatorsParams, _shape: Shape, seed: int) -> Task:
    return program_task("assay_payloads.micro.indicators", params, seed=seed)


INDICATORS = Workload(
    reader=payload_reader("indicators", IndicatorsParams, METRICS),
    about="small pieces of training and inference on torch, NumPy, JAX or TensorFlow, results checked",
    task=_task,
    timed_s=lambda params: len(params.indicators) * len(params.dtypes) * params.min_time_s,
)
