"""Figures in the output of any program: by patterns, by keys of MLPerf log lines, or of a known program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.inputs import Log
from assay.logs import whole_numbers
from assay.logs.figures import Axis, LogFigure, LogFigures, lines
from assay.logs.mllog import EventReader
from assay.logs.patterns import Match, Pattern
from assay.logs.tool import Tool
from assay.logs.tools import read_log
from assay.readers.payload_log import finite
from assay.records import Scalar, TrainingRun
from assay.units import convert

if TYPE_CHECKING:
    from assay.logs.tf_cnn_benchmarks import CnnStep

VALUE = "value"
# What MLPerf's rules derive from a log: metric → its unit and how to compute it from a successful training.
TRAINING: Mapping[str, tuple[str, Callable[[TrainingRun], float | None]]] = {
    "time_to_train": ("min", lambda training: training.minutes),
    "epochs_to_target": ("epochs", lambda training: training.epochs),
    "time_per_epoch": ("min", lambda training: training.minutes_per_epoch),
    "throughput": ("samples/s", lambda training: training.samples_per_s),
}
# What tf_cnn_benchmarks prints: metric → its unit and how to read it from a step's line; totals are separate.
TOTAL = "throughput"
CNN: Mapping[str, tuple[str, Callable[[CnnStep], float | None]]] = {
    TOTAL: ("images/s", lambda _step: None),
    "worker_throughput": ("images/s", lambda step: step.images_per_s),
    "standard_error": ("images/s", lambda step: step.error_per_s),
    "jitter": ("images/s", lambda step: step.jitter_per_s),
    "loss": ("", lambda step: step.loss),
    "top_1_accuracy": ("", lambda step: step.accuracies[0] if step.accuracies else None),
}
STEPS: tuple[Axis, ...] = ("step", "epoch")


def by_patterns(
    path: Path, patterns: Mapping[str, Pattern], units: Mapping[str, str], log: LogFigures
) -> set[str]:
    """Every match of each metric's pattern in each line; returns the metrics with a match, number or not.

    The group `value` is the figure, `step` and `epoch` its place, and other named groups its labels. A match
    that isn't a number, or is only part of one, is a problem.
    A carriage return also ends a line, so that progress bars are read, but doesn't count as a line.

    units  metric → unit of its figures
    """
    matched: set[str] = set()
    for line, text in lines(path, log, kind=Log):
        for metric, pattern in patterns.items():
            for match in pattern.matches(text):
                matched.add(metric)
                log.more(f"{path.name}:{line}")
                problem = _no_figure(pattern, match, units[metric])
                if problem:
                    log.problems.append(f"{path.name}:{line}: {metric}: {problem}")
                else:
                    groups = dict(match.groups)
                    value = float(groups.pop(VALUE) or "")
                    position = {axis: float(groups.pop(axis) or "") for axis in STEPS if axis in groups}
                    log.figures.append(LogFigure(metric, value, groups, position, line))
    return matched


def _no_figure(pattern: Pattern, match: Match, unit: str) -> str:
    """Why a match is not a figure with its place; "" if it is one."""
    for group in (VALUE, *STEPS):
        if group in match.groups:
            problem = whole_numbers.not_a_number(match, group)
            problem = problem or whole_numbers.fault(pattern, match, group, unit if group == VALUE else "")
            if problem:
                return problem
    return ""


def by_keys(path: Path, units: Mapping[str, str], log: LogFigures) -> set[str]:
    """The value of every MLPerf log line whose key is a metric's name, in the metric's unit.

    Returns the metrics that have such a line, with a usable value or not.

    units  metric → unit of its figures if a line states none
    """
    reader = EventReader(path)
    matched: set[str] = set()
    for event in reader:
        if event.kind != "point" or event.key not in units:
            continue
        matched.add(event.key)
        unit, value = str(event.metadata.get("unit", units[event.key])), finite(event.value)
        where = f"{path.name}:{event.line}: {event.key}"
        log.more(where)
        if value is None:
            log.problems.append(f"{where}: {event.value!r} is not a finite number")
            continue
        try:
            value = convert(value, unit, units[event.key])
        except ValueError:
            log.problems.append(f"{where} is in {unit!r}, expected {units[event.key]!r}")
            continue
        log.figures.append(
            LogFigure(event.key, value, _labels(event.metadata), _place(event.metadata), event.line)
        )
    log.skipped += reader.skipped
    return matched


def by_rules(path: Path, units: Mapping[str, str], log: LogFigures) -> TrainingRun:
    """A training that follows MLPerf's rules: the requested metrics of `TRAINING`, in the requested units.

    A training that did not succeed is a problem.
    """
    from assay.logs.mlperf import training_run

    training = training_run(path)
    if training.status != "success":
        log.problems.append(f"{path.name}: the training is {training.status}: {training.problem}")
        return training
    stops = [event.line for event in EventReader(path) if event.key == "run_stop"]
    for metric, unit in units.items():
        own_unit, figure_of = TRAINING[metric]
        value = figure_of(training)
        if value is not None:
            log.figures.append(LogFigure(metric, convert(value, own_unit, unit), {}, {}, stops[-1]))
    return training


def by_tf_cnn_benchmarks(path: Path, units: Mapping[str, str], log: LogFigures) -> None:
    """The requested metrics of `CNN`, in the requested units. A run without a result is a problem."""
    from assay.logs.tf_cnn_benchmarks import cnn_run

    run = cnn_run(path)
    log.facts.update(run.facts)
    log.skipped += run.skipped
    log.cut += run.cut
    if run.problem:
        log.problems.append(f"{path.name}: {run.problem}")
        return
    for metric, unit in units.items():
        own_unit, figure_of = CNN[metric]
        if metric == TOTAL:
            printed: list[tuple[float | None, int, dict[Axis, float]]] = [
                (v, line, {}) for v, line in run.totals
            ]
        else:
            printed = [(figure_of(step), step.line, {"step": float(step.step)}) for step in run.steps]
        log.figures += [
            LogFigure(metric, convert(value, own_unit, unit), {}, place, line)
            for value, line, place in printed
            if value is not None
        ]


def by_tool(path: Path, tool: Tool, units: Mapping[str, str], log: LogFigures) -> None:
    """The requested figures of a tool, in the requested units. A failure is a problem."""
    run = read_log(tool.name, path)
    log.facts.update(run.facts)
    log.skipped += run.skipped
    log.cut += run.cut
    if run.problems:
        log.problems += [f"{path.name}: {problem}" for problem in run.problems]
        return
    for figure in run.figures:
        if figure.metric not in units:
            continue
        unit = units[figure.metric]
        try:
            value = convert(figure.value, figure.unit, unit)
        except ValueError:
            where = f"{path.name}:{figure.line}: {figure.metric}"
            log.problems.append(f"{where} is in {figure.unit!r}, expected {unit!r}")
            continue
        log.figures.append(replace(figure, value=value, unit=unit))


def _labels(metadata: Mapping[str, Any]) -> dict[str, Scalar]:
    labels = metadata.get("labels")
    return {k: v for k, v in labels.items() if isinstance(v, Scalar)} if isinstance(labels, dict) else {}


def _place(metadata: Mapping[str, Any]) -> dict[Axis, float]:
    named: tuple[tuple[str, Axis], ...] = (("step", "step"), ("epoch", "epoch"), ("epoch_num", "epoch"))
    places = {axis: finite(metadata[key]) for key, axis in named if key in metadata}
    return {axis: x for axis, x in places.items() if x is not None}
