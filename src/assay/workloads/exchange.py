"""What workloads that exchange data between ranks share: parameters, job, NCCL's settings, figures, links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from assay.errors import InputError
from assay.formats.nccl_debug import Transports, kind_of, transports
from assay.formats.reader import Params
from assay.records import NODE_STREAMS, Links, Metric, Reading, Scalar, Shape, Task
from assay.workloads import payload_log
from assay.workloads.program import program_task

Operation = Literal["all_reduce", "all_gather", "reduce_scatter", "alltoall", "broadcast", "sendrecv"]

MOST_RANKS: Final = 16  # ranks that each have their own row in the table of links

# Bus bandwidth over algorithmic bandwidth. Source: nccl-tests, doc/PERFORMANCE.md.
_BUS: Final[Mapping[Operation, str]] = {
    "all_reduce": "2(n−1)/n for n ranks",
    "all_gather": "(n−1)/n for n ranks",
    "reduce_scatter": "(n−1)/n for n ranks",
    "alltoall": "(n−1)/n for n ranks",
    "broadcast": "1",
    "sendrecv": "1",
}

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


def metrics(operation: Operation) -> tuple[Metric, ...]:
    """The metrics of an exchange, with the operation's own factor of bus bandwidth."""
    bus = f"bus bandwidth: payload / time × {_BUS[operation]}"
    return (
        Metric("busbw", "B/s", "higher", bus, scales=False),
        Metric("algbw", "B/s", "higher", "algorithmic bandwidth: payload / time", scales=False),
        Metric("latency", "s", "lower", "one operation on the slowest rank", scales=False),
    )


def read(logs: Mapping[str, Path], operation: Operation) -> Reading:
    """What Assay's own program printed."""
    return payload_log.read(logs, metrics(operation))


def read_with_links(logs: Mapping[str, Path], operation: Operation, mode: str) -> Reading:
    """The same, with the transports that NCCL reported. mode: what NCCL was configured to use."""
    reading, used = read(logs, operation), used_between_ranks(logs)
    return replace(
        reading,
        facts={**reading.facts, **transport_facts(used, mode)},
        skipped_lines=reading.skipped_lines + used.skipped,
        links=links(used, {}),
    )


def used_between_ranks(logs: Mapping[str, Path]) -> Transports:
    """The transports between ranks, from NCCL's lines in the ranks' logs."""
    return transports(path for name, path in logs.items() if not name.startswith(NODE_STREAMS))


def transport_facts(used: Transports, mode: str) -> dict[str, Scalar]:
    """NCCL's configured mode, its number of links by transport, its network, and its version."""
    facts: dict[str, Scalar] = {"nccl_mode": mode}
    facts |= {f"nccl_links.{kind}": links for kind, links in sorted(used.kinds.items())}
    named = {"nccl_network": used.network, "nccl_version": used.version}
    return facts | {name: value for name, value in named.items() if value}


def links(used: Transports, hosts: Mapping[int, str]) -> tuple[Links, ...]:
    """The connections from rank to rank; if there are many ranks, from node to node.

    hosts  rank → node, for ranks whose own lines don't name it

    A rank whose node is unknown is on `?`.
    """
    nodes = {**hosts, **used.hosts}
    ranks = {rank for link in used.links for rank in link}
    few = len(ranks) <= MOST_RANKS
    places = {rank: f"{rank} {nodes.get(rank, '?')}" if few else nodes.get(rank, "?") for rank in ranks}
    totals: dict[tuple[str, str, str], tuple[int, int]] = {}
    for (sender, receiver), by_transport in used.links.items():
        of_kind: Counter[str] = Counter()
        for via, channels in by_transport.items():
            of_kind[kind_of(via)] += channels
        for kind, channels in of_kind.items():
            key = places[sender], places[receiver], kind
            pairs, before = totals.get(key, (0, 0))
            totals[key] = pairs + 1, before + channels
    return tuple(Links(*key, pairs, channels) for key, (pairs, channels) in totals.items())
