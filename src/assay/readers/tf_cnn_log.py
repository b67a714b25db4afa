"""Imported logs of tf_cnn_benchmarks: read, never run. The workload `command` can run it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from assay.logs.facts import OPERATION_UNKNOWN
from assay.logs.tf_cnn_benchmarks import CnnRun, cnn_run
from assay.readers.reader import Params, Reader
from assay.records import Measurement, Metric, Reading, Series

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
    run = cnn_run(path)
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
