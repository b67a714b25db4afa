"""Memory bandwidth, measured with STREAM's triad."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from assay.formats.reader import Params
from assay.records import Metric, Shape, Task
from assay.workloads.payload_log import payload_reader
from assay.workloads.program import program_task
from assay.workloads.workload import Workload, example

METRICS = (
    Metric(
        "bandwidth",
        "B/s",
        "higher",
        "bytes per second of all ranks together, counted as in STREAM, median triad",
    ),
    Metric("bandwidth_best", "B/s", "higher", "the same for the fastest triad, as STREAM reports it"),
)


class MembwParams(Params):
    """The triad a = b + s·c on arrays of float64.

    About 3 s on one CPU core: `{min_time_s: 0.5}`.
    """

    model_config = example(min_time_s=0.5)

    array_bytes: int | None = Field(
        None,
        ge=8,
        multiple_of=8,
        description="Size of each of the three arrays on a rank; default: four times the last-level caches.",
    )
    min_time_s: float = Field(1.0, gt=0, description="Seconds to time.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU if there is one.")


def _task(params: MembwParams, _shape: Shape, _seed: int) -> Task:
    return program_task("assay_payloads.micro.membw", params)


MEMBW = Workload(
    reader=payload_reader("membw", MembwParams, METRICS),
    about="STREAM's triad on CPU or GPU: memory bandwidth, results checked",
    task=_task,
    timed_s=lambda params: params.min_time_s,
)
