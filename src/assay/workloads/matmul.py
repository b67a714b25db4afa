"""Rate of dense matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from assay.records import Metric, Reading, Shape, Task
from assay.workloads import payload_log
from assay.workloads.program import Params, program_task
from assay.workloads.workload import Workload

METRICS = (
    Metric("flop_rate", "FLOP/s", "higher", "operations a second of all ranks together, 2n³ a product"),
    Metric("flop_rate_slowest", "FLOP/s", "higher", "operations a second of the slowest rank", scales=False),
)


class MatmulParams(Params):
    """Products of n×n matrices, every size with every number format.

    On one CPU core, about 3 s: `{sizes: [1024], dtypes: [fp32, bf16], min_time_s: 0.5}`.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"sizes": [1024], "dtypes": ["fp32", "bf16"], "min_time_s": 0.5}]}
    )

    sizes: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        (512, 1024, 2048), min_length=1, description="Rows of the matrices."
    )
    dtypes: tuple[Literal["fp32", "tf32", "bf16", "fp16"], ...] = Field(
        ("fp32", "bf16"), min_length=1, description="Number formats; tf32 needs an NVIDIA GPU."
    )
    min_time_s: float = Field(0.5, gt=0, description="Timed seconds for each size and format.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU where there is one.")


def _metrics(_params: MatmulParams) -> tuple[Metric, ...]:
    return METRICS


def _task(params: MatmulParams, _shape: Shape, seed: int) -> Task:
    return program_task("assay_payloads.micro.matmul", params, seed=seed)


def _read(logs: Mapping[str, Path], _params: MatmulParams) -> Reading:
    return payload_log.read(logs, METRICS)


MATMUL = Workload(
    name="matmul",
    about="multiply matrices: arithmetic rate by size and number format, checked",
    params=MatmulParams,
    metrics=_metrics,
    sample="",
    flops=lambda _params: None,
    task=_task,
    read=_read,
    timed_s=lambda params: len(params.sizes) * len(params.dtypes) * params.min_time_s,
)
