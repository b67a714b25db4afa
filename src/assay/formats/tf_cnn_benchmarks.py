"""What TensorFlow's tf_cnn_benchmarks prints.

    Batch size:  512 global
                 64 per device
    10	images/sec: 7101.3 +/- 4.2 (jitter = 12.9)	7.812
    total images/sec: 7096.12

A step line has the mean over all steps so far of the process that prints it, its standard error, 1.4826
times the median deviation, then the loss and, if requested, accuracies. The total is over all workers: with
Horovod on eight GPUs it is eight times what a step line says. If no number of processes explains the total
from the steps, the run has no result. Launchers put their own words before
lines, and tabs may have become spaces.

Source: tensorflow/benchmarks, scripts/tf_cnn_benchmarks/benchmark_cnn.py (get_perf_timing, log_fn).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from assay.formats.figures import DIGITS, OPERATION_UNKNOWN, SEVERAL_RUNS, LogFigure, LogFigures, number
from assay.formats.log_text import LogText, surroundings
from assay.formats.logged import LoggedRun, LoggedRuns, Stated, content_of, without_copies
from assay.formats.reader import Params, Reader, finite_reading
from assay.records import MOST_RANKS, Measurement, Metric, Reading, Scalar, Series, Shape
from assay.units import counted

THROUGHPUT = Metric("throughput", "images/s", "higher", "images per second of all workers")
WORKER = Metric(
    "worker_throughput",
    "images/s",
    "higher",
    "of the process that prints it, mean over its steps",
    scales=False,
)
JITTER = Metric(
    "jitter", "images/s", "lower", "1.4826 times the median deviation of the steps' rates", scales=False
)
LOSS = Metric("loss", "", None, "of the last step printed", scales=False)
STEP_UNITS: Final = {  # of the figures in a step's line, in their order
    "worker_throughput": "images/s",
    "standard_error": "images/s",
    "jitter": "images/s",
    "loss": "",
    "top_1_accuracy": "",
}
SAME_RUN = 0.01  # relative; processes of one run time the same steps, so their totals are this close


class TfCnnLogParams(Params):
    """What is known of a log besides its own lines."""

    benchmark: str | None = None


def _read(logs: Mapping[str, Path], _params: TfCnnLogParams) -> Reading:
    [(name, path), *more] = logs.items()
    if more:
        return Reading(problems=(f"found {len(logs)} logs of one run; expected one",))
    return _reading(cnn_run(path), name)


def _reading(run: LogFigures, name: str) -> Reading:
    facts = run.facts if "model" in run.facts else {**run.facts, OPERATION_UNKNOWN: "any model"}
    reading = Reading(facts=facts, skipped_lines=run.skipped, cut_lines=run.cut)
    if problem := "".join(run.problems) or _several_runs(run):
        return replace(reading, problems=(f"{name}: {problem}",))
    return replace(reading, measurements=tuple(_measurements(run, name)), series=tuple(_series(run)))


def _of(run: LogFigures, metric: Metric) -> list[LogFigure]:
    return [figure for figure in run.figures if figure.metric == metric.name]


def _several_runs(run: LogFigures) -> str:
    """Processes that share a log state nearly the same total; other totals are from other runs."""
    totals = [total.value for total in _of(run, THROUGHPUT)]
    if max(totals) <= min(totals) * (1 + SAME_RUN):
        return ""
    return (
        f"totals from {min(totals):g} to {max(totals):g} images/s are from several runs; "
        "put each run in its own file"
    )


def _measurements(run: LogFigures, file: str) -> Iterator[Measurement]:
    """The total of the slowest process, and what the last step's line says."""
    kept = [min(_of(run, THROUGHPUT), key=lambda total: (total.value, total.line))]
    last_line = max((step.line for step in _of(run, WORKER)), default=0)
    for metric in (WORKER, JITTER, LOSS):
        kept += [figure for figure in _of(run, metric) if figure.line == last_line]
    for figure in kept:
        yield Measurement(figure.metric, figure.value, figure.unit, {}, file, figure.line)


def _series(run: LogFigures) -> Iterator[Series]:
    """By step, from the first process if several share the log: its steps increase."""
    highest, lines = -1.0, set[int]()
    for step in _of(run, WORKER):
        if step.at["step"] > highest:
            highest = step.at["step"]
            lines.add(step.line)
    for metric in (WORKER, LOSS):
        points = [(figure.at["step"], figure.value) for figure in _of(run, metric) if figure.line in lines]
        if points:
            x, y = zip(*points, strict=True)
            yield Series(metric.name, metric.unit, "step", x, y)


TF_CNN = Reader(
    name="tf-cnn-benchmarks",
    params=TfCnnLogParams,
    metrics=lambda _params: (THROUGHPUT, WORKER, JITTER, LOSS),
    read=_read,
    version=4,
)


_STEP = re.compile(
    r"(?<![\w.])(\d+)\s+images/sec: (\S+) \+/- (\S+) \(jitter = ([^)\s]+)\)(?:\s+(\S+))?(?:\s+(\S+)\s+(\S+))?"
)
_TOTAL = re.compile(r"total images/sec: (\S+)")
_FACT = re.compile(
    r"(TensorFlow|Model|Dataset|Mode|Batch size|Num batches|Devices|Data format|Optimizer|Variables"
    r"|AllReduce|Horovod on):\s+(\S.*)"
)
_PER_DEVICE = re.compile(rf"({DIGITS}) per device")
_APART: Final = 0.2  # a total includes the time between steps and the time that workers wait for each other
_KEYS: Final = {
    "TensorFlow": "tensorflow_version",
    "Num batches": "steps",
    "Variables": "variable_update",
    "Batch size": "global_batch_size",
}


def cnn_run(path: Path) -> LogFigures:
    """The contents of a log, with the first reason why it has no result; then figures may be NaN.

    Totals are those of each process that shares the log. Raises InputError if it can't be read.
    """
    log, source = LogFigures(), LogText(path)
    for line, raw in source.lines():
        text = raw.decode("latin-1").rstrip()
        if match := _TOTAL.search(text):
            total = number(match[1])
            value = math.nan if total is None else total
            log.figures.append(LogFigure(THROUGHPUT.name, value, {}, {}, line, THROUGHPUT.unit))
        elif match := _STEP.search(text):
            figures = _step(match, line)
            log.skipped += not figures
            log.figures += figures
        else:
            _take_fact(text, log.facts)
    log.cut = source.cut
    totals, steps = _of(log, THROUGHPUT), _of(log, WORKER)
    problem = (
        _problem(steps, totals, _of(log, LOSS))
        or _second_run(steps, totals)
        or _contradiction(steps, totals, devices_of(log.facts))
    )
    log.problems += [problem] if problem else []
    return log


def devices_of(facts: Mapping[str, Scalar]) -> int | None:
    """The number of batches in the global batch; None if the log lacks them, or no shape has as many."""
    whole, each = facts.get("global_batch_size"), facts.get("batch_size")
    if not isinstance(whole, int) or not isinstance(each, int) or not each:
        return None
    if not each <= whole <= each * MOST_RANKS:
        return None
    return whole // each


def _step(match: re.Match[str], line: int) -> list[LogFigure]:
    """The figures of a step; empty if a number can't be read; only a loss may be nonfinite."""
    step, *rates = (number(text) for text in match.group(1, 2, 3, 4))
    if step is None or None in rates:
        return []
    top_1, top_5 = number(match[6]), number(match[7])
    values = (*rates, _loss(match[5]), None if top_5 is None else top_1)
    return [
        LogFigure(name, value, {}, {"step": step}, line, unit)
        for (name, unit), value in zip(STEP_UNITS.items(), values, strict=True)
        if value is not None
    ]


def _take_fact(line: str, facts: dict[str, Scalar]) -> None:
    """The first of each: the processes of a job state the same."""
    if match := _PER_DEVICE.search(line):
        facts.setdefault("batch_size", int(match[1]))
    elif match := _FACT.search(line):
        key = _KEYS.get(match[1], match[1].lower().replace(" ", "_"))
        first = match[2].split()[0]
        whole = re.fullmatch(DIGITS, first) and key in ("global_batch_size", "steps")
        facts.setdefault(key, int(first) if whole else match[2].strip())


def _problem(steps: Sequence[LogFigure], totals: Sequence[LogFigure], losses: Sequence[LogFigure]) -> str:
    if not totals:
        end = f"; the last step is {steps[-1].at['step']:.0f}" if steps else ""
        return f"no line `total images/sec`: the run did not finish{end}"
    for total in totals:
        if not (math.isfinite(total.value) and total.value > 0):
            return f"line {total.line}: its total is not a rate"
    for loss in losses:
        if not math.isfinite(loss.value):
            step = f"{loss.at['step']:.0f}"
            return f"line {loss.line}: the loss of step {step} is {loss.value}: the training failed"
    return ""


def _second_run(steps: Sequence[LogFigure], totals: Sequence[LogFigure]) -> str:
    """Why the log is of several runs; "" if it isn't: no process begins when another one has ended."""
    first = totals[0].line
    if not steps:
        several = len(totals) > 1
        return f"lines {first} and {totals[1].line} have a total: {SEVERAL_RUNS}" if several else ""
    begun = min(step.at["step"] for step in steps)
    again = next((step.line for step in steps if step.line > first and step.at["step"] == begun), None)
    return f"line {again}: step {begun:.0f} after the total in line {first}: {SEVERAL_RUNS}" if again else ""


def _contradiction(steps: Sequence[LogFigure], totals: Sequence[LogFigure], devices: int | None) -> str:
    """Why total and steps can't be from one run; "" if they can. All processes have as many devices."""
    if len(steps) < 2 or devices is None:
        return ""
    each, total = steps[-1], totals[0]
    processes = [n for n in range(1, devices + 1) if devices % n == 0]
    expected = [n * each.value for n in processes]
    if any(abs(total.value - rate) <= _APART * rate for total in totals for rate in expected):
        return ""
    return (
        f"line {total.line}: its total of {total.value:g} images/s contradicts its steps, {each.value:g} "
        f"images/s per process in line {each.line} and {counted(devices, 'device')} in all; "
        "is it from one run?"
    )


def _loss(text: str | None) -> float | None:
    """As printed, including `nan` and `inf`; None if it is not a number."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def logged_cnn_runs(paths: Sequence[Path], stated: Stated) -> LoggedRuns:
    """Each log as a run. Raises InputError if one can't be read."""
    paths, copies = without_copies(paths)
    runs = [_logged(path, cnn_run(path), stated) for path in paths]
    notes = [*copies]
    notes += [
        f"{run.source}: read as a log of tf_cnn_benchmarks; unknown lines: {run.reading.skipped_lines}"
        for run in runs
    ]
    notes += [f"{path}: {note}" for path in paths for note in surroundings(path).notes]
    if stated.round is not None:
        notes.append("--round is an MLPerf round; it does not apply to tf_cnn_benchmarks and was ignored")
    if stated.shape is None:
        notes.append("no log states its number of nodes; they are stored as one node. Set it with --shape")
    if stated.shape is None and any(devices_of(run.reading.facts) is None for run in runs):
        notes.append("logs without batch sizes don't show how many devices took part; they are stored as 1x1")
    about = (stated.system, str(stated.shape), stated.benchmark)
    return LoggedRuns(tuple(runs), content_of("tf-cnn-benchmarks", paths, about), tuple(notes))


def _logged(path: Path, run: LogFigures, stated: Stated) -> LoggedRun:
    model = run.facts.get("model")
    return LoggedRun(
        logs=(path,),
        source=str(path),
        reader=TF_CNN,
        params=TfCnnLogParams(benchmark=stated.benchmark).model_dump(),
        benchmark=stated.benchmark or (model if isinstance(model, str) else ""),
        system=stated.system or "",
        shape=stated.shape or Shape(1, devices_of(run.facts) or 1),
        reading=finite_reading(_reading(run, path.name)),
        primary=THROUGHPUT.name,
    )
