"""Bandwidth and latency of any exchange between all ranks, by torch.distributed or MPI."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from assay.errors import InputError
from assay.records import Shape, Task
from assay.workloads import payload_log
from assay.workloads.allreduce import METRICS, AllreduceParams
from assay.workloads.program import program_task
from assay.workloads.workload import Workload


class CollectivesParams(AllreduceParams):
    """An exchange between all ranks by torch.distributed, where nccl-tests are not at hand, or by MPI.

    Sizes and bandwidths are counted as nccl-tests count them. On two CPU cores, about 3 s:
    `{operation: alltoall, payload_bytes: [1024, 1048576], min_time_s: 0.3}`.
    """

    operation: Literal["all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv"] = (
        Field("all_reduce", description="Which exchange; sendrecv goes around a ring.")
    )


def _task(params: CollectivesParams, shape: Shape, _seed: int) -> Task:
    if shape.ranks < 2:
        raise InputError("an exchange needs at least 2 ranks; write a shape like 1x2 or 2x1")
    return program_task("collectives.py", params)


COLLECTIVES = Workload(
    name="collectives",
    about="an exchange between all ranks by torch.distributed or MPI: bandwidth and latency, checked",
    params=CollectivesParams,
    metrics=lambda _params: METRICS,
    sample="",
    flops=lambda _params: None,
    task=_task,
    read=lambda logs, _params: payload_log.read(logs, METRICS),
)
