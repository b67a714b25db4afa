"""TCP between two nodes by iperf3, which has to be on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pydantic import ConfigDict, Field

from assay.logs import iperf3
from assay.readers.reader import Params
from assay.readers.site_reports import reported_reader
from assay.records import Scalar, Shape, Task
from assay.workloads.program import program_task
from assay.workloads.two_workers import Direction, check_two_workers
from assay.workloads.workload import Workload

_OF_UDP: Final = ("jitter", "lost")
METRICS: Final = tuple(metric for metric in iperf3.METRICS if metric.name not in _OF_UDP)


class Iperf3Params(Params):
    """TCP streams from one worker to the other, and back: what arrived, what was sent again, what CPUs did.

    Two workers, `2x1` or with as many accelerators as the nodes have; the first rank of each takes part. The
    defaults take about 25 s. How it runs, and how to read it: docs/point-to-point.md.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"streams": 4, "seconds": 5}]})

    streams: int = Field(1, ge=1, le=128, description="Connections at the same time.")
    seconds: int = Field(10, ge=1, description="Counted seconds of each direction.")
    omit_seconds: int = Field(1, ge=0, le=600, description="Seconds before them: TCP finds its rate.")
    directions: tuple[Direction, ...] = Field(
        ("0-to-1", "1-to-0"),
        min_length=1,
        description="Of the data, between worker 0 and worker 1, one after the other; both: at once.",
    )
    window_bytes: int | None = Field(
        None, ge=1024, description="Of a socket's buffers; default: as the kernel sizes them."
    )
    congestion: str | None = Field(
        None, pattern=r"^\w+$", description="Control algorithm, like cubic or bbr; default: the kernel's."
    )
    program: str = Field(
        "iperf3", min_length=1, description="The program's path on the nodes, or its name on the PATH."
    )
    port: int | None = Field(
        None, ge=1, le=65535, description="TCP port that it serves on; default: one that is free."
    )


def _task(params: Iperf3Params, shape: Shape, _seed: int) -> Task:
    check_two_workers(shape)
    return program_task("assay_payloads.exchange.iperf3", params)


def _label(of_report: Mapping[str, Scalar], of_figure: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Of a test of both directions at once iperf3 calls one `reverse`: what the server sends."""
    if "end" in of_figure or of_report.get("direction") != "both":
        return {**of_report, **of_figure}
    return {**of_report, "way": "0-to-1" if of_figure.get("direction") == "reverse" else "1-to-0"}


IPERF3 = Workload(
    reader=reported_reader("iperf3", Iperf3Params, iperf3.report, lambda _params: METRICS, _label),
    about="TCP between two nodes by iperf3, in each direction: bandwidth, retransmits, CPU",
    task=_task,
    timed_s=lambda params: len(params.directions) * (params.seconds + params.omit_seconds),
)
