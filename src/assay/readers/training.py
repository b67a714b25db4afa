"""Trainings by our own programs: their figures, and to a target what MLPerf's rules make of their logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from assay.logs.mlperf import training_run
from assay.readers import payload_log
from assay.records import Metric, Reading, TrainingRun

STEP_TIME = Metric("step_time", "s", "lower", "one training step on the slowest rank", scales=False)
PER_EPOCH = Metric("time_per_epoch", "s", "lower", "run_start to run_stop over epochs: evaluation included")
TO_TARGET = (
    Metric("time_to_train", "s", "lower", "run_start to run_stop: training and evaluation to the target"),
    Metric("epochs_to_target", "epochs", None, "passes over the data to the target: the seed's luck"),
)
DATA_WAIT = Metric(
    "data_wait",
    "",
    "lower",
    "share of the time in training steps that waited for the next batch",
    scales=False,
)
OPERATOR_TIME = Metric(
    "operator_time", "s", None, "an operator itself in one step, of those that take most", scales=False
)
READ_RATE = Metric("read_rate", "B/s", "higher", "stored bytes read a second by all ranks together")

_LOG: Final = "rank-0.log"


class TrainingSettings(Protocol):
    """Parameters of a training that its figures depend on."""

    @property
    def mode(self) -> str:
        """`synthetic`, `real` or `data-only`."""

    @property
    def target(self) -> float | None:
        """Quality at which a real one ends; None where it ends with its last epoch."""

    @property
    def profile(self) -> int:
        """Steps that are profiled."""


def training_metrics(params: TrainingSettings, sample: str) -> tuple[Metric, ...]:
    """What a training workload reports in its mode, the primary metric first.

    sample  plural: `images`
    """
    rate = Metric("throughput", f"{sample}/s", "higher", f"{sample} trained a second by all ranks together")
    operators = (OPERATOR_TIME,) if params.profile else ()
    if params.mode == "synthetic":
        return (rate, STEP_TIME, *operators)
    if params.mode == "data-only":
        read = replace(rate, about=f"{sample} read and decoded a second by all ranks together")
        return (read, STEP_TIME, READ_RATE)
    to_target = TO_TARGET if params.target is not None else TO_TARGET[:1]
    # How long an epoch takes is the system's and comes first; how many it takes is the seed's.
    return (PER_EPOCH, *to_target, rate, DATA_WAIT, *operators)


def read_training(
    logs: Mapping[str, Path], params: TrainingSettings, metrics: Sequence[Metric], round_: str
) -> Reading:
    """What the logs of a training say; a real one is read by the rules of MLPerf's round as well."""
    if params.mode != "real":
        return payload_log.read(logs, metrics)
    return read_to_target(logs, metrics, lambda training: _no_result(training, params.target), round_)


def read_to_target(
    logs: Mapping[str, Path],
    metrics: Sequence[Metric],
    no_result: Callable[[TrainingRun], str],
    round_: str | None = None,
) -> Reading:
    """A training by MLPerf's rules. One that didn't succeed has a speed, and no time to a target.

    no_result  why a training has no time to train
    """
    if _LOG not in logs:
        return payload_log.read(logs, metrics)
    training = training_run(logs[_LOG], round_=round_)
    if training.status == "success":
        return replace(payload_log.read(logs, metrics), training=training)
    to_target = {metric.name for metric in TO_TARGET}
    reading = payload_log.read(logs, [metric for metric in metrics if metric.name not in to_target])
    return replace(reading, training=training, problems=(no_result(training), *reading.problems))


def _no_result(training: TrainingRun, target: float | None) -> str:
    if training.status in ("invalid", "unfinished"):
        return training.problem
    reached = [quality for _, quality in training.evaluations]
    told = f"evaluations gave {', '.join(f'{x:.4g}' for x in reached[-5:])}" if reached else "no evaluation"
    return f"target {target:g} was not reached: {training.status}, {told}"
