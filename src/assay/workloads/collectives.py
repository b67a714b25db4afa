"""Bandwidth and latency of any collective over all ranks, with torch.distributed or MPI."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

from pydantic import Field

from assay.errors import InputError
from assay.formats.reader import Reader
from assay.records import Reading, Shape, Task
from assay.workloads import exchange
from assay.workloads.exchange import (
    NCCL_MODES,
    ExchangeParams,
    Operation,
    metrics,
    read,
    read_with_links,
)
from assay.workloads.workload import Workload, example

# Open MPI's byte transfer layers; vader is the name of shared memory in version 4 and still an alias in 5.
# Source: Open MPI's documentation, setting MCA parameters through the environment.
_MPI_MODES: Final[Mapping[str, Mapping[str, str]]] = {
    "auto": {},
    "tcp": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp"},
    "shared-memory": {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader"},
}
_MODES: Final[Mapping[str, Mapping[str, Mapping[str, str]]]] = {"nccl": NCCL_MODES, "mpi": _MPI_MODES}


class CollectivesParams(ExchangeParams):
    """A collective over all ranks, with MPI, or with torch.distributed if nccl-tests is not installed.

    Sizes and bandwidths are defined as in nccl-tests. About 3 s on two CPU cores:
    `{operation: alltoall, payload_bytes: [1024, 1048576], min_time_s: 0.3}`.
    """

    model_config = example(operation="alltoall")

    operation: Operation = Field("all_reduce", description="Which collective; sendrecv goes around a ring.")
    mode: Literal["auto", "tcp", "infiniband", "gpudirect", "shared-memory"] = Field(
        "auto",
        description="Transport between ranks. For nccl, the modes of nccl-tests; for mpi (Open MPI), `tcp` "
        "or `shared-memory`. auto: the backend chooses.",
    )


def _task(params: CollectivesParams, shape: Shape, seed: int) -> Task:
    task = exchange.task(params, shape, seed)
    if params.mode == "auto":
        return task
    variables = _MODES.get(params.backend, {}).get(params.mode)
    if variables is None:
        fitting = [backend for backend, modes in _MODES.items() if params.mode in modes]
        raise InputError(
            f"backend {params.backend} has no mode {params.mode}; set backend: {' or '.join(fitting)}"
        )
    return replace(task, env=_debug(params.backend) | dict(variables))


def _debug(backend: str) -> dict[str, str]:
    """Environment that makes NCCL print the transport it used."""
    return {"NCCL_DEBUG": "INFO"} if backend == "nccl" else {}


def _read(logs: Mapping[str, Path], params: CollectivesParams) -> Reading:
    if params.mode == "auto" or params.backend != "nccl":
        return read(logs, params.operation)
    return read_with_links(logs, params.operation, params.mode)


COLLECTIVES = Workload(
    reader=Reader(
        "collectives",
        CollectivesParams,
        metrics=lambda params: metrics(params.operation),
        read=_read,
    ),
    about="a collective over all ranks with torch.distributed or MPI: bandwidth and latency, results checked",
    task=_task,
    timed_s=exchange.timed_s,
)
