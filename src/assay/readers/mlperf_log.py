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
    found = training_run(path, name=name, round_=params.round, benchmark=params.benchmark)
    if found.status != "success":
        return Reading(problems=(found.problem,), training=found)
    return Reading(
        measurements=_measurements(found, path),
        series=_series(found),
        facts={**_settings(found), "benchmark": found.benchmark, "round": found.round},
        training=found,
    )


def _settings(found: TrainingRun) -> dict[str, Scalar]:
    """What the log states; train_samples only if it is the size of a data set, and then as that size."""
    stated = {name: value for name, value in found.hyperparameters.items() if name != "train_samples"}
    return stated if found.data_set_samples is None else {**stated, "train_samples": found.data_set_samples}


def _measurements(found: TrainingRun, path: Path) -> tuple[Measurement, ...]:
    """Each figure with the line that completes it: run_stop or the last evaluation."""
    lines = {
        event.key: event.line for event in EventReader(path) if event.key in ("run_stop", "eval_accuracy")
    }
    stop, evaluation = lines["run_stop"], lines.get("eval_accuracy", lines["run_stop"])
    per_epoch = found.minutes_per_epoch
    figures = (
        (TIME_PER_EPOCH, None if per_epoch is None else per_epoch * 60, stop),
        (THROUGHPUT, found.samples_per_s, stop),
        (TIME_TO_TRAIN, None if found.minutes is None else found.minutes * 60, stop),
        (EPOCHS, found.epochs, evaluation),
    )
    return tuple(
        Measurement(metric.name, value, metric.unit, {}, found.file, line)
        for metric, value, line in figures
        if value is not None
    )


def _series(found: TrainingRun) -> tuple[Series, ...]:
    """Evaluations by epoch, or by sample if the log counts samples."""
    if not found.evaluations:
        return ()
    x, y = zip(*found.evaluations, strict=True)
    return (Series("eval_accuracy", "", "samples" if found.epochs is None else "epoch", x, y),)


MLPERF = Reader(
    name="mlperf",
    params=MlperfLogParams,
    metrics=lambda _params: (TIME_PER_EPOCH, THROUGHPUT, TIME_TO_TRAIN, EPOCHS),
    flops=_flops,
    read=_read,
    version=7,
)
