"""Memory bandwidth by STREAM's triad."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field

from assay.records import Metric, Reading, Shape, Task
from assay.workloads import payload_log
from assay.workloads.program import Params, program_task
from assay.workloads.workload import Workload

METRICS = (
    Metric(
        "bandwidth", "B/s", "higher", "bytes a second of all ranks together, STREAM's count, median triad"
    ),
    Metric("bandwidth_best", "B/s", "higher", "the same of the quickest triad, as STREAM reports it"),
)


class MembwParams(Params):
    """The triad a = b + s·c on arrays of float64.

    On one CPU core, about 3 s: `{min_time_s: 0.5}`.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"min_time_s": 0.5}]})

    array_bytes: int | None = Field(
        None,
        ge=8,
        multiple_of=8,
        description="Bytes of each of the three arrays on a rank; default: four times all last-level caches.",
    )
    min_time_s: float = Field(1.0, gt=0, description="Timed seconds.")
    device: Literal["auto", "cpu", "cuda"] = Field("auto", description="auto: the GPU where there is one.")


def _metrics(_params: MembwParams) -> tuple[Metric, ...]:
    return METRICS


def _task(params: MembwParams, _shape: Shape, _seed: int) -> Task:
    return program_task("assay_payloads.micro.membw", params)


def _read(logs: Mapping[str, Path], _params: MembwParams) -> Reading:
    return payload_log.read(logs, METRICS)


MEMBW = Workload(
    name="membw",
    about="STREAM's triad on CPU or GPU: memory bandwidth, checked",
    params=MembwParams,
    metrics=_metrics,
    sample="",
    flops=lambda _params: None,
    task=_task,
    read=_read,
    timed_s=lambda params: params.min_time_s,
)
