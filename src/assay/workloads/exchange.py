"""What workloads that exchange data between ranks share: operations, figures, ways between the ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from assay.errors import InputError
from assay.logs.nccl_debug import Transports, kind_of, transports
from assay.records import Links, Metric, Reading, Scalar, Shape, Task
from assay.workloads import payload_log
from assay.workloads.program import Params, program_task

Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv"]
Mode = Literal["auto", "tcp", "infiniband", "gpudirect"]

MOST_RANKS: Final = 16  # of which each is a place of its own in the table of links

# Bus bandwidth over algorithmic bandwidth. Source: nccl-tests, doc/PERFORMANCE.md.
_BUS: Final[Mapping[Operation, str]] = {
    "all_reduce": "2(n−1)/n for n ranks",
    "all_gather": "(n−1)/n for n ranks",
    "reduce_scatter": "(n−1)/n for n ranks",
    "alltoall": "(n−1)/n for n ranks",
    "broadcast": "1",
    "sendrecv": "1",
}

# LOC and SYS hold for every version: the numbers of old ones mean distances today.
# Source: NCCL's documentation, environment variables.
NCCL_MODES: Final[Mapping[str, Mapping[str, str]]] = {
    "auto": {},
    "tcp": {"NCCL_NET": "Socket", "NCCL_IB_DISABLE": "1"},
    "infiniband": {"NCCL_IB_DISABLE": "0", "NCCL_NET_GDR_LEVEL": "LOC"},
    "gpudirect": {"NCCL_IB_DISABLE": "0", "NCCL_NET_GDR_LEVEL": "SYS"},
}


def metrics(operation: Operation) -> tuple[Metric, ...]:
    """What an exchange is measured by, with the operation's own factor of bus bandwidth."""
    bus = f"bus bandwidth: payload / time × {_BUS[operation]}"
    return (
        Metric("busbw", "B/s", "higher", bus, scales=False),
        Metric("algbw", "B/s", "higher", "algorithmic bandwidth: payload / time", scales=False),
        Metric("latency", "s", "lower", "one operation on the slowest rank", scales=False),
    )


class ExchangeParams(Params):
    """What every exchange by torch.distributed or MPI is told."""

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


def task(params: ExchangeParams, shape: Shape, _seed: int) -> Task:
    """The program on every rank. Raises InputError where one rank would be alone."""
    if shape.ranks < 2:
        raise InputError("an exchange needs at least 2 ranks; write a shape like 1x2 or 2x1")
    return program_task("assay_payloads.exchange.collectives", params, without=("mode",))


def timed_s(params: ExchangeParams) -> float:
    """Seconds of exchanges, all sizes together."""
    return len(params.payload_bytes) * params.min_time_s


def read(logs: Mapping[str, Path], operation: Operation) -> Reading:
    """What the program printed."""
    return payload_log.read(logs, metrics(operation))


def used_between_ranks(logs: Mapping[str, Path]) -> Transports:
    """What NCCL's lines in the ranks' logs say of its ways from rank to rank."""
    return transports(path for name, path in logs.items() if not name.startswith("probe-"))


def transport_facts(used: Transports, mode: str) -> dict[str, Scalar]:
    """What was asked of NCCL, the number of links of each kind that it took, its network, its version."""
    found: dict[str, Scalar] = {"nccl_mode": mode}
    found |= {f"nccl_links.{kind}": links for kind, links in sorted(used.kinds.items())}
    named = {"nccl_network": used.network, "nccl_version": used.version}
    return found | {name: value for name, value in named.items() if value}


def links(used: Transports, hosts: Mapping[int, str]) -> tuple[Links, ...]:
    """The connections from rank to rank, of many ranks from node to node.

    hosts  rank → node, of those whose own lines don't say it

    A rank whose node nobody tells lies on `?`.
    """
    nodes = {**hosts, **used.hosts}
    ranks = {rank for link in used.links for rank in link}
    few = len(ranks) <= MOST_RANKS
    places = {rank: f"{rank} {nodes.get(rank, '?')}" if few else nodes.get(rank, "?") for rank in ranks}
    found: dict[tuple[str, str, str], tuple[int, int]] = {}
    for (sender, receiver), told in used.links.items():
        of_kind: Counter[str] = Counter()
        for via, channels in told.items():
            of_kind[kind_of(via)] += channels
        for kind, channels in of_kind.items():
            key = places[sender], places[receiver], kind
            pairs, before = found.get(key, (0, 0))
            found[key] = pairs + 1, before + channels
    return tuple(Links(*key, pairs, channels) for key, (pairs, channels) in found.items())
