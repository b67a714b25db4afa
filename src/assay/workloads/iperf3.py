"""TCP between two nodes, measured with iperf3, which must be installed on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import Field

from assay.formats import iperf3
from assay.formats.reader import Params
from assay.records import Scalar, Shape, Task
from assay.workloads.program import program_task
from assay.workloads.site_reports import reported_reader
from assay.workloads.two_workers import Direction, check_two_workers
from assay.workloads.workload import Workload, example

_OF_UDP: Final = ("jitter", "lost")
METRICS: Final = tuple(metric for metric in iperf3.METRICS if metric.name not in _OF_UDP)


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


def _task(params: Iperf3Params, shape: Shape, _seed: int) -> Task:
    check_two_workers(shape)
    return program_task("assay_payloads.exchange.iperf3", params)


def _label(of_report: Mapping[str, Scalar], of_figure: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """In a bidirectional test, iperf3 calls the direction in which the server sends `reverse`."""
    if "end" in of_figure or of_report.get("direction") != "both":
        return {**of_report, **of_figure}
    return {**of_report, "way": "0-to-1" if of_figure.get("direction") == "reverse" else "1-to-0"}


IPERF3 = Workload(
    reader=reported_reader("iperf3", Iperf3Params, iperf3.report, lambda _params: METRICS, _label),
    about="TCP between two nodes with iperf3, in each direction: bandwidth, retransmits, CPU",
    task=_task,
    timed_s=lambda params: len(params.directions) * (params.seconds + params.omit_seconds),
)
