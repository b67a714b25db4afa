"""An MLPerf inference run checked against the official settings of its scenario.

LoadGen's VALID only says that a run met the settings it was given. Its own defaults are shorter than the
rules', so VALID with short settings is a measurement but not a compliant result.

Source: MLPerf inference rules, "Scenarios", and the mlperf.conf that accompanies them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from assay.analyse.mlperf.inference_targets import (
    OFFLINE_MINIMUM,
    AcceptedRange,
    has_todays_scenarios,
    inference_task,
    latency_bounds_ns,
)
from assay.analyse.mlperf.rules import RuleCheck, State
from assay.records import InferenceRun, StatedValue

MIN_DURATION_MS: Final = 600_000
_SEEDS: Final = ("effective_qsl_rng_seed", "effective_sample_index_rng_seed", "effective_schedule_rng_seed")
_TEST_MODES: Final = ("effective_performance_issue_unique", "effective_performance_issue_same")


@dataclass(frozen=True)
class Setting:
    """What the rules require of a setting: at least `value`, or exactly it.

    keys  the first that the logs state counts: the summary has fewer
    """

    name: str
    keys: tuple[str, ...]
    value: float
    exact: bool = False
    remark: str = ""


_DURATION = Setting("minimum duration", ("effective_min_duration_ms",), MIN_DURATION_MS)
_PERCENTILE = ("effective_target_latency_percentile",)
_OFFICIAL: Final[dict[str, tuple[Setting, ...]]] = {
    "SingleStream": (_DURATION, Setting("percentile", _PERCENTILE, 0.9, exact=True)),
    "MultiStream": (
        _DURATION,
        Setting("minimum queries", ("effective_min_query_count",), 662),
        Setting("samples per query", ("effective_samples_per_query",), 8, exact=True),
        Setting("percentile", _PERCENTILE, 0.99, exact=True),
    ),
    "Server": (_DURATION, Setting("percentile", _PERCENTILE, 0.99, exact=True)),
    "Offline": (
        _DURATION,
        Setting(
            "minimum samples",
            ("effective_min_sample_count", "effective_samples_per_query"),
            OFFLINE_MINIMUM,
            remark="; a smaller data set is used completely",
        ),
    ),
}


@dataclass(frozen=True)
class ReferenceAccuracy:
    """What the reference implementation reaches, in fp32, on the rules' complete data set.

    samples   of that data set
    size      height and width of the images, or tokens
    accuracy  as a share of 1
    """

    samples: int
    size: int
    accuracy: float


# The rules' own models. Source: MLPerf inference rules, "Benchmarks": ImageNet's validation set, the
# part of OpenImages that MLPerf chose, and windows of 384 tokens of SQuAD v1.1's questions.
_REFERENCES: Final = {
    "resnet50": ReferenceAccuracy(50_000, 224, 0.7646),
    "retinanet": ReferenceAccuracy(24_781, 800, 0.3755),
    "bert-large": ReferenceAccuracy(10_833, 384, 0.90874),
}
_ASKED_SHARE: Final = 0.99


def asked_accuracy(stated: Mapping[str, object]) -> float | None:
    """The accuracy that the closed division requires; None if model, data or size are not the rules'.

    >>> asked_accuracy({"model": "retinanet", "samples": 24_781, "image_size": 800})
    0.371745
    """
    reference = _REFERENCES.get(str(stated.get("model")))
    if reference is None:
        return None
    size = stated.get("image_size", stated.get("sequence_length"))
    if (stated.get("samples"), size) != (reference.samples, reference.size):
        return None
    return round(_ASKED_SHARE * reference.accuracy, 9)


def check_inference(run: InferenceRun) -> tuple[RuleCheck, ...]:
    """Every check of one run: LoadGen's own verdict, then the settings that it was given."""
    return (
        _performance(run),
        _accuracy_run(run),
        _accuracy_target(run),
        *_settings(run),
        _data_set(run),
        _latency_bound(run),
        _seeds(run),
        _no_test_mode(run),
        _errors(run),
        _agreement(run),
    )


def _performance(run: InferenceRun) -> RuleCheck:
    name = "a result of performance"
    validity = run.stated.get("result_validity")
    where = validity.where if validity else ""
    if run.mode is not None and run.mode.startswith("Accuracy"):
        return RuleCheck(name, "not applicable", run.problem)
    if run.problem:
        return RuleCheck(name, "fail", run.problem, where)
    if validity is None:
        return RuleCheck(name, "not applicable", "the program states no validity")
    return RuleCheck(name, "ok", f"{run.validity}, {run.mode or 'no mode stated'}", where)


def unmet_settings(
    scenario: object, stated: Mapping[str, object], benchmark: str = "", round_: str = ""
) -> tuple[str, ...]:
    """Settings that fall short of the official ones, each with its values, by LoadGen's own keys.

    benchmark, round_  as MLPerf's folders name them; "" if unknown

    >>> unmet_settings("Server", {"effective_min_duration_ms": 60_000})
    ('minimum duration: effective_min_duration_ms is 60000, the rules require at least 600000',)
    """
    shortfalls = []
    for setting in _official(scenario, benchmark, round_):
        key = next((key for key in setting.keys if key in stated), None)
        if key is not None and _meets(setting, stated[key]) == "fail":
            shortfalls.append(f"{setting.name}: {_asked(setting, key, stated[key])}")
    return tuple(shortfalls)


def _official(scenario: object, benchmark: str, round_: str) -> Iterator[Setting]:
    """The settings of a scenario; a known benchmark's data set may be smaller than the minimum of samples."""
    task = inference_task(benchmark, round_)
    for setting in _OFFICIAL.get(str(scenario), ()) if has_todays_scenarios(round_) else ():
        if setting.value == OFFLINE_MINIMUM and task:
            whole = task.offline_minimum == task.samples
            remark = f", the data set of {benchmark}" if whole else ""
            yield replace(setting, value=task.offline_minimum, remark=remark)
        else:
            yield setting


def task_of(run: InferenceRun) -> tuple[str, str]:
    """Benchmark and round of a run in MLPerf's tree; "" if unknown."""
    return (run.place.benchmark, run.place.round) if run.place else ("", "")


def _settings(run: InferenceRun) -> Iterator[RuleCheck]:
    for setting in _official(run.scenario, *task_of(run)):
        key = next((key for key in setting.keys if key in run.stated), None)
        if key is None:
            yield RuleCheck(setting.name, "not applicable", f"the logs don't state {setting.keys[0]}")
            continue
        value, where = run.stated[key].value, run.stated[key].where
        yield RuleCheck(setting.name, _meets(setting, value), _asked(setting, key, value), where)


def _data_set(run: InferenceRun) -> RuleCheck:
    name = "data set"
    task = inference_task(*task_of(run))
    stated = run.stated.get("qsl_reported_total_count")
    if task is None:
        return RuleCheck(name, "not applicable", "the benchmark, or the size of its data set, is unknown")
    if stated is None:
        return RuleCheck(name, "not applicable", "the logs don't state qsl_reported_total_count")
    evidence = f"qsl_reported_total_count is {stated.value}, the rules' data set has {task.samples}"
    return RuleCheck(name, "ok" if stated.value == task.samples else "fail", evidence, stated.where)


def _latency_bound(run: InferenceRun) -> RuleCheck:
    name = "latency bound"
    scenario = run.place.scenario if run.place else ""
    benchmark, round_ = task_of(run)
    bounds = latency_bounds_ns(benchmark, scenario, round_)
    stated = {key: run.stated[key] for key in bounds if key in run.stated}
    if not stated:
        return RuleCheck(
            name, "not applicable", "no bound is known for it, or the logs state no such latency"
        )
    above = [key for key, latency in stated.items() if not _within(latency, bounds[key])]
    where = stated[(above or list(stated))[0]].where
    shown = [f"{key} is {stated[key].value}, the limit is {bounds[key]:.0f}" for key in above or stated]
    return RuleCheck(name, "fail" if above else "ok", "; ".join(shown), where)


def _within(latency: StatedValue, most: float) -> bool:
    return isinstance(latency.value, int | float) and latency.value <= most


def _accuracy_run(run: InferenceRun) -> RuleCheck:
    name = "accuracy run"
    if reason := _no_accuracy_is_due(run):
        return RuleCheck(name, "not applicable", reason)
    if run.accuracy is None:
        return RuleCheck(name, "fail", "there is no folder accuracy next to performance")
    return RuleCheck(name, "fail" if run.accuracy.problem else "ok", run.accuracy.problem or "present")


def _accuracy_target(run: InferenceRun) -> RuleCheck:
    name = "accuracy target"
    if reason := _no_accuracy_is_due(run):
        return RuleCheck(name, "not applicable", reason)
    if run.accuracy is None or run.accuracy.problem:
        return RuleCheck(name, "not applicable", "the accuracy is unknown")
    if run.place and run.place.division == "open":
        return RuleCheck(name, "not applicable", "the open division requires none")
    task = inference_task(*task_of(run))
    if task is None or not task.accuracy:
        return RuleCheck(name, "not applicable", "the target of this benchmark in its round is unknown")
    stated = run.accuracy.figures
    missing = [metric for metric in task.accuracy if metric not in stated]
    if missing:
        return RuleCheck(name, "fail", f"accuracy.txt has no {', '.join(missing)}")
    missed = [metric for metric, bounds in task.accuracy.items() if not _holds(bounds, stated[metric])]
    where = stated[(missed or list(task.accuracy))[0]].where
    shown = [f"{m} is {stated[m].value}, required is {task.accuracy[m]}" for m in missed or task.accuracy]
    return RuleCheck(name, "fail" if missed else "ok", "; ".join(shown), where)


def _holds(bounds: AcceptedRange, stated: StatedValue) -> bool:
    return isinstance(stated.value, int | float) and bounds.holds(stated.value)


def _no_accuracy_is_due(run: InferenceRun) -> str:
    """Why no accuracy run is needed next to a run; "" if one is needed."""
    if run.place is None:
        return "the run is not in MLPerf's result tree, SYSTEM/BENCHMARK/SCENARIO/performance/run_1"
    if run.place.audit:
        return f"a run of the audit test {run.place.audit}"
    return "" if run.place.mode == "performance" else "it is the accuracy run"


def _asked(setting: Setting, key: str, value: object) -> str:
    required = f"{'exactly' if setting.exact else 'at least'} {setting.value:g}"
    return f"{key} is {value}, the rules require {required}{setting.remark}"


def _meets(setting: Setting, value: object) -> State:
    if not isinstance(value, int | float):
        return "fail"
    close = abs(value - setting.value) < 1e-9
    return "ok" if close or (value > setting.value and not setting.exact) else "fail"


def _seeds(run: InferenceRun) -> RuleCheck:
    name = "seeds of a round"
    stated = [key for key in _SEEDS if key in run.stated]
    zero = [key for key in stated if run.stated[key].value == 0]
    if not stated:
        return RuleCheck(name, "not applicable", "the logs state no seeds")
    if zero:
        return RuleCheck(name, "fail", f"0, LoadGen's default: {', '.join(zero)}", run.stated[zero[0]].where)
    return RuleCheck(name, "ok", f"{len(stated)} seeds are set", run.stated[stated[0]].where)


def _no_test_mode(run: InferenceRun) -> RuleCheck:
    name = "no test mode"
    if run.place and run.place.audit:
        return RuleCheck(name, "fail", f"the run is in the folder of the audit test {run.place.audit}")
    stated = [key for key in _TEST_MODES if key in run.stated]
    on = [key for key in stated if run.stated[key].value]
    if not stated:
        return RuleCheck(name, "not applicable", "the logs don't state how queries were issued")
    where = run.stated[(on or stated)[0]].where
    return RuleCheck(name, "fail" if on else "ok", f"on: {', '.join(on)}" if on else "none", where)


def _errors(run: InferenceRun) -> RuleCheck:
    name = "no errors"
    errors = run.stated.get("num_errors")
    if errors is None:
        return RuleCheck(name, "not applicable", "no detail log counts them")
    return RuleCheck(name, "fail" if errors.value else "ok", f"num_errors is {errors.value}", errors.where)


def _agreement(run: InferenceRun) -> RuleCheck:
    name = "summary and detail log agree"
    if run.contradictions:
        return RuleCheck(name, "fail", "; ".join(run.contradictions[:3]))
    if len(run.files) < 2:
        return RuleCheck(
            name, "not applicable", f"only {run.files[0] if run.files else 'neither'} states anything"
        )
    return RuleCheck(name, "ok", "in every key that both state")
