"""Bandwidth and latency of collectives over all ranks: torch.distributed, MPI, and nccl-tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import Field

from assay.errors import InputError
from assay.formats.nccl_debug import Transports, kind_of, transports
from assay.formats.nccl_tests import figures, nccl_test
from assay.formats.reader import Params, Reader
from assay.records import NODE_STREAMS, Links, Measurement, Metric, Reading, Scalar, Shape, Task
from assay.workloads import payload_log
from assay.workloads.payload_log import payload_reader
from assay.workloads.workload import Workload, example, program_task

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


def _exchange_task(params: ExchangeParams, shape: Shape, _seed: int) -> Task:
    """The program on every rank. Raises InputError if there is only one rank."""
    if shape.ranks < 2:
        raise InputError("an exchange needs at least 2 ranks; write a shape like 1x2 or 2x1")
    return program_task("assay_payloads.exchange.collectives", params, without=("mode",))


def _exchange_time_s(params: ExchangeParams) -> float:
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


class AllreduceParams(ExchangeParams):
    """All-reduce (sum of float32) with torch.distributed or MPI, one payload size at a time.

    On two CPU cores, about 3 s: `{payload_bytes: [1024, 1048576, 16777216], min_time_s: 0.3}`.
    """

    model_config = example(payload_bytes=[1024, 1048576, 16777216], min_time_s=0.3)


ALLREDUCE = Workload(
    reader=payload_reader("allreduce", AllreduceParams, metrics("all_reduce")),
    about="sum values over all ranks: bus bandwidth and latency by payload size, results checked",
    task=_exchange_task,
    timed_s=_exchange_time_s,
)


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


def _collectives_task(params: CollectivesParams, shape: Shape, seed: int) -> Task:
    task = _exchange_task(params, shape, seed)
    if params.mode == "auto":
        return task
    variables = _MODES.get(params.backend, {}).get(params.mode)
    if variables is None:
        fitting = [backend for backend, modes in _MODES.items() if params.mode in modes]
        raise InputError(
            f"backend {params.backend} has no mode {params.mode}; set backend: {' or '.join(fitting)}"
        )
    return replace(task, env=_nccl_debug(params.backend) | dict(variables))


def _nccl_debug(backend: str) -> dict[str, str]:
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
    task=_collectives_task,
    timed_s=_exchange_time_s,
)


_LOG = "rank-0.log"


def read_table(logs: Mapping[str, Path], operation: Operation, mode: str) -> Reading:
    """What rank 0 printed. mode: what NCCL was configured to use."""
    if _LOG not in logs:
        return Reading(problems=(f"{_LOG} does not exist: the program printed nothing",))
    try:
        test = nccl_test(logs[_LOG])
    except InputError as error:
        return Reading(problems=(str(error),))
    used = used_between_ranks(logs)
    measured = () if test.problem else tuple(figures(test))
    return Reading(
        measurements=tuple(Measurement(f.metric, f.value, f.unit, f.labels, _LOG, f.line) for f in measured),
        facts={**test.facts, "operation": operation, **transport_facts(used, mode)},
        problems=(test.problem,) if test.problem else (),
        skipped_lines=test.skipped + used.skipped,
        cut_lines=test.cut,
        links=links(used, test.hosts),
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


def _nccl_tests_task(params: NcclTestsParams, shape: Shape, _seed: int) -> Task:
    if shape.ranks < 2:
        raise InputError("an exchange needs at least 2 GPUs; write a shape like 1x8 or 2x1")
    named = params.model_copy(update={"program": params.program or f"{params.operation}_perf"})
    task = program_task("assay_payloads.exchange.nccl_tests", named, without=("operation", "mode"))
    return replace(task, env={"NCCL_DEBUG": "INFO", **NCCL_MODES[params.mode]})


NCCL_TESTS = Workload(
    reader=Reader(
        "nccl-tests",
        NcclTestsParams,
        metrics=lambda params: metrics(params.operation),
        read=lambda logs, params: read_table(logs, params.operation, params.mode),
        version=5,
    ),
    about="NVIDIA's nccl-tests: bus bandwidth and latency by size, and the transport that NCCL used",
    task=_nccl_tests_task,
)
