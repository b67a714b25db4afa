"""Any program of the user's own, with its figures found in what it prints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, ValidationInfo, field_validator, model_validator

from assay import secret_reference
from assay.inputs import LONGEST_LINE
from assay.logs.figures import Figure, Found
from assay.logs.patterns import compiled
from assay.logs.whole_numbers import NUMBER
from assay.records import Better, Measurement, Metric, Reading, Series, Shape, Task, TaskFile
from assay.secret_reference import EnvironmentValue
from assay.units import factor
from assay.workloads import printed
from assay.workloads.payload_log import few
from assay.workloads.program import Params, absolute, content
from assay.workloads.workload import Workload

_LONGEST_PATTERN = 500

# Readers that know a program: its metrics and their units.
_KNOWN: Mapping[str | None, Mapping[str, str]] = {
    "mlperf": {name: unit for name, (unit, _) in printed.TRAINING.items()},
    "tf_cnn_benchmarks": {name: unit for name, (unit, _) in printed.CNN.items()},
    **{
        name: {metric.name: metric.unit for metric in tool.metrics}
        for name, tool in printed.PROGRAMS.items()
        if tool.metrics
    },
}

NonEmpty = Annotated[str, Field(min_length=1)]


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
        "references back to a group (the engine is RE2, whose time is bounded). The group named `value` "
        "is the whole figure: a match of a part of a number is a problem of the run. Groups named `step` and "
        "`epoch` make a series of all figures; other named groups are labels. Only the first "
        f"{LONGEST_LINE} bytes of a line are searched.",
    )
    reader: (
        Literal["mllog", "mlperf", "tf_cnn_benchmarks", "horovod", "timm", "deeplearningexamples"] | None
    ) = Field(
        None,
        description="Instead of a pattern. mllog: MLPerf log lines whose key is the metric's name. mlperf: "
        f"what MLPerf's rules make of a training log; the metric is one of {', '.join(printed.TRAINING)}. "
        f"tf_cnn_benchmarks: what that program prints; the metric is one of {', '.join(printed.CNN)}. "
        "horovod (its synthetic benchmarks), timm (train.py, benchmark.py), deeplearningexamples (by their "
        "own names, like train.total_ips): what those print, a run that broke being no result.",
    )
    unit: str = Field("", description="Unit of the figure as printed: images/s, MB/s, ms; none for a count.")
    better: Better | None = Field(
        None,
        description="`higher` or `lower`: which direction is an improvement. Without it Assay says that the "
        "figure moved, never that it is better or worse.",
    )
    pick: Literal["last", "first", "mean", "median", "min", "max"] = Field(
        "last",
        description="`last`, `first`, `mean`, `median`, `min` or `max`: what counts where the figure is "
        "printed several times with equal labels.",
    )
    about: str = Field("", description="One line for people.")

    @field_validator("pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        if pattern is None:
            return None
        if printed.VALUE not in compiled(pattern).names:
            raise ValueError(
                f"{pattern!r} has no group named value; write (?P<value>{NUMBER}) around the number"
            )
        return pattern

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.pattern is None) == (self.reader is None):
            raise ValueError("give either a pattern or a reader")
        return self


class CommandParams(Params):
    """A program that is run as it stands, once on every rank, never through a shell.

    Ranks find their place in torchrun's variables: RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT.
    Figures are looked for in what rank 0 prints and taken as the whole job's: a rate is the sum over all
    ranks. A program of several ranks adds its ranks' rates up and prints the sum on rank 0. Of programs that
    know nothing of each other rank 0 alone is measured, and a speed-up of 1 says nothing about scaling.
    """

    argv: tuple[NonEmpty, ...] = Field(
        min_length=1,
        description="Program and arguments, one element each; `{python}` is the system's interpreter and "
        "`{seed}` the seed of the repeat. A script or configuration file that is named here and edited later "
        "begins a new session; what it imports is not looked at.",
    )
    env: dict[str, EnvironmentValue] = Field(
        {},
        description="Variables added to the environment of every rank: text, or where the value is found "
        "when the job is sent, as in a system's `env`.",
    )
    cwd: str | None = Field(
        None,
        description="Directory to run in, below the suite's where it is relative; default: the job's own.",
    )
    files: tuple[NonEmpty, ...] = Field(
        (), description="Files that travel with the job into its own directory, instead of a cwd."
    )
    outputs: tuple[NonEmpty, ...] = Field(
        (), description="Names or globs of files below the working directory that are kept."
    )
    image: str | None = Field(None, description="Container image, where the system is a container platform.")
    metrics: dict[NonEmpty, CommandMetric] = Field(
        min_length=1,
        description="What it reports of all its ranks together, by name; the first is the primary one.",
    )

    @field_validator("metrics")
    @classmethod
    def _readers_know_them(cls, metrics: dict[str, CommandMetric]) -> dict[str, CommandMetric]:
        for name, metric in metrics.items():
            if metric.reader not in _KNOWN:
                continue
            known = _KNOWN[metric.reader]
            if name not in known:
                raise ValueError(f"{name}: the reader {metric.reader} gives {', '.join(known)}")
            if factor(metric.unit)[1] != factor(known[name])[1]:
                unit = known[name] or "no unit"
                raise ValueError(
                    f"{name}: found unit {metric.unit!r}; the reader {metric.reader} gives {unit}"
                )
        return metrics

    @field_validator("cwd")
    @classmethod
    def _cwd_is_absolute(cls, cwd: str | None, info: ValidationInfo) -> str | None:
        return None if cwd is None else absolute(cwd, info)

    @field_validator("files")
    @classmethod
    def _files_have_names_of_their_own(cls, files: tuple[str, ...], info: ValidationInfo) -> tuple[str, ...]:
        paths = tuple(absolute(file, info) for file in files)
        names = [Path(path).name for path in paths]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"several files are called {name}; they would lie in one directory")
        return paths

    @model_validator(mode="after")
    def _files_need_the_jobs_directory(self) -> Self:
        if self.files and self.cwd is not None:
            raise ValueError("files travel into the job's own directory; leave out either files or cwd")
        return self


def _metrics(params: CommandParams) -> tuple[Metric, ...]:
    return tuple(
        Metric(name, factor(metric.unit)[1], metric.better, metric.about)
        for name, metric in params.metrics.items()
    )


def _task(params: CommandParams, _shape: Shape, seed: int) -> Task:
    return Task(
        argv=tuple(str(seed) if word == "{seed}" else word for word in params.argv),
        env=secret_reference.texts(params.env),
        secrets=secret_reference.references(params.env),
        files=tuple(TaskFile(Path(path).name, content(path)) for path in params.files),
        cwd=params.cwd,
        outputs=params.outputs,
        image=params.image,
    )


def _read(logs: Mapping[str, Path], params: CommandParams) -> Reading:
    name = "rank-0.log"
    if name not in logs:
        return Reading(problems=(f"there is no {name}: nothing printed to look for figures in",))
    found = Found()
    patterns = {
        m: compiled(asked.pattern) for m, asked in params.metrics.items() if asked.pattern is not None
    }
    if patterns:
        printed.by_patterns(logs[name], patterns, {m: params.metrics[m].unit for m in patterns}, found)
    if keys := _units(params, "mllog"):
        printed.by_keys(logs[name], keys, found)
    rules = _units(params, "mlperf")
    training = printed.by_rules(logs[name], rules, found) if rules else None
    if of_cnn := _units(params, "tf_cnn_benchmarks"):
        printed.by_tf_cnn_benchmarks(logs[name], of_cnn, found)
    for program, tool in printed.PROGRAMS.items():
        if of_program := _units(params, program):
            printed.by_tool(logs[name], tool, of_program, found)
    figures = {m: [figure for figure in found.figures if figure.metric == m] for m in params.metrics}
    cut = _cut(found.cut)
    missing = [f"no figure for {m}: {_searched(params.metrics[m])}{cut}" for m in figures if not figures[m]]
    return Reading(
        measurements=tuple(
            x for m, all_of in figures.items() for x in _picked(params.metrics[m], all_of, name)
        ),
        series=tuple(x for m, all_of in figures.items() for x in _series(params.metrics[m], all_of)),
        facts=found.facts,
        problems=(*few(found.problems), *missing),
        skipped_lines=found.skipped,
        cut_lines=found.cut,
        training=training,
    )


def _units(params: CommandParams, reader: str) -> dict[str, str]:
    return {name: asked.unit for name, asked in params.metrics.items() if asked.reader == reader}


def _searched(asked: CommandMetric) -> str:
    if asked.pattern is not None:
        return f"no line of rank 0 matches {asked.pattern!r}"
    if asked.reader != "mllog":
        return "the log of rank 0 doesn't say"
    return "no MLPerf log line of rank 0 has this key"


def _cut(lines: int) -> str:
    what = "line is" if lines == 1 else "lines are"
    were = "was" if lines == 1 else "were"
    return f"; {lines} {what} longer than {LONGEST_LINE} bytes and {were} searched that far" if lines else ""


def _picked(asked: CommandMetric, figures: Sequence[Figure], file: str) -> Iterator[Measurement]:
    """One measurement for each set of labels; the line is that of the figure, or of the last one averaged."""
    scale, unit = factor(asked.unit)
    by_labels: dict[str, list[Figure]] = defaultdict(list)
    for figure in figures:
        by_labels[repr(sorted(figure.labels.items()))].append(figure)
    for alike in by_labels.values():
        value = _PICKS[asked.pick]([figure.value for figure in alike])
        line = next((figure.line for figure in reversed(alike) if figure.value == value), alike[-1].line)
        yield Measurement(alike[-1].metric, value * scale, unit, alike[-1].labels, file, line)


def _series(asked: CommandMetric, figures: Sequence[Figure]) -> Iterator[Series]:
    """All figures that say at which step or epoch they were printed."""
    scale, unit = factor(asked.unit)
    for axis in printed.STEPS:
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

COMMAND = Workload(
    name="command",
    about="run any program of yours: figures by patterns or from MLPerf log lines",
    params=CommandParams,
    metrics=_metrics,
    sample="",
    flops=lambda _params: None,
    task=_task,
    read=_read,
    version=4,
)
