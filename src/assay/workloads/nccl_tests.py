"""Communication between GPUs by NVIDIA's nccl-tests (AMD's rccl-tests), which have to be on the nodes."""

from __future__ import annotations

from dataclasses import replace

from pydantic import ConfigDict, Field

from assay.errors import InputError
from assay.readers import Reader, exchange, nccl_tests
from assay.readers.exchange import Operation
from assay.readers.reader import Params
from assay.records import Shape, Task
from assay.workloads.exchange import NCCL_MODES, Mode
from assay.workloads.program import program_task
from assay.workloads.workload import Workload


class NcclTestsParams(Params):
    """One of nccl-tests' programs over a range of sizes, with the transport that NCCL really used.

    On one node without MPI all GPUs are one process's; over nodes it takes MPI (`kind: mpijob`, or srun with
    PMIx) and a build with it. To hold TCP, InfiniBand and GPUDirect against each other sweep the mode:
    `{operation: all_reduce, mode: [tcp, infiniband, gpudirect]}`.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"operation": "all_reduce", "mode": "tcp"}]})

    operation: Operation = Field("all_reduce", description="Which exchange.")
    program: str | None = Field(
        None, description="The program's path on the nodes; default: OPERATION_perf on the PATH."
    )
    mode: Mode = Field(
        "auto",
        description="What NCCL is told to use between nodes: TCP sockets, InfiniBand or RoCE through the "
        "hosts' memory, or with GPUDirect RDMA. auto: as it chooses. What it used is read from its lines.",
    )
    min_bytes: int = Field(8, ge=1, description="Smallest size, of the whole exchange.")
    max_bytes: int = Field(1 << 27, ge=1, description="Largest size.")
    factor: int = Field(2, ge=2, description="Of one size over the one before.")
    dtype: str = Field("float", pattern=r"^[a-z]\w*$", description="Number format, as the program calls it.")
    iterations: int = Field(20, ge=1, description="Timed operations of each size.")
    warmup: int = Field(5, ge=0, description="Operations before them.")
    check: bool = Field(True, description="Check the values of every size; a wrong one fails the trial.")


def _task(params: NcclTestsParams, shape: Shape, _seed: int) -> Task:
    if shape.ranks < 2:
        raise InputError("an exchange needs at least 2 GPUs; write a shape like 1x8 or 2x1")
    named = params.model_copy(update={"program": params.program or f"{params.operation}_perf"})
    task = program_task("assay_payloads.exchange.nccl_tests", named, without=("operation", "mode"))
    return replace(task, env={"NCCL_DEBUG": "INFO", **NCCL_MODES[params.mode]})


NCCL_TESTS = Workload(
    reader=Reader(
        "nccl-tests",
        NcclTestsParams,
        metrics=lambda params: exchange.metrics(params.operation),
        read=lambda logs, params: nccl_tests.read(logs, params.operation, params.mode),
        version=3,
    ),
    about="NVIDIA's nccl-tests: bus bandwidth and latency by size, and the transport that NCCL used",
    task=_task,
)
