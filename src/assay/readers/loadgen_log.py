"""Imported logs of MLPerf Inference, from LoadGen or the reference app: read, never run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from assay.logs.facts import OPERATION_UNKNOWN
from assay.logs.inference_paths import run_in_file
from assay.logs.loadgen import inference_run
from assay.logs.loadgen_text import DETAIL, SUMMARY
from assay.readers.reader import Params, Reader
from assay.records import InferenceRun, Metric, Reading

ESTIMATE = Metric(
    "latency_estimate", "s", "lower", "percentile of latency, early-stopping estimate", scales=False
)
THROUGHPUT = Metric("throughput", "samples/s", "higher", "samples completed per second")
QPS = Metric("qps", "queries/s", "higher", "queries per second, LoadGen's own time included")
TOKENS = Metric("token_throughput", "tokens/s", "higher", "output tokens per second")
INFERRED = Metric(
    "inferred_token_throughput",
    "tokens/s",
    "higher",
    "samples per second times the answer length that LoadGen assumes",
)
LATENCY = Metric("latency", "s", "lower", "latency of a query or sample at a percentile", scales=False)
MEAN = Metric("mean_latency", "s", "lower", "mean latency of a sample", scales=False)
FIRST_TOKEN = Metric("first_token", "s", "lower", "time to the first token at a percentile", scales=False)
PER_TOKEN = Metric("time_per_token", "s", "lower", "time per output token at a percentile", scales=False)
SCHEDULED = Metric("scheduled_throughput", "samples/s", None, "samples sent per second")

_REST = (QPS, LATENCY, TOKENS, INFERRED, FIRST_TOKEN, PER_TOKEN, MEAN, SCHEDULED)
_SCORED_BY_LATENCY = ("SingleStream", "MultiStream")


class LoadgenLogParams(Params):
    """What is known of a run besides its own lines.

    app     the figures are the reference app's, not LoadGen's
    scored  the metric that the run is judged by; None: its scenario's
    """

    scenario: str | None = None
    benchmark: str | None = None
    round: str | None = None
    app: bool = False
    scored: str | None = None


def run_of(logs: Mapping[str, Path]) -> InferenceRun:
    """The run of these logs: both of LoadGen's, one of them, or one of the app."""
    own = [path for name, path in logs.items() if name in (DETAIL, SUMMARY)]
    if own:
        return inference_run(own, name=own[0].name)
    [(name, path), *_] = logs.items()
    return run_in_file(path, name)


def metrics_of(params: LoadgenLogParams) -> tuple[Metric, ...]:
    """The scenario's figure comes first; the app has none of LoadGen's figures."""
    if params.app:
        return _REST
    first = ESTIMATE if params.scenario in _SCORED_BY_LATENCY else THROUGHPUT
    metrics = (THROUGHPUT, ESTIMATE, *_REST)
    scored = next((metric for metric in metrics if metric.name == params.scored), first)
    return (scored, *(metric for metric in metrics if metric is not scored))


def _read(logs: Mapping[str, Path], params: LoadgenLogParams) -> Reading:
    run = run_of(logs)
    if run.problem:
        return Reading(problems=(run.problem,))
    stated = {key: entry.value for key, entry in run.stated.items() if key.startswith("effective_")}
    facts = {"scenario": run.scenario, "mode": run.mode, "validity": run.validity}
    unknown = {} if params.benchmark else {OPERATION_UNKNOWN: "any model"}  # LoadGen does not know it
    return Reading(measurements=run.figures, facts={**stated, **facts, **unknown})


LOADGEN = Reader(
    name="loadgen",
    params=LoadgenLogParams,
    metrics=metrics_of,
    read=_read,
    version=3,
)
