"""Communication between GPUs, measured with nccl-tests (rccl-tests on AMD), installed on the nodes."""

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
    """One of the nccl-tests programs over a range of sizes, with the transport that NCCL actually used.

    On one node without MPI, one process drives all GPUs. Several nodes need MPI (`kind: mpijob`, or srun with
    PMIx) and a build with MPI. To compare TCP, InfiniBand, and GPUDirect, sweep the mode:
    `{operation: all_reduce, mode: [tcp, infiniband, gpudirect]}`.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"operation": "all_reduce", "mode": "tcp"}]})

    operation: Operation = Field("all_reduce", description="Which collective.")
    program: str | None = Field(
        None, description="The program's path on the nodes; default: OPERATION_perf on the PATH."
    )
    mode: Mode = Field(
        "auto",
        description="Transport between nodes: TCP sockets, InfiniBand or RoCE through host memory, or with "
        "GPUDirect RDMA. auto: NCCL chooses. The transport actually used is read from NCCL's output.",
    )
    min_bytes: int = Field(8, ge=1, description="Smallest size of the whole exchange.")
    max_bytes: int = Field(1 << 27, ge=1, description="Largest size of the whole exchange.")
    factor: int = Field(2, ge=2, description="Factor from one size to the next.")
    dtype: str = Field("float", pattern=r"^[a-z]\w*$", description="Number format, as the program calls it.")
    iterations: int = Field(20, ge=1, description="Timed operations of each size.")
    warmup: int = Field(5, ge=0, description="Warm-up operations before them.")
    check: bool = Field(True, description="Check the values at every size; a wrong value fails the trial.")


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
        version=5,
    ),
    about="NVIDIA's nccl-tests: bus bandwidth and latency by size, and the transport that NCCL used",
    task=_task,
)
