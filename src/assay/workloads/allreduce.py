"""Bandwidth and latency of all-reduce between all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from assay.errors import InputError
from assay.records import Metric, Reading, Shape, Task
from assay.workloads import payload_log
from assay.workloads.program import Params, program_task
from assay.workloads.workload import Workload

METRICS = (
    Metric("busbw", "B/s", "higher", "bus bandwidth: payload / time × 2(n−1)/n for n ranks", scales=False),
    Metric("algbw", "B/s", "higher", "algorithmic bandwidth: payload / time", scales=False),
    Metric("latency", "s", "lower", "one operation on the slowest rank", scales=False),
)


class AllreduceParams(Params):
    """All-reduce (sum of float32) by torch.distributed or MPI, one payload size after another.

    On two CPU cores, about 3 s: `{payload_bytes: [1024, 1048576, 16777216], min_time_s: 0.3}`.
    """

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"payload_bytes": [1024, 1048576, 16777216], "min_time_s": 0.3}]}
    )

    payload_bytes: tuple[Annotated[int, Field(ge=4, multiple_of=4)], ...] = Field(
        (8, 2**10, 2**17, 2**20, 2**24), min_length=1, description="Bytes on each rank, multiples of 4."
    )
    min_time_s: float = Field(0.5, gt=0, description="Timed seconds for each size.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU where there is one.")
    backend: Literal["auto", "gloo", "nccl", "mpi"] = Field(
        "auto",
        description="auto: nccl on GPUs, else gloo. mpi: mpi4py between CPUs, on a launcher that starts the "
        "ranks by mpirun (`kind: mpijob`).",
    )


def _metrics(_params: AllreduceParams) -> tuple[Metric, ...]:
    return METRICS


def _task(params: AllreduceParams, shape: Shape, _seed: int) -> Task:
    if shape.ranks < 2:
        raise InputError("an all-reduce needs at least 2 ranks; write a shape like 1x2 or 2x1")
    return program_task("collectives.py", params)


def _read(logs: Mapping[str, Path], _params: AllreduceParams) -> Reading:
    return payload_log.read(logs, METRICS)


ALLREDUCE = Workload(
    name="allreduce",
    about="sum values over all ranks: bus bandwidth and latency by payload size, checked",
    params=AllreduceParams,
    metrics=_metrics,
    sample="",
    flops=lambda _params: None,
    task=_task,
    read=_read,
)
