"""What a reader is: how the logs of a run become measurements, independent of how the run is made."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from assay.errors import InputError
from assay.formats.figures import few
from assay.records import Metric, Reading, Scalar, from_json, to_compact_json, to_plain
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


def run_reading(reader: Reader, logs: Mapping[str, Path], params: BaseModel) -> Reading:
    """The contents of a run's logs (name → path); what prevents a result is a problem of the reading."""
    if not logs:
        return Reading(problems=("it has no log",))
    try:
        return finite_reading(reader.read(logs, params))
    except InputError as error:
        return Reading(problems=(str(error),))
    except OverflowError as error:
        return Reading(problems=(f"a number in it is too large to compute with ({error})",))


def finite_reading(reading: Reading) -> Reading:
    """The reading as a file can hold it: a figure that is not finite is a problem, a setting is text."""
    training = reading.training
    if training is not None:
        training = replace(
            training,
            hyperparameters=_settings(training.hyperparameters),
            system=_settings(training.system),
        )
    reading = replace(reading, facts=_settings(reading.facts), training=training)
    wrong = tuple(_not_finite(reading))
    if not wrong:
        return reading
    return replace(
        reading, measurements=(), series=(), training=None, problems=(*reading.problems, *few(wrong))
    )


def _settings(stated: Mapping[str, Scalar]) -> dict[str, Scalar]:
    return {name: value if _is_finite(value) else str(value) for name, value in stated.items()}


def _not_finite(reading: Reading) -> Iterator[str]:
    """Each number that is not finite, and where it is."""
    for measurement in reading.measurements:
        for name, value in ((measurement.metric, measurement.value), *measurement.labels.items()):
            if not _is_finite(value):
                what = name if name == measurement.metric else f"the label {name} of {measurement.metric}"
                yield f"{measurement.file}:{measurement.line}: {what} is {value}, not a finite number"
    for curve in reading.series:
        if not all(map(math.isfinite, (*curve.x, *curve.y))):
            yield f"{curve.name} over its {curve.x_name}s has a point that is not a finite number"
    if not _is_finite(to_plain(reading.training) if reading.training else None):
        yield "its training has a figure that is not a finite number"


def _is_finite(plain: Any) -> bool:
    """Whether all numbers of plain data are."""
    if isinstance(plain, dict | list):
        return all(map(_is_finite, plain.values() if isinstance(plain, dict) else plain))
    return not isinstance(plain, float) or math.isfinite(plain)
