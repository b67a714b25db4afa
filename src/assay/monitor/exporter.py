"""What Assay knows as Prometheus' metrics: running trials with their telemetry, newest results, verdicts.

Names and units follow Prometheus' conventions: base units, `_total` on counters, shares from 0 to 1.
The sampler's columns keep their names after `assay_node_` and `assay_gpu_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from assay.errors import AssayError
from assay.monitor.live import LiveGpu, LiveNode, LiveRun, LiveRuns
from assay.telemetry.samples import COUNTER
from assay.version import __version__

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

_PERCENT: Final = "_percent"
_RANK_FIGURES: Final = {  # what ranks print → metric, and what it is
    "throughput": (
        "throughput",
        "Newest throughput that the rank printed, in the benchmark's unit per second",
    ),
    "step_time": ("step_seconds", "Newest time of a step that the rank printed"),
    "loss": ("loss", "Newest loss that the rank printed"),
    "accuracy": ("accuracy_ratio", "Newest accuracy that the rank printed"),
    "eval_accuracy": ("accuracy_ratio", "Newest accuracy that the rank printed"),
    "step": ("step", "Newest step that the rank printed"),
    "epoch": ("epoch", "Newest epoch that the rank printed"),
}
THROTTLE_REASONS: Final = {  # bits of NVML's clock reasons that cost speed
    0x04: "power_cap",
    0x08: "hardware_slowdown",
    0x20: "software_thermal",
    0x40: "hardware_thermal",
    0x80: "power_brake",
}


@dataclass(frozen=True)
class NewestResult:
    """A mean of the newest session of a suite, with its 95 % interval; low and high None: too few runs.

    point  swept parameters and the measurement's own labels, like `size=256,dtype=fp32`; "" if none
    """

    suite: str
    session: str
    system: str
    benchmark: str
    shape: str
    metric: str
    unit: str
    value: float
    low: float | None
    high: float | None
    runs: int
    point: str = ""


@dataclass(frozen=True)
class NewestVerdict:
    """A verdict of the newest session of a suite."""

    suite: str
    session: str
    system: str
    baseline: str
    benchmark: str
    shape: str
    metric: str
    verdict: str
    ratio: float
    point: str = ""


@dataclass(frozen=True)
class NewestStep:
    """The newest change of level in the history of a metric of a suite.

    kind   step, drift, or step-or-drift
    way    worse, better, or neither: a metric without a direction
    ratio  new level relative to the old one
    at     when the first session of the new level began, of a drift its last one; seconds since 1970
    """

    suite: str
    system: str
    benchmark: str
    shape: str
    metric: str
    kind: str
    way: str
    ratio: float
    began_at: float
    point: str = ""


@dataclass(frozen=True)
class NewestResults:
    """What the newest session of each suite gave; doubts: suite → number of doubts; errors: suites unread."""

    results: Sequence[NewestResult] = ()
    verdicts: Sequence[NewestVerdict] = ()
    doubts: Mapping[tuple[str, str], int] | None = None
    errors: int = 0
    steps: Sequence[NewestStep] = ()


class MetricsCollector:
    """Collects anew at each scrape.

    A part that can't be read is left out and counted in `assay_exporter_read_errors_total`.
    """

    def __init__(self, running: Callable[[], LiveRuns], newest: Callable[[], NewestResults]) -> None:
        self._running, self._newest = running, newest
        self._errors = 0

    def collect(self) -> Iterator[Family]:
        """Every metric."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        try:
            live = self._running()
            self._errors += len(live.problems)
            yield from running_metrics(live.running)
        except (AssayError, OSError):
            self._errors += 1
        newest = NewestResults()
        try:
            newest = self._newest()
        except (AssayError, OSError):
            self._errors += 1
        self._errors += newest.errors
        yield from result_metrics(newest)
        build = GaugeMetricFamily("assay_build_info", "Version of Assay", labels=["version"])
        build.add_metric([__version__], 1)
        yield build
        yield CounterMetricFamily(
            "assay_exporter_read_errors_total",
            "Parts of the runs directory that could not be read",
            self._errors,
        )


class _Families:
    """Metrics by name, created when their first value arrives."""

    def __init__(self) -> None:
        self._found: dict[str, Any] = {}

    def add(self, name: str, about: str, labels: Mapping[str, str], value: float) -> None:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        if name not in self._found:
            kind = CounterMetricFamily if name.endswith(COUNTER) else GaugeMetricFamily
            self._found[name] = kind(name, about, labels=list(labels))
        self._found[name].add_metric(list(labels.values()), value)

    def __iter__(self) -> Iterator[Family]:
        return iter(self._found.values())


def running_metrics(lives: Iterable[LiveRun]) -> Iterable[Family]:
    """Running trials: progress, ranks' figures, telemetry of nodes and GPUs."""
    families = _Families()
    for live in lives:
        trial = live.run.trial
        labels = {
            "suite": trial.suite,
            "session": live.run.session,
            "system": trial.system,
            "trial": trial.id,
        }
        families.add("assay_trial_running", "1 for each trial that is running", labels, 1)
        families.add(
            "assay_trial_running_seconds", "Time since the trial's ranks started", labels, live.running_s
        )
        families.add("assay_trial_stopped", "1 if no rank takes a step any more", labels, bool(live.stopped))
        session = {name: labels[name] for name in ("suite", "session")}
        for state, count in (("settled", live.done), ("planned", live.trials)):
            about = "Trials of a running session, by state"
            families.add("assay_session_trials", about, {**session, "state": state}, count)
        for rank in live.ranks:
            own = {**labels, "rank": str(rank.rank)}
            families.add(
                "assay_rank_silent_seconds", "Time since the rank last printed something", own, rank.silent_s
            )
            families.add("assay_rank_off", "1 if the rank is behind the others", own, bool(rank.off))
            for figure, value in rank.figures.items():
                name, about = _RANK_FIGURES[figure]
                families.add(f"assay_rank_{name}", about, own, value)
        for node in live.nodes:
            _add_node(families, node, labels)
    return families


def _add_node(families: _Families, node: LiveNode, labels: Mapping[str, str]) -> None:
    own = {**labels, "node": str(node.node)}
    if node.sampled_at is not None:
        about = "Time of the newest sample of the node"
        families.add("assay_node_last_sample_timestamp_seconds", about, own, node.sampled_at)
    for column, value in node.values.items():
        families.add(f"assay_node_{column}", f"The node's {_describe_column(column)}", own, value)
    for gpu in node.gpus:
        _add_gpu(families, gpu, {**own, "gpu": str(gpu.index), "uuid": gpu.uuid, "model": gpu.name})


def _add_gpu(families: _Families, gpu: LiveGpu, labels: Mapping[str, str]) -> None:
    for column, value in gpu.values.items():
        if column.endswith(_PERCENT):
            name = column.removesuffix(_PERCENT)
            families.add(
                f"assay_gpu_{name}_ratio", f"The GPU's {_describe_column(name)}, 0 to 1", labels, value / 100
            )
        elif column == "clock_reasons":
            for bit, reason in THROTTLE_REASONS.items():
                about = "1 if the driver lowers the GPU's clocks for this reason"
                families.add(
                    "assay_gpu_clocks_lowered", about, {**labels, "reason": reason}, bool(int(value) & bit)
                )
        else:
            families.add(f"assay_gpu_{column}", f"The GPU's {_describe_column(column)}", labels, value)
    for xid, count in gpu.xids.items():
        about = "Xid events that the driver has reported during the trial"
        families.add("assay_gpu_xid_events_total", about, {**labels, "xid": str(xid)}, count)


def _describe_column(column: str) -> str:
    return column.removesuffix(COUNTER).replace("_", " ")


def result_metrics(newest: NewestResults) -> Iterable[Family]:
    """Newest results with their intervals, verdicts, and the number of doubts."""
    families = _Families()
    for result in newest.results:
        labels = {
            "suite": result.suite,
            "session": result.session,
            "system": result.system,
            "benchmark": result.benchmark,
            "shape": result.shape,
            "point": result.point,
            "metric": result.metric,
            "unit": result.unit,
        }
        about = "Newest result: geometric mean of the runs, and its 95 % interval, in the label's unit"
        for bound, value in (("mean", result.value), ("low", result.low), ("high", result.high)):
            if value is not None:
                families.add("assay_result", about, {**labels, "bound": bound}, value)
        families.add("assay_result_runs", "Runs of the newest result", labels, result.runs)
    for verdict in newest.verdicts:
        labels = {
            "suite": verdict.suite,
            "session": verdict.session,
            "system": verdict.system,
            "baseline": verdict.baseline,
            "benchmark": verdict.benchmark,
            "shape": verdict.shape,
            "point": verdict.point,
            "metric": verdict.metric,
        }
        families.add("assay_verdict_ratio", "Speed relative to the baseline", labels, verdict.ratio)
        families.add("assay_verdict", "1 for the newest verdict", {**labels, "verdict": verdict.verdict}, 1)
    for step in newest.steps:
        labels = {
            "suite": step.suite,
            "system": step.system,
            "benchmark": step.benchmark,
            "shape": step.shape,
            "point": step.point,
            "metric": step.metric,
            "kind": step.kind,
            "way": step.way,
        }
        about = "Newest step or drift of the metric over sessions: new level relative to the old one"
        families.add("assay_step_ratio", about, labels, step.ratio)
        about = "When the first session after the newest step, or the last one of the newest drift, began"
        families.add("assay_step_timestamp_seconds", about, labels, step.began_at)
    for (suite, session), count in (newest.doubts or {}).items():
        about = "Doubts about the newest results of a suite"
        families.add("assay_doubts", about, {"suite": suite, "session": session}, count)
    return families
