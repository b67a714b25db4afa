"""Imported MLPerf Training logs: read, never run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from assay.logs.mllog import EventReader
from assay.logs.mlperf import training_run
from assay.readers.mlperf_flops import sample_flops
from assay.readers.reader import Params, Reader
from assay.records import Measurement, Metric, Reading, Scalar, Series, TrainingRun

# Time to train mixes two things: the system decides how long an epoch takes, the seed how many it takes.
# The verdict rests on the first, or on throughput if the log counts no epochs.
TIME_PER_EPOCH = Metric("time_per_epoch", "s", "lower", "time to train over epochs: evaluation included")
TIME_TO_TRAIN = Metric("time_to_train", "s", "lower", "run_start to run_stop: what MLPerf scores")
EPOCHS = Metric("epochs_to_target", "epochs", None, "passes over the data to the target", scales=False)
THROUGHPUT = Metric("throughput", "samples/s", "higher", "samples to the target over time to train")


class MlperfLogParams(Params):
    """What is known of a log besides its own lines."""

    round: str | None = None
    benchmark: str | None = None


def _flops(params: MlperfLogParams) -> float | None:
    known = sample_flops(params.benchmark, params.round)
    return None if known is None else known.flops


def _read(logs: Mapping[str, Path], params: MlperfLogParams) -> Reading:
    [(name, path), *more] = logs.items()
    if more:
        return Reading(problems=(f"found {len(logs)} logs of one run; expected one result file",))
    training = training_run(path, name=name, round_=params.round, benchmark=params.benchmark)
    if training.status != "success":
        return Reading(problems=(training.problem,), training=training)
    return Reading(
        measurements=_measurements(training, path),
        series=_series(training),
        facts={**_settings(training), "benchmark": training.benchmark, "round": training.round},
        training=training,
    )


def _settings(training: TrainingRun) -> dict[str, Scalar]:
    """What the log states; train_samples only if it is the size of a data set, and then as that size."""
    stated = {name: value for name, value in training.hyperparameters.items() if name != "train_samples"}
    return (
        stated
        if training.data_set_samples is None
        else {**stated, "train_samples": training.data_set_samples}
    )


def _measurements(training: TrainingRun, path: Path) -> tuple[Measurement, ...]:
    """Each figure with the line that completes it: run_stop or the last evaluation."""
    lines = {
        event.key: event.line for event in EventReader(path) if event.key in ("run_stop", "eval_accuracy")
    }
    stop, evaluation = lines["run_stop"], lines.get("eval_accuracy", lines["run_stop"])
    per_epoch = training.minutes_per_epoch
    figures = (
        (TIME_PER_EPOCH, None if per_epoch is None else per_epoch * 60, stop),
        (THROUGHPUT, training.samples_per_s, stop),
        (TIME_TO_TRAIN, None if training.minutes is None else training.minutes * 60, stop),
        (EPOCHS, training.epochs, evaluation),
    )
    return tuple(
        Measurement(metric.name, value, metric.unit, {}, training.file, line)
        for metric, value, line in figures
        if value is not None
    )


def _series(training: TrainingRun) -> tuple[Series, ...]:
    """Evaluations by epoch, or by sample if the log counts samples."""
    if not training.evaluations:
        return ()
    x, y = zip(*training.evaluations, strict=True)
    return (Series("eval_accuracy", "", "samples" if training.epochs is None else "epoch", x, y),)


MLPERF = Reader(
    name="mlperf",
    params=MlperfLogParams,
    metrics=lambda _params: (TIME_PER_EPOCH, THROUGHPUT, TIME_TO_TRAIN, EPOCHS),
    flops=_flops,
    read=_read,
    version=7,
)
