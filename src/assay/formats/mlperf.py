"""One MLPerf Training log → one `TrainingRun`, for every round since v0.5.

Time to train is run_stop − run_start. A run succeeded if its log says so and its own evaluation reached
the target of its round. What a file lacks or contradicts is reported as text in `problem`, `notes`, and
`doubts`; there is never a number for a run that did not succeed.

    from assay.formats.mlperf import training_runs
    from assay.formats.result_sets import find_sets

    for result_set in find_sets([Path("logs")]):
        for run in training_runs(result_set):
            print(result_set.name, run.file, run.status, run.problem or run.minutes)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.formats.benchmarks import benchmark_name, throughput_in_samples
from assay.formats.doubts import EVENTS_OUT_OF_ORDER, cache_doubt, throughput_contradicts
from assay.formats.mllog import Event, EventReader, is_number
from assay.formats.reader import Params, Reader
from assay.formats.result_sets import ResultSet, round_of
from assay.formats.sample_flops import sample_flops
from assay.formats.stated_system import logged_system, platform_size
from assay.formats.training_length import Evaluation, TrainingLength, final_values, training_length
from assay.formats.training_log import TrainingLog
from assay.formats.training_phases import training_phases
from assay.records import (
    Measurement,
    Metric,
    Reading,
    Scalar,
    Series,
    TrainingPhases,
    TrainingRun,
    TrainingStatus,
)
from assay.targets import QualityTarget, binds_open_division, era_of

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


LONGEST_MINUTES: Final = 366 * 24 * 60.0  # no training takes a year: one of its two times is wrong
ROUNDING: Final = 1e-9  # by which a score that is a mean of logarithms may exceed its maximum


def training_runs(result_set: ResultSet, *, round_: str | None = None) -> Iterator[TrainingRun]:
    """The runs of a set, read lazily; `round_` applies if neither log nor folder states it."""
    for file in result_set.files:
        yield training_run(
            file,
            round_=result_set.round or round_,
            benchmark=result_set.benchmark,
            accelerators=result_set.accelerators,
        )


def training_run(
    path: Path,
    *,
    name: str | None = None,
    round_: str | None = None,
    benchmark: str | None = None,
    accelerators: int | None = None,
) -> TrainingRun:
    """What a training log says, whatever is wrong with it; never raises on its contents.

    name          for messages and the record's `file`; the file's own name unless given
    round_        used if the log's own form doesn't show it and no folder in the path does
    benchmark     used if the log doesn't say
    accelerators  number that took part, for logs that state the throughput of one
    """
    log = TrainingLog(EventReader(path))
    try:
        for event in log.reader:
            log.add(event)
    except InputError as error:
        log.unreadable = error.problems[0].what
    named = benchmark_name(log.benchmark) if log.benchmark else benchmark
    of_round = log.round or round_of(path.absolute()) or round_
    status, problem = _status(log)
    reached: bool | None = None
    notes = _notes(log)
    evaluations = log.before_stop(named)
    system, unread = logged_system(log.reader.head)
    system = {**platform_size(log.word("submission_platform") or ""), **system}
    notes += [unread] * bool(unread)
    if status == "success":
        reached, why = _reached(log, evaluations, named, of_round)
        if reached is False:
            status, problem = "invalid", why
        elif why:
            notes.append(why)
    succeeded = status == "success"
    length = training_length(
        evaluations,
        log.size,
        benchmark=named,
        round_=of_round,
        submitter=log.word("submission_org"),
        batch=log.number("global_batch_size"),
    )
    notes += length.notes
    if log.benchmark is None and benchmark is not None:
        notes.append(f"the log does not name its benchmark; {benchmark} is taken from the folder")
    own, throughput_note = throughput_in_samples(log.throughput, named, of_round, accelerators)
    notes += [throughput_note] * bool(throughput_note)
    phases = _phases(log, length, own) if status in ("success", "aborted") else None
    contradicted = throughput_contradicts(phases, own) if succeeded else None
    if contradicted is not None and length.multiplied:
        length = replace(length, samples=None)
        phases = None if phases is None else replace(phases, samples=None)
    backwards = log.backwards or log.bounds.after_stop(named)
    not_cleared = cache_doubt(log.reader.head) if log.claims_cache_cleared else None
    doubts = (
        not_cleared,
        EVENTS_OUT_OF_ORDER.doubt(backwards) if succeeded and backwards else None,
        length.doubt,
        contradicted,
    )
    return TrainingRun(
        file=name or path.name,
        status=status,
        problem=problem,
        benchmark=named,
        round=of_round,
        minutes=log.minutes if succeeded else None,
        init_minutes=log.init_minutes,
        epochs=length.epochs if succeeded else None,
        samples=length.samples if succeeded else None,
        global_batch_size=log.number("global_batch_size"),
        train_samples=log.number("train_samples"),
        evaluations=length.evaluations,
        hyperparameters=log.hyperparameters(),
        notes=tuple(notes),
        doubts=tuple(doubt for doubt in doubts if doubt),
        phases=phases,
        started_at=log.started_at,
        caches_dropped=not_cleared is None if log.claims_cache_cleared else None,
        target_reached=reached,
        data_set_samples=length.data_set,
        tracked_samples_per_s=own if succeeded else None,
        system=system,
    )


def _phases(log: TrainingLog, length: TrainingLength, own: float | None) -> TrainingPhases | None:
    if log.window_ms is None:
        return None
    trained_ms = length.samples / own * 1000 if length.samples and own else None
    return training_phases(log.timeline, *log.window_ms, length, trained_ms=trained_ms)


def _status(log: TrainingLog) -> tuple[TrainingStatus, str]:
    """How the run ended, and as text why that is not a result."""
    if problem := _unusable(log):
        return "invalid", problem
    if not log.starts and not log.stops:
        return "unfinished", f"no run_start: the run never started; {_last_event(log)}"
    if not log.stops:
        return "unfinished", f"no run_stop: {_last_event(log)}"
    if problem := _contradiction(log):
        return "invalid", problem
    status = _stated_status(log.stops[0])
    if status == "success":
        return "success", ""
    return "aborted", f"run_stop says {status}: the target was not reached in {log.minutes:.2f} minutes"


def _unusable(log: TrainingLog) -> str:
    """Why the file can't be a training log, or can't be read to its end; "" if it can."""
    reader = log.reader
    if log.unreadable:
        return log.unreadable
    if reader.problem:
        return f"{reader.problem}; {_last_event(log)}"
    if log.last is None:
        if not reader.head:
            return "the file is empty"
        if reader.skipped:
            first = reader.skipped_at[0]
            return f"none of its {reader.skipped} token lines can be parsed (the first: line {first})"
        return "no MLPerf log line in it (:::MLLOG, :::MLL, or :::MLPv0.5)"
    if log.loadgen and not log.starts:
        return "a LoadGen inference log (mlperf_log_detail.txt), not a training log"
    return ""


def _contradiction(log: TrainingLog) -> str:
    """What is wrong between run_start and run_stop; "" if nothing is."""
    if not log.starts:
        return "run_stop without run_start: the beginning of the log is missing"
    if log.minutes is None:
        return "run_start or run_stop has no time"
    if log.minutes <= 0:
        return f"run_stop is {-log.minutes * 60:.1f} s before run_start"
    if log.minutes > LONGEST_MINUTES:
        return f"run_stop is {log.minutes:,.0f} minutes after run_start: one of these times is wrong"
    if log.bounds.several:
        return f"contains more than one run: {log.bounds.several}; put each run in its own file"
    if log.starts[-1].line > log.stops[0].line:
        return f"contains more than one run: run_start again at line {log.starts[-1].line}, after run_stop"
    if early := log.bounds.before_start():
        return f"{early}: one of these times is wrong"
    if log.timeline.impossible:
        return log.timeline.impossible
    if (step := log.number("resumed_from_step")) is not None:
        return f"resumed from a checkpoint at step {step}: the time before it is in another log"
    lines_by_status = {_stated_status(stop): stop.line for stop in reversed(log.stops)}
    if len(lines_by_status) > 1:
        lines = ", ".join(f"{status or 'nothing'} (line {line})" for status, line in lines_by_status.items())
        return f"run_stop lines disagree: {lines}"
    return "" if log.stops and any(lines_by_status) else "run_stop states no status"


def _stated_status(stop: Event) -> str:
    """`success`, `aborted`, or whatever else run_stop says; "" if it says nothing."""
    status = stop.metadata.get("status")
    if status is None and isinstance(stop.value, dict):  # v0.5
        succeeded = stop.value.get("success")
        return "success" if succeeded is True else "aborted" if succeeded is False else ""
    return status if isinstance(status, str) else ""


def _last_event(log: TrainingLog) -> str:
    last = log.last
    if last is None:
        return "no event was read"
    text = f"the last event is {last.key} at line {last.line}"
    if log.starts and log.starts[0].time_ms is not None and last.time_ms is not None:
        text += f", {(last.time_ms - log.starts[0].time_ms) / 60_000:.2f} minutes after run_start"
    return text + ("; the last line is truncated" if log.reader.cut else "")


def _notes(log: TrainingLog) -> list[str]:
    notes = []
    reader = log.reader
    if reader.skipped:
        lines = ", ".join(map(str, reader.skipped_at)) + (
            " …" if reader.skipped > len(reader.skipped_at) else ""
        )
        notes.append(f"{reader.skipped} token lines could not be parsed (line {lines})")
    if log.bounds.several:
        return notes
    if len(log.starts) > 1 or len(log.stops) > 1:
        notes.append(
            f"{len(log.starts)} run_start and {len(log.stops)} run_stop lines: the first and the last are "
            "used"
        )
    if len(log.points.get("seed", ())) > 1:
        notes.append(f"{len(log.points['seed'])} seeds, one per rank; the smallest represents the run")
    return notes


def _reached(
    log: TrainingLog, evaluations: Sequence[Evaluation], benchmark: str | None, round_: str | None
) -> tuple[bool | None, str]:
    """Whether the last evaluation reached the round's target, and why not, or why that is unknown."""
    subject = f"{benchmark or 'an unknown benchmark'} in {round_ or 'an unknown round'}"
    era = era_of(benchmark, round_)
    if era is None or not era.targets:
        return None, f"can't check whether the target was reached: no target is known for {subject}"
    targets, stated = era.targets, ""
    if log.is_our_own:  # it states its own target, or none
        own = [value for value in log.points.get("target_quality", ()) if is_number(value)]
        if len(own) != 1 or len(targets) > 1:
            return None, f"trained to its own target, not to that of {subject}"
        targets, stated = (replace(targets[0], value=float(own[0])),), " that the log states"
    elif log.word("submission_division") == "open" and not binds_open_division(benchmark, round_):
        return None, f"the open division has no target for {subject}: a run may stop anywhere"
    final = final_values(evaluations)
    missed = [text for target in targets if (text := _missed(target, final))]
    if not missed:
        return True, ""
    if late := [e.line for e in log.evaluations if e not in evaluations]:
        missed.append(f"line {late[0]} has an evaluation after run_stop, which doesn't count")
    whose = stated or f" of {subject}"
    return False, f"run_stop says success, but the target{whose} was not reached: {'; '.join(missed)}"


def _missed(target: QualityTarget, final: Mapping[str, tuple[float, int]]) -> str:
    """Why an evaluation doesn't meet a target; "" if it does."""
    evaluation = target.value_in(final)
    if evaluation is None:
        return f"no evaluation of {target} before run_stop"
    value, line = evaluation
    if not 0 <= value <= target.largest * (1 + ROUNDING):
        return f"the last evaluation is {value:.6g} (line {line}), but it can't be {_outside(target)}"
    return "" if target.reached(value) else f"the last evaluation is {value:.6g} (line {line}), not {target}"


def _outside(target: QualityTarget) -> str:
    most = "" if math.isinf(target.largest) else f" or above {target.largest:g}"
    return f"below 0{most}"
