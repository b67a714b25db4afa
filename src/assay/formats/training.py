"""Trainings by Assay's own programs: their figures, and for trainings to a target MLPerf's rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol

from assay.formats import payload_log
from assay.formats.mlperf import training_run
from assay.records import Metric, Reading, TrainingRun

STEP_TIME = Metric("step_time", "s", "lower", "one training step on the slowest rank", scales=False)
PER_EPOCH = Metric("time_per_epoch", "s", "lower", "run_start to run_stop over epochs: evaluation included")
TO_TARGET = (
    Metric("time_to_train", "s", "lower", "run_start to run_stop: training and evaluation to the target"),
    Metric(
        "epochs_to_target", "epochs", None, "passes over the data to reach the target; depends on the seed"
    ),
)
DATA_WAIT = Metric(
    "data_wait",
    "",
    "lower",
    "share of training-step time spent waiting for the next batch",
    scales=False,
)
OPERATOR_TIME = Metric(
    "operator_time", "s", None, "time of one operator in one step, for the slowest operators", scales=False
)
READ_RATE = Metric("read_rate", "B/s", "higher", "stored bytes read per second by all ranks together")

_LOG: Final = "rank-0.log"


class TrainingSettings(Protocol):
    """Parameters that the figures of a training depend on."""

    @property
    def mode(self) -> str:
        """`synthetic`, `real`, or `data-only`."""

    @property
    def target(self) -> float | None:
        """Quality at which a real training ends; None if it ends with its last epoch."""

    @property
    def profile(self) -> int:
        """Steps that are profiled."""


def training_metrics(params: TrainingSettings, sample: str) -> tuple[Metric, ...]:
    """What a training workload reports in its mode, the primary metric first.

    sample  plural: `images`
    """
    rate = Metric("throughput", f"{sample}/s", "higher", f"{sample} trained per second by all ranks together")
    operators = (OPERATOR_TIME,) if params.profile else ()
    if params.mode == "synthetic":
        return (rate, STEP_TIME, *operators)
    if params.mode == "data-only":
        read = replace(rate, about=f"{sample} read and decoded per second by all ranks together")
        return (read, STEP_TIME, READ_RATE)
    to_target = TO_TARGET if params.target is not None else TO_TARGET[:1]
    # The time per epoch depends on the system, so it comes first; the number of epochs depends on the seed.
    return (PER_EPOCH, *to_target, rate, DATA_WAIT, *operators)


def read_training(
    logs: Mapping[str, Path], params: TrainingSettings, metrics: Sequence[Metric], round_: str
) -> Reading:
    """What the logs of a training say; a real training is also read by the rules of its MLPerf round."""
    if params.mode != "real":
        return payload_log.read(logs, metrics)
    return read_to_target(logs, metrics, lambda training: _no_result(training, params.target), round_)


def read_to_target(
    logs: Mapping[str, Path],
    metrics: Sequence[Metric],
    no_result: Callable[[TrainingRun], str],
    round_: str | None = None,
) -> Reading:
    """A training by MLPerf's rules. A training that fails has a speed, but no time to target.

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
    progress = (
        f"evaluations reached {', '.join(f'{x:.4g}' for x in reached[-5:])}" if reached else "no evaluation"
    )
    return f"target {target:g} was not reached: {training.status}, {progress}"
