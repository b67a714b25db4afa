"""What workloads that exchange data between ranks share: parameters, job, and NCCL's transport settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from assay.errors import InputError
from assay.formats.reader import Params
from assay.records import Shape, Task
from assay.workloads.program import program_task

Mode = Literal["auto", "tcp", "infiniband", "gpudirect"]

# LOC and SYS hold for every version: the numbers of old versions mean distances today.
# Source: NCCL's documentation, environment variables.
NCCL_MODES: Final[Mapping[str, Mapping[str, str]]] = {
    "auto": {},
    "tcp": {"NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1"},
    "infiniband": {"NCCL_IB_DISABLE": "0", "NCCL_NET_GDR_LEVEL": "LOC"},
    "gpudirect": {"NCCL_IB_DISABLE": "0", "NCCL_NET_GDR_LEVEL": "SYS"},
}


class ExchangeParams(Params):
    """Parameters of every exchange with torch.distributed or MPI."""

    payload_bytes: tuple[Annotated[int, Field(ge=4, multiple_of=4)], ...] = Field(
        (8, 2**10, 2**17, 2**20, 2**24), min_length=1, description="Bytes on each rank, multiples of 4."
    )
    min_time_s: float = Field(0.5, gt=0, description="Seconds to time each size.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU if there is one.")
    backend: Literal["auto", "gloo", "nccl", "mpi"] = Field(
        "auto",
        description="auto: nccl on GPUs, otherwise gloo. mpi: mpi4py between CPUs, on a launcher that starts "
        "the ranks with mpirun (`kind: mpijob`).",
    )


def task(params: ExchangeParams, shape: Shape, _seed: int) -> Task:
    """The program on every rank. Raises InputError if there is only one rank."""
    if shape.ranks < 2:
        raise InputError("an exchange needs at least 2 ranks; write a shape like 1x2 or 2x1")
    return program_task("assay_payloads.exchange.collectives", params, without=("mode",))


def timed_s(params: ExchangeParams) -> float:
    """Seconds of exchanges, over all sizes."""
    return len(params.payload_bytes) * params.min_time_s
