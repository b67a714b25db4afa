"""Between two nodes: TCP with iperf3 and RDMA with perftest, which must be installed on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from assay.errors import InputError
from assay.formats import iperf3, perftest
from assay.formats.reader import Params
from assay.records import Metric, Scalar, Shape, Task
from assay.workloads.site_reports import reported_reader
from assay.workloads.workload import Workload, example, program_task

Direction = Literal["0-to-1", "1-to-0", "both"]
"""Direction of the data between worker 0 and worker 1."""


def check_two_workers(shape: Shape) -> None:
    """Raise InputError unless the shape has two workers; `1x2` has two ranks on one worker."""
    if shape.workers != 2 and (shape.workers, shape.accelerators) != (1, 2):
        raise InputError(
            f"the workload runs between two workers, but the shape is {shape}; write 2x1, or 2x1x2 for two "
            "nodes"
        )


_OF_UDP: Final = ("jitter", "lost")
_IPERF3_METRICS: Final = tuple(metric for metric in iperf3.METRICS if metric.name not in _OF_UDP)


class Iperf3Params(Params):
    """TCP streams from one worker to the other and back: bytes received, retransmits, CPU use.

    Needs two workers: `2x1`, or as many accelerators as the nodes have; the first rank of each takes part.
    The defaults take about 25 s. How it runs and how to read the results: docs/how-to/point-to-point.md.
    """

    model_config = example(streams=4, seconds=5)

    streams: int = Field(1, ge=1, le=128, description="Concurrent connections.")
    seconds: int = Field(10, ge=1, description="Measured seconds in each direction.")
    omit_seconds: int = Field(1, ge=0, le=600, description="Seconds to skip first, while TCP finds its rate.")
    directions: tuple[Direction, ...] = Field(
        ("0-to-1", "1-to-0"),
        min_length=1,
        description="Directions of the data between worker 0 and worker 1, in turn; both: at the same time.",
    )
    window_bytes: int | None = Field(
        None, ge=1024, description="Size of socket buffers; default: sized by the kernel."
    )
    congestion: str | None = Field(
        None,
        pattern=r"^\w+$",
        description="Congestion control algorithm, like cubic or bbr; default: the kernel's.",
    )
    program: str = Field(
        "iperf3", min_length=1, description="The program's path on the nodes, or its name on the PATH."
    )
    port: int | None = Field(
        None, ge=1, le=65535, description="TCP port of the server; default: a free port."
    )


def _iperf3_task(params: Iperf3Params, shape: Shape, _seed: int) -> Task:
    check_two_workers(shape)
    return program_task("assay_payloads.exchange.iperf3", params)


def _label(of_report: Mapping[str, Scalar], of_figure: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """In a bidirectional test, iperf3 calls the direction in which the server sends `reverse`."""
    if "end" in of_figure or of_report.get("direction") != "both":
        return {**of_report, **of_figure}
    return {**of_report, "way": "0-to-1" if of_figure.get("direction") == "reverse" else "1-to-0"}


IPERF3 = Workload(
    reader=reported_reader("iperf3", Iperf3Params, iperf3.report, lambda _params: _IPERF3_METRICS, _label),
    about="TCP between two nodes with iperf3, in each direction: bandwidth, retransmits, CPU",
    task=_iperf3_task,
    timed_s=lambda params: len(params.directions) * (params.seconds + params.omit_seconds),
)


Program = Literal["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat"]
_LATENCY: Final = "_lat"
_TYPICAL: Final = "latency_median"  # the only one of these that every version prints


class PerftestParams(Params):
    """One of the perftest programs over every RDMA port that is active on both nodes, one port at a time.

    Needs two workers: `2x1`, or as many accelerators as the nodes have; the first rank of each takes part. A
    port is measured with the port of the same name on the other node. Ports that are down or exist on only
    one node are named in the run's facts. How it runs and what failures mean: docs/how-to/point-to-point.md.
    """

    model_config = example(program="ib_write_bw", devices=["mlx5_0"], queue_pairs=4)

    program: Program = Field("ib_write_bw", description="Which test; `_lat` measures latency.")
    directory: str | None = Field(
        None, min_length=1, description="Directory of the program on the nodes; default: found on the PATH."
    )
    message_bytes: int | None = Field(
        None, ge=1, description="One size; default: every power of two from 2 bytes to 8 MiB (`-a`)."
    )
    iterations: int | None = Field(
        None, ge=5, description="Messages of each size; default: the program's, 5000 or 1000."
    )
    devices: tuple[Annotated[str, Field(pattern=r"^[\w.-]+(:\d+)?$")], ...] | None = Field(
        None, min_length=1, description="Devices or ports, `mlx5_0` or `mlx5_0:1`; default: all."
    )
    directions: tuple[Direction, ...] = Field(
        ("0-to-1", "1-to-0"),
        min_length=1,
        description="Directions of the data between worker 0 and worker 1, in turn; both: at the same time "
        "(`-b`), which latency tests don't support.",
    )
    gid_index: int | None = Field(
        None, ge=0, description="Index of the port's GID, for RoCE; default: perftest chooses."
    )
    queue_pairs: int | None = Field(
        None, ge=1, description="Concurrent connections in a bandwidth test; default: 1."
    )
    cuda_device: int | None = Field(
        None, ge=0, description="GPU whose memory is sent and received (GPUDirect); needs a build with CUDA."
    )
    rdma_cm: bool = Field(
        False,
        description="Connect with the RDMA connection manager, as iWARP and some RoCE networks require.",
    )
    port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="TCP port on which the two ends find each other; default: a free port.",
    )

    @model_validator(mode="after")
    def _latency_is_of_one_way_and_one_queue_pair(self) -> Self:
        if self.program.endswith(_LATENCY):
            if "both" in self.directions:
                raise ValueError(f"{self.program} has no direction `both`: latency is measured one way")
            if self.queue_pairs is not None:
                raise ValueError(f"{self.program} uses one queue pair; leave out queue_pairs")
        return self


def _perftest_metrics(params: PerftestParams) -> tuple[Metric, ...]:
    if not params.program.endswith(_LATENCY):
        return tuple(metric for metric in perftest.METRICS if not metric.name.startswith("latency"))
    latencies = [metric for metric in perftest.METRICS if metric.name.startswith("latency")]
    return tuple(sorted(latencies, key=lambda metric: metric.name != _TYPICAL))


def _perftest_task(params: PerftestParams, shape: Shape, _seed: int) -> Task:
    check_two_workers(shape)
    program = f"{params.directory}/{params.program}" if params.directory else params.program
    located = params.model_copy(update={"program": program})
    return program_task("assay_payloads.exchange.perftest", located, without=("directory",))


PERFTEST = Workload(
    reader=reported_reader("perftest", PerftestParams, perftest.report, _perftest_metrics, version=2),
    about="RDMA between two nodes with perftest (ib_write_bw and others), each port, each direction",
    task=_perftest_task,
)
