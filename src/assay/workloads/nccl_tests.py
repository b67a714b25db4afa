"""Communication between GPUs by NVIDIA's nccl-tests (AMD's rccl-tests), which have to be on the nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pydantic import ConfigDict, Field

from assay.errors import InputError
from assay.logs.nccl_tests import NcclTest, Row, nccl_test
from assay.records import Measurement, Reading, Scalar, Shape, Task
from assay.workloads import exchange
from assay.workloads.exchange import NCCL_MODES, Mode, Operation
from assay.workloads.program import Params, program_task
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


def _read(logs: Mapping[str, Path], params: NcclTestsParams) -> Reading:
    if "rank-0.log" not in logs:
        return Reading(problems=("there is no rank-0.log: nothing was printed",))
    try:
        test = nccl_test(logs["rank-0.log"])
    except InputError as error:
        return Reading(problems=(str(error),))
    used = exchange.used_between_ranks(logs)
    told = exchange.transport_facts(used, params.mode)
    return Reading(
        measurements=tuple(_measured(test, params.operation)) if not test.problem else (),
        facts={**test.facts, "operation": params.operation, **told},
        problems=(test.problem,) if test.problem else (),
        skipped_lines=test.skipped + used.skipped,
        cut_lines=test.cut,
        links=exchange.links(used, {device.rank: device.host for device in test.devices}),
    )


def _measured(test: NcclTest, operation: Operation) -> Iterator[Measurement]:
    metrics = exchange.metrics(operation)
    for row in test.rows:
        for place, way in (("out-of-place", row.out_of_place), ("in-place", row.in_place)):
            if way is not None and way.algbw > 0:
                for metric, value in zip(metrics, (way.busbw, way.algbw, way.time_s), strict=True):
                    labels = _labels(row, place)
                    yield Measurement(metric.name, value, metric.unit, labels, "rank-0.log", row.line)


def _labels(row: Row, place: str) -> dict[str, Scalar]:
    return {"payload_bytes": row.size_bytes, "buffers": place}


NCCL_TESTS = Workload(
    name="nccl-tests",
    about="NVIDIA's nccl-tests: bus bandwidth and latency by size, and the transport that NCCL used",
    params=NcclTestsParams,
    metrics=lambda params: exchange.metrics(params.operation),
    sample="",
    flops=lambda _params: None,
    task=_task,
    read=_read,
    version=3,
)
