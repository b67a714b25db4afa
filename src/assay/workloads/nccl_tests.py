"""Communication between GPUs, measured with nccl-tests (rccl-tests on AMD), installed on the nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from assay.errors import InputError
from assay.formats.nccl_tests import figures, nccl_test
from assay.formats.reader import Params, Reader
from assay.records import Measurement, Reading, Shape, Task
from assay.workloads import exchange
from assay.workloads.exchange import NCCL_MODES, Mode, Operation
from assay.workloads.program import program_task
from assay.workloads.workload import Workload, example

_LOG = "rank-0.log"


def read_table(logs: Mapping[str, Path], operation: Operation, mode: str) -> Reading:
    """What rank 0 printed. mode: what NCCL was configured to use."""
    if _LOG not in logs:
        return Reading(problems=(f"{_LOG} does not exist: the program printed nothing",))
    try:
        test = nccl_test(logs[_LOG])
    except InputError as error:
        return Reading(problems=(str(error),))
    used = exchange.used_between_ranks(logs)
    measured = () if test.problem else tuple(figures(test))
    return Reading(
        measurements=tuple(Measurement(f.metric, f.value, f.unit, f.labels, _LOG, f.line) for f in measured),
        facts={**test.facts, "operation": operation, **exchange.transport_facts(used, mode)},
        problems=(test.problem,) if test.problem else (),
        skipped_lines=test.skipped + used.skipped,
        cut_lines=test.cut,
        links=exchange.links(used, test.hosts),
    )


class NcclTestsParams(Params):
    """One of the nccl-tests programs over a range of sizes, with the transport that NCCL actually used.

    On one node without MPI, one process drives all GPUs. Several nodes need MPI (`kind: mpijob`, or srun with
    PMIx) and a build with MPI. To compare TCP, InfiniBand, and GPUDirect, sweep the mode:
    `{operation: all_reduce, mode: [tcp, infiniband, gpudirect]}`.
    """

    model_config = example(operation="all_reduce", mode="tcp")

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
        read=lambda logs, params: read_table(logs, params.operation, params.mode),
        version=5,
    ),
    about="NVIDIA's nccl-tests: bus bandwidth and latency by size, and the transport that NCCL used",
    task=_task,
)
