"""Metrics that a suite declares for any program: where rank 0 prints each, and which figure counts.

Figures are found by patterns, by keys of MLPerf log lines, or by the format of a known program.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from assay.errors import PluginError
from assay.formats.figures import Axis, LogFigure, LogFigures, few, lines
from assay.formats.mllog import EventReader
from assay.formats.patterns import (
    NUMBER,
    Match,
    Pattern,
    compiled,
    fault,
    not_a_number,
    without_separators,
)
from assay.formats.reader import Params
from assay.formats.tf_cnn_benchmarks import STEP_UNITS, THROUGHPUT, cnn_run
from assay.formats.tools import TOOLS, read_log
from assay.inputs import LONGEST_LINE, Log
from assay.records import Better, Measurement, Metric, Reading, Scalar, Series, TrainingRun
from assay.units import convert, factor
from assay.workloads.payload_log import finite
from assay.workloads.workload import example

VALUE = "value"
# What MLPerf's rules derive from a log: metric → its unit and how to compute it from a successful training.
TRAINING: Mapping[str, tuple[str, Callable[[TrainingRun], float | None]]] = {
    "time_to_train": ("min", lambda training: training.minutes),
    "epochs_to_target": ("epochs", lambda training: training.epochs),
    "time_per_epoch": ("min", lambda training: training.minutes_per_epoch),
    "throughput": ("samples/s", lambda training: training.samples_per_s),
}
CNN: Final = {THROUGHPUT.name: THROUGHPUT.unit, **STEP_UNITS}  # what tf_cnn_benchmarks prints
STEPS: tuple[Axis, ...] = ("step", "epoch")


def by_patterns(
    path: Path,
    patterns: Mapping[str, Pattern],
    units: Mapping[str, str],
    log: LogFigures,
    thousands: Mapping[str, str],
) -> set[str]:
    """Every match of each metric's pattern in each line; returns the metrics with a match, number or not.

    The group `value` is the figure, `step` and `epoch` its place, and other named groups its labels. A match
    that isn't a number, or is only part of one, is a problem.
    A carriage return also ends a line, so that progress bars are read, but doesn't count as a line.

    units      metric → unit of its figures
    thousands  metric → what separates the thousands of its figures, for those where something does
    """
    matched: set[str] = set()
    for line, text in lines(path, log, kind=Log):
        for metric, pattern in patterns.items():
            for match in pattern.matches(text):
                if separator := thousands.get(metric):
                    match = without_separators(match, VALUE, separator)
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
            problem = not_a_number(match, group)
            problem = problem or fault(pattern, match, group, unit if group == VALUE else "")
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
    from assay.formats.mlperf import training_run

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


def by_program(path: Path, run: LogFigures, units: Mapping[str, str], log: LogFigures) -> None:
    """The requested figures of a program's log, in the requested units. A failure is a problem."""
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


_LOG: Final = "rank-0.log"
_LONGEST_PATTERN = 500

# Readers that are no format of a program's log.
_OWN: Final = ("mllog", "mlperf", "tf_cnn_benchmarks")


class CommandMetric(Params):
    """One metric: where its figure is in the log, its unit, its better direction, which of several counts.

    `rate: {pattern: 'images/sec: (?P<value>[-+.0-9eE]+)', unit: images/s, better: higher, pick: median}`
    """

    model_config = example(pattern=rf"images/sec: (?P<value>{NUMBER})", unit="images/s", better="higher")

    pattern: str | None = Field(
        None,
        max_length=_LONGEST_PATTERN,
        description="Regular expression searched in every line of rank 0, whose figure counts for all ranks: "
        "print totals there. Python's syntax, without lookaround and "
        "backreferences (the engine is RE2, whose running time is bounded). The group named `value` must "
        "match the whole figure: matching only part of a number is a problem of the run. Groups named `step` "
        "and `epoch` make a series of all figures; other named groups are labels. Only the first "
        f"{LONGEST_LINE} bytes of a line are searched.",
    )
    reader: str | None = Field(
        None,
        json_schema_extra=lambda schema: schema.update(anyOf=[{"enum": [*_readers()]}, {"type": "null"}]),
        description="Instead of a pattern. mllog: MLPerf log lines whose key is the metric's name. mlperf: "
        "a training log read by MLPerf's rules; the metric is one of "
        f"{', '.join(TRAINING)}. "
        "tf_cnn_benchmarks: what that program prints; the metric is one of "
        f"{', '.join(CNN)}. "
        "horovod (its synthetic benchmarks), timm (train.py, benchmark.py), deeplearningexamples (with their "
        "own names, like train.total_ips), and every other program of `assay import --format`: what those "
        "print; a run that failed has no figures.",
    )
    unit: str = Field("", description="Unit of the figure as printed: images/s, MB/s, ms; none for a count.")
    better: Better | None = Field(
        None,
        description="`higher` or `lower`: which direction is an improvement. Without it, Assay reports that "
        "the figure changed, but not whether it is better or worse.",
    )
    pick: Literal["last", "first", "mean", "median", "min", "max"] = Field(
        "last",
        description="`last`, `first`, `mean`, `median`, `min`, or `max`: which figure counts if several are "
        "printed with equal labels.",
    )
    thousands: Literal[",", "_", "'"] | None = Field(
        None,
        exclude_if=lambda separator: separator is None,
        description="What separates the thousands of the pattern's figures: `,` for 9,477.7. Without it, "
        "such a figure is a problem of the run.",
    )
    about: str = Field("", description="One-line description for people.")

    @field_validator("pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        if pattern is None:
            return None
        if VALUE not in compiled(pattern).names:
            raise ValueError(
                f"{pattern!r} has no group named value; write (?P<value>{NUMBER}) around the number"
            )
        return pattern

    @field_validator("reader")
    @classmethod
    def _is_a_reader(cls, reader: str | None) -> str | None:
        if reader is None or reader in _OWN:
            return reader
        if reader not in TOOLS:
            names = ", ".join(map(repr, _readers()))
            raise PydanticCustomError("literal_error", f"Input should be {names}")
        try:
            TOOLS[reader]
        except PluginError as error:
            raise ValueError(str(error)) from None
        return reader

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.pattern is None) == (self.reader is None):
            raise ValueError("give either a pattern or a reader")
        return self


def _readers() -> tuple[str, ...]:
    return (*_OWN, *TOOLS)


def _known_units(reader: str | None) -> Mapping[str, str] | None:
    """Metric → unit of what a reader reports; None if that depends on the suite or on the program."""
    if reader == "mlperf":
        return {name: unit for name, (unit, _) in TRAINING.items()}
    if reader == "tf_cnn_benchmarks":
        return CNN
    if reader is None or reader in _OWN:
        return None
    return {metric.name: metric.unit for metric in TOOLS[reader].metrics} or None


def check_readers(metrics: Mapping[str, CommandMetric]) -> None:
    """Raise ValueError if a reader doesn't report a metric, or reports it in another unit."""
    for name, metric in metrics.items():
        known = _known_units(metric.reader)
        if known is None:
            continue
        if name not in known:
            raise ValueError(f"{name}: the reader {metric.reader} reports {', '.join(known)}")
        if factor(metric.unit)[1] != factor(known[name])[1]:
            unit = known[name] or "no unit"
            raise ValueError(f"{name}: found unit {metric.unit!r}; the reader {metric.reader} reports {unit}")


def metrics_of(metrics: Mapping[str, CommandMetric]) -> tuple[Metric, ...]:
    """The metrics as the suite describes them, in base units."""
    return tuple(
        Metric(name, factor(metric.unit)[1], metric.better, metric.about) for name, metric in metrics.items()
    )


def read(logs: Mapping[str, Path], metrics: Mapping[str, CommandMetric]) -> Reading:
    """What rank 0 printed. A metric that is missing is a problem."""
    if not metrics:
        return Reading()
    if _LOG not in logs:
        return Reading(problems=(f"{_LOG} does not exist: the program printed nothing",))
    log = logs[_LOG]
    printed = LogFigures()
    matched: set[str] = set()  # these metrics have a line; if no figure, a problem that says why
    patterns = {m: compiled(metric.pattern) for m, metric in metrics.items() if metric.pattern is not None}
    if patterns:
        thousands = {m: separator for m in patterns if (separator := metrics[m].thousands)}
        matched |= by_patterns(log, patterns, {m: metrics[m].unit for m in patterns}, printed, thousands)
    if keys := _units(metrics, "mllog"):
        matched |= by_keys(log, keys, printed)
    rules = _units(metrics, "mlperf")
    training = by_rules(log, rules, printed) if rules else None
    if of_cnn := _units(metrics, "tf_cnn_benchmarks"):
        by_program(log, cnn_run(log), of_cnn, printed)
    for program in dict.fromkeys(metric.reader for metric in metrics.values()):
        if program is not None and program not in _OWN:
            by_program(log, read_log(program, log), _units(metrics, program), printed)
    figures = {m: [figure for figure in printed.figures if figure.metric == m] for m in metrics}
    cut = _cut(printed.cut)
    missing = [
        f"no figure for {m}: {_searched(metrics[m])}{cut}"
        for m in figures
        if not figures[m] and m not in matched
    ]
    return Reading(
        measurements=tuple(x for m, all_of in figures.items() for x in _picked(metrics[m], all_of, _LOG)),
        series=tuple(x for m, all_of in figures.items() for x in _series(metrics[m], all_of)),
        facts=printed.facts,
        problems=(*few(printed.problems), *missing),
        skipped_lines=printed.skipped,
        cut_lines=printed.cut,
        training=training,
    )


def _units(metrics: Mapping[str, CommandMetric], reader: str) -> dict[str, str]:
    return {name: metric.unit for name, metric in metrics.items() if metric.reader == reader}


def _searched(metric: CommandMetric) -> str:
    if metric.pattern is not None:
        return f"no line of rank 0 matches {metric.pattern!r}"
    if metric.reader != "mllog":
        return "the log of rank 0 doesn't report it"
    return "no MLPerf log line of rank 0 has this key"


def _cut(lines: int) -> str:
    what = "line is" if lines == 1 else "lines are"
    were = "was" if lines == 1 else "were"
    return f"; {lines} {what} longer than {LONGEST_LINE} bytes and {were} searched that far" if lines else ""


def _picked(metric: CommandMetric, figures: Sequence[LogFigure], file: str) -> Iterator[Measurement]:
    """One measurement for each set of labels, with the line of the figure, or of the last one averaged."""
    scale, unit = factor(metric.unit)
    by_labels: dict[str, list[LogFigure]] = defaultdict(list)
    for figure in figures:
        by_labels[repr(sorted(figure.labels.items()))].append(figure)
    for alike in by_labels.values():
        value = _PICKS[metric.pick]([figure.value for figure in alike])
        line = next((figure.line for figure in reversed(alike) if figure.value == value), alike[-1].line)
        yield Measurement(alike[-1].metric, value * scale, unit, alike[-1].labels, file, line)


def _series(metric: CommandMetric, figures: Sequence[LogFigure]) -> Iterator[Series]:
    """All figures that state the step or epoch at which they were printed."""
    scale, unit = factor(metric.unit)
    for axis in STEPS:
        placed = [(figure.at[axis], figure.value * scale) for figure in figures if axis in figure.at]
        if placed:
            x, y = zip(*placed, strict=True)
            yield Series(figures[0].metric, unit, axis, x, y)


_PICKS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "last": lambda values: values[-1],
    "first": lambda values: values[0],
    "mean": fmean,
    "median": median,
    "min": min,
    "max": max,
}
