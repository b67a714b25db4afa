"""Arithmetic rate of dense matrix products."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from assay.formats.reader import Params
from assay.records import Metric, Shape, Task
from assay.workloads.payload_log import payload_reader
from assay.workloads.program import program_task
from assay.workloads.workload import Workload, example

METRICS = (
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


def _task(params: MatmulParams, _shape: Shape, seed: int) -> Task:
    return program_task("assay_payloads.micro.matmul", params, seed=seed)


MATMUL = Workload(
    reader=payload_reader("matmul", MatmulParams, METRICS),
    about="multiply matrices: arithmetic rate by size and number format, results checked",
    task=_task,
    timed_s=lambda params: len(params.sizes) * len(params.dtypes) * params.min_time_s,
)
