"""What a reader is: how the logs of a run become measurements, independent of how the run is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from assay.records import Metric, Reading, from_json, to_compact_json
from assay.registry import EntryPoint


class Params(BaseModel):
    """Parameters of a run: unknown keys are rejected, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)  # most models are never used


@dataclass(frozen=True)
class Reader:
    """How the logs of one kind of run are read.

    name       its name in a run: `trial.workload`
    params     pydantic model of the run's parameters, which rejects unknown keys: those of its workload, or
               what `assay import` noted about imported logs
    metrics    what the run reports for these parameters, the primary metric first
    read       measurements from the run's log files (name → path) and parameters. Never raises on the
               contents of a log: errors go into `Reading.problems`
    version    of `read`; increase it when the same log would be read differently
    flops      FLOPs to train on (or process) one sample with these parameters; None if unknown
    formats    whether `read` uses readers of formats by name, which may be of plug-ins
    """

    name: str
    params: type[BaseModel]
    metrics: Callable[[Any], tuple[Metric, ...]]
    read: Callable[[Mapping[str, Path], Any], Reading]
    version: int = 1
    flops: Callable[[Any], float | None] = lambda _params: None
    formats: bool = False


def guarded_reader(reader: Reader, plugin: EntryPoint) -> Reader:
    """The reader of a plug-in: where it raises or returns no reading, a run has a problem that names it."""
    if not issubclass(reader.params, BaseModel):
        raise TypeError(f"its params are {reader.params!r}; expected a pydantic model")

    def read(logs: Mapping[str, Path], params: Any) -> Reading:
        reader.metrics(params)
        reading = reader.read(logs, params)
        if not isinstance(reading, Reading):
            raise TypeError(f"it returns {reading!r}; expected a Reading")
        from_json(Reading, to_compact_json(reading))  # raises ValueError for what is not one
        return reading

    return replace(
        reader,
        metrics=plugin.guarded(reader.metrics),
        read=plugin.guarded(read, lambda failure: Reading(problems=(str(failure),))),
        flops=plugin.guarded(reader.flops, lambda _failure: None),
    )


IMPORTED: Final = {
    "mlperf": "assay.formats.mlperf:MLPERF",
    "numbers": "assay.formats.numbers:NUMBERS",
    "loadgen": "assay.formats.mlperf_inference:LOADGEN",
    "tf-cnn-benchmarks": "assay.formats.tf_cnn_benchmarks:TF_CNN",
    "tool-log": "assay.formats.tool_log:TOOL_LOG",
}
"""Where readers of imported runs are, by name. The readers of what Assay runs belong to their workloads."""
