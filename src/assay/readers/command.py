"""Metrics that a suite declares for any program: where rank 0 prints each, and which figure counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Final, Literal, Self

from pydantic import ConfigDict, Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from assay.errors import PluginError
from assay.inputs import LONGEST_LINE
from assay.logs.figures import LogFigure, LogFigures
from assay.logs.patterns import compiled
from assay.logs.tools import TOOLS
from assay.logs.whole_numbers import NUMBER
from assay.readers import printed_figures
from assay.readers.payload_log import few
from assay.readers.reader import Params
from assay.records import Better, Measurement, Metric, Reading, Series
from assay.units import factor

_LOG: Final = "rank-0.log"
_LONGEST_PATTERN = 500

# Readers that are no format of a program's log.
_OWN: Final = ("mllog", "mlperf", "tf_cnn_benchmarks")


class CommandMetric(Params):
    """One metric: where its figure is in the log, its unit, its better direction, which of several counts.

    `rate: {pattern: 'images/sec: (?P<value>[-+.0-9eE]+)', unit: images/s, better: higher, pick: median}`
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"pattern": rf"images/sec: (?P<value>{NUMBER})", "unit": "images/s", "better": "higher"}
            ]
        }
    )

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
        f"{', '.join(printed_figures.TRAINING)}. "
        "tf_cnn_benchmarks: what that program prints; the metric is one of "
        f"{', '.join(printed_figures.CNN)}. "
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
    about: str = Field("", description="One-line description for people.")

    @field_validator("pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        if pattern is None:
            return None
        if printed_figures.VALUE not in compiled(pattern).names:
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
        return {name: unit for name, (unit, _) in printed_figures.TRAINING.items()}
    if reader == "tf_cnn_benchmarks":
        return {name: unit for name, (unit, _) in printed_figures.CNN.items()}
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
    if _LOG not in logs:
        return Reading(problems=(f"{_LOG} does not exist: the program printed nothing",))
    log = logs[_LOG]
    printed = LogFigures()
    matched: set[str] = set()  # these metrics have a line; if no figure, a problem that says why
    patterns = {m: compiled(metric.pattern) for m, metric in metrics.items() if metric.pattern is not None}
    if patterns:
        matched |= printed_figures.by_patterns(log, patterns, {m: metrics[m].unit for m in patterns}, printed)
    if keys := _units(metrics, "mllog"):
        matched |= printed_figures.by_keys(log, keys, printed)
    rules = _units(metrics, "mlperf")
    training = printed_figures.by_rules(log, rules, printed) if rules else None
    if of_cnn := _units(metrics, "tf_cnn_benchmarks"):
        printed_figures.by_tf_cnn_benchmarks(log, of_cnn, printed)
    for program in dict.fromkeys(metric.reader for metric in metrics.values()):
        if program is not None and program not in _OWN:
            printed_figures.by_tool(log, TOOLS[program], _units(metrics, program), printed)
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
    for axis in printed_figures.STEPS:
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
