"""What TensorFlow's tf_cnn_benchmarks prints → one `CnnRun`.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from assay.formats.figures import DIGITS, OPERATION_UNKNOWN, SEVERAL_RUNS, number
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
SAME_RUN = 0.01  # relative; processes of one run time the same steps, so their totals are this close


class TfCnnLogParams(Params):
    """What is known of a log besides its own lines."""

    benchmark: str | None = None


def _read(logs: Mapping[str, Path], _params: TfCnnLogParams) -> Reading:
    [(name, path), *more] = logs.items()
    if more:
        return Reading(problems=(f"found {len(logs)} logs of one run; expected one",))
    return _reading(cnn_run(path), name)


def _reading(run: CnnRun, name: str) -> Reading:
    facts = run.facts if "model" in run.facts else {**run.facts, OPERATION_UNKNOWN: "any model"}
    problem = run.problem or _several_runs(run)
    if problem:
        return Reading(
            facts=facts,
            problems=(f"{name}: {problem}",),
            skipped_lines=run.skipped,
            cut_lines=run.cut,
        )
    return Reading(
        measurements=tuple(_measurements(run, name)),
        series=tuple(_series(run)),
        facts=facts,
        skipped_lines=run.skipped,
        cut_lines=run.cut,
    )


def _several_runs(run: CnnRun) -> str:
    """Processes that share a log state nearly the same total; other totals are from other runs."""
    totals = [total for total, _ in run.totals]
    if max(totals) <= min(totals) * (1 + SAME_RUN):
        return ""
    return (
        f"totals from {min(totals):g} to {max(totals):g} images/s are from several runs; "
        "put each run in its own file"
    )


def _measurements(run: CnnRun, file: str) -> Iterator[Measurement]:
    """The total of the slowest process, and what the last step's line says."""
    total, line = min(run.totals)
    yield Measurement(THROUGHPUT.name, total, THROUGHPUT.unit, {}, file, line)
    if not run.steps:
        return
    last = run.steps[-1]
    figures = ((WORKER, last.images_per_s), (JITTER, last.jitter_per_s), (LOSS, last.loss))
    for metric, value in figures:
        if value is not None:
            yield Measurement(metric.name, value, metric.unit, {}, file, last.line)


def _series(run: CnnRun) -> Iterator[Series]:
    """By step, from the first process if several share the log: its steps increase."""
    steps = [
        step for index, step in enumerate(run.steps) if all(step.step > s.step for s in run.steps[:index])
    ]
    for metric, values in (
        (WORKER, [(step.step, step.images_per_s) for step in steps]),
        (LOSS, [(step.step, step.loss) for step in steps if step.loss is not None]),
    ):
        if values:
            x, y = zip(*values, strict=True)
            yield Series(metric.name, metric.unit, "step", tuple(map(float, x)), tuple(map(float, y)))


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


@dataclass(frozen=True)
class CnnStep:
    """One step line.

    images_per_s  of this process, mean over the steps so far; error_per_s: its standard error
    jitter_per_s  1.4826 × median deviation of the steps' rates
    loss          None if it isn't printed
    accuracies    top-1 and top-5, if printed
    """

    step: int
    images_per_s: float
    error_per_s: float
    jitter_per_s: float
    loss: float | None
    accuracies: tuple[float, float] | None
    line: int


@dataclass(frozen=True)
class CnnRun:
    """A run of tf_cnn_benchmarks.

    totals   images per second of all workers, with the line: one for each process that shares the log
    facts    what it states before it begins: model, global_batch_size, mode, devices …
    problem  why it has no result; "" if it has one
    skipped  lines with figures that could not be parsed
    cut      lines that exceed the maximum line length
    """

    steps: tuple[CnnStep, ...]
    totals: tuple[tuple[float, int], ...]
    facts: Mapping[str, Scalar]
    problem: str
    skipped: int
    cut: int = 0


def cnn_run(path: Path) -> CnnRun:
    """The contents of a log. Raises InputError if it can't be read."""
    steps, totals, skipped = [], [], 0
    facts: dict[str, Scalar] = {}
    log = LogText(path)
    for line_number, raw in log.lines():
        line = raw.decode("latin-1").rstrip()
        if match := _TOTAL.search(line):
            total = number(match[1])
            totals.append((math.nan if total is None else total, line_number))
        elif match := _STEP.search(line):
            step = _step(match, line_number)
            skipped += step is None
            steps += [step] if step else []
        else:
            _take_fact(line, facts)
    problem = (
        _problem(steps, totals)
        or _second_run(steps, totals)
        or _contradiction(steps, totals, devices_of(facts))
    )
    return CnnRun(tuple(steps), tuple(totals), facts, problem, skipped, log.cut)


def devices_of(facts: Mapping[str, Scalar]) -> int | None:
    """The number of batches in the global batch; None if the log lacks them, or no shape has as many."""
    whole, each = facts.get("global_batch_size"), facts.get("batch_size")
    if not isinstance(whole, int) or not isinstance(each, int) or not each:
        return None
    if not each <= whole <= each * MOST_RANKS:
        return None
    return whole // each


def _step(match: re.Match[str], line: int) -> CnnStep | None:
    """None if a number can't be read; only a loss may be nonfinite."""
    step, rate, error, jitter = (number(text) for text in match.group(1, 2, 3, 4))
    if step is None or rate is None or error is None or jitter is None:
        return None
    loss, top_1, top_5 = _loss(match[5]), number(match[6]), number(match[7])
    accuracies = None if top_1 is None or top_5 is None else (top_1, top_5)
    return CnnStep(int(step), rate, error, jitter, loss, accuracies, line)


def _take_fact(line: str, facts: dict[str, Scalar]) -> None:
    """The first of each: the processes of a job state the same."""
    if match := _PER_DEVICE.search(line):
        facts.setdefault("batch_size", int(match[1]))
    elif match := _FACT.search(line):
        key = _KEYS.get(match[1], match[1].lower().replace(" ", "_"))
        first = match[2].split()[0]
        whole = re.fullmatch(DIGITS, first) and key in ("global_batch_size", "steps")
        facts.setdefault(key, int(first) if whole else match[2].strip())


def _problem(steps: list[CnnStep], totals: list[tuple[float, int]]) -> str:
    if not totals:
        end = f"; the last step is {steps[-1].step}" if steps else ""
        return f"no line `total images/sec`: the run did not finish{end}"
    for total, line in totals:
        if not (math.isfinite(total) and total > 0):
            return f"line {line}: its total is not a rate"
    for step in steps:
        if step.loss is not None and not math.isfinite(step.loss):
            return f"line {step.line}: the loss of step {step.step} is {step.loss}: the training failed"
    return ""


def _second_run(steps: list[CnnStep], totals: list[tuple[float, int]]) -> str:
    """Why the log is of several runs; "" if it isn't: no process begins when another one has ended."""
    if not steps:
        several = len(totals) > 1
        return f"lines {totals[0][1]} and {totals[1][1]} have a total: {SEVERAL_RUNS}" if several else ""
    begun = min(step.step for step in steps)
    again = next((step for step in steps if step.line > totals[0][1] and step.step == begun), None)
    return (
        f"line {again.line}: step {begun} after the total in line {totals[0][1]}: {SEVERAL_RUNS}"
        if again
        else ""
    )


def _contradiction(steps: list[CnnStep], totals: list[tuple[float, int]], devices: int | None) -> str:
    """Why total and steps can't be from one run; "" if they can. All processes have as many devices."""
    if len(steps) < 2 or not totals or devices is None:
        return ""
    each = steps[-1].images_per_s
    processes = [n for n in range(1, devices + 1) if devices % n == 0]
    if any(abs(total - n * each) <= _APART * n * each for total, _ in totals for n in processes):
        return ""
    total, line = totals[0]
    return (
        f"line {line}: its total of {total:g} images/s contradicts its steps, {each:g} images/s per process "
        f"in line {steps[-1].line} and {counted(devices, 'device')} in all; is it from one run?"
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


def _logged(path: Path, run: CnnRun, stated: Stated) -> LoggedRun:
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
