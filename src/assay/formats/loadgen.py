"""One run of LoadGen, MLPerf Inference's load generator → one `InferenceRun`.

The score of each scenario: SingleStream, the 90th percentile of latency, and MultiStream, the 99th, each as
the early-stopping estimate; Server, completed samples per second within the latency bound; Offline, samples
per second. For language models, the last two use tokens per second, which LoadGen logs for no other model;
for GPT-J it assumes 69 tokens per sample (`inferred`) instead of counting them. A run that is INVALID, or
that didn't measure performance, has no score.

Source: MLPerf inference rules, "Scenarios", "Early Stopping Criterion"; LoadGen 6.0, results.cc;
mlcommons/inference, tools/submission, RESULT_FIELD_BENCHMARK_OVERWRITE of v4.1 to v6.0.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from assay.errors import InputError, Problem
from assay.formats.figures import number
from assay.formats.loadgen_text import DETAIL, SUMMARY, stated_in_detail, stated_in_summary
from assay.records import InferenceRun, Measurement, Scalar, StatedValue

SCENARIOS: Final = ("SingleStream", "MultiStream", "Server", "Offline")
_SCORES: Final[
    Mapping[str, tuple[str, ...]]
] = {  # the first one that a log states; older LoadGens have only the last
    "SingleStream": ("early_stopping_latency_ss", "result_90.00_percentile_latency_ns"),
    "MultiStream": ("early_stopping_latency_ms", "result_99.00_percentile_per_query_latency_ns"),
    "Server": (
        "result_completed_tokens_per_second",
        "result_inferred_completed_tokens_per_second",
        "result_completed_samples_per_sec",
        "result_scheduled_samples_per_sec",
    ),
    "Offline": (
        "result_tokens_per_second",
        "result_inferred_tokens_per_second",
        "result_samples_per_second",
    ),
}
_PERCENTILE = re.compile(
    r"result_(first_token_|time_per_output_token_)?(\d+\.\d+)_percentile_(per_query_)?(?:latency_)?ns"
)
_LATENCIES: Final = {"": "latency", "first_token_": "first_token", "time_per_output_token_": "time_per_token"}
_RATES: Final[Mapping[str, tuple[str, str]]] = {  # key → metric and unit
    "result_samples_per_second": ("throughput", "samples/s"),
    "result_completed_samples_per_sec": ("throughput", "samples/s"),
    "result_scheduled_samples_per_sec": ("scheduled_throughput", "samples/s"),
    "result_qps_with_loadgen_overhead": ("qps", "queries/s"),
    "result_tokens_per_second": ("token_throughput", "tokens/s"),
    "result_completed_tokens_per_second": ("token_throughput", "tokens/s"),
    "result_inferred_tokens_per_second": ("inferred_token_throughput", "tokens/s"),
    "result_inferred_completed_tokens_per_second": ("inferred_token_throughput", "tokens/s"),
}
SAMPLES_PER_QUERY: Final = "result_samples_per_query"
_CONDITIONS: Final[Mapping[str, str]] = {  # of a valid run, and what a run is that doesn't meet them
    "result_min_duration_met": "shorter than its minimum duration",
    "result_min_queries_met": "fewer queries than its minimum",
    "result_perf_constraints_met": "latency above its bound",
    "early_stopping_met": "too few queries for early stopping",
}
_OFFLINE_RATE: Final = ("result_max_latency_ns", "result_samples_per_second")
_OF_DATA_SET: Final = (
    "effective_performance_sample_count",
    "qsl_reported_performance_count",
    "qsl_reported_total_count",
)
_RATE_WITHIN: Final = 0.05  # the longest latency leaves out what LoadGen does before and after it
_SAME_WITHIN: Final = 1e-4  # the summary prints six digits,
_HALF_A_DIGIT: Final = 0.005  # and queries per second with two decimals


def find_runs(paths: Sequence[Path]) -> list[Path]:
    """Folders that contain a LoadGen log, in the given order, each once; a log represents its folder.

    Raises InputError if a folder can't be entered.
    """
    folders: dict[Path, None] = {}
    for path in paths:
        if path.is_file() and path.name in (DETAIL, SUMMARY):
            folders[path.parent] = None
        for folder, inner, files in os.walk(path, onerror=_refuse) if path.is_dir() else ():
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            if DETAIL in files or SUMMARY in files:
                folders[Path(folder)] = None
    return list(folders)


def _refuse(error: OSError) -> None:
    raise InputError([Problem(str(error.filename), f"can't be entered: {error.strerror}")]) from error


def logs_of(folder: Path) -> list[Path]:
    """The logs of a run: the detail log first."""
    return [folder / name for name in (DETAIL, SUMMARY) if (folder / name).is_file()]


def inference_run(files: Sequence[Path], *, name: str) -> InferenceRun:
    """What a run's logs state, from the summary, the detail log, or both; never raises on their contents."""
    detail: dict[str, StatedValue] = {}
    summary: dict[str, StatedValue] = {}
    unreadable = ""
    summary_name = next((file.name for file in files if file.name != DETAIL), SUMMARY)
    for file in files:
        try:
            if file.name == DETAIL:
                detail = stated_in_detail(file)
            else:
                summary = stated_in_summary(file)
        except InputError as error:
            unreadable = str(error.problems[0])
    return _run(name, detail, summary, unreadable, summary_name)


def printed_run(log: Path) -> InferenceRun:
    """The run whose detail log a program printed among its own lines, under LoadGen's keys."""
    try:
        return _run(log.name, stated_in_detail(log), {}, "")
    except InputError as error:
        return _run(log.name, {}, {}, str(error.problems[0]))


def _run(
    name: str,
    detail: Mapping[str, StatedValue],
    summary: Mapping[str, StatedValue],
    unreadable: str,
    summary_name: str = SUMMARY,
) -> InferenceRun:
    stated = {**summary, **detail}
    scenario, mode = _word(stated, "effective_scenario"), _word(stated, "effective_test_mode")
    figures = tuple(_figures(stated, scenario))
    score = _score(stated, scenario)
    problem = unreadable or _problem(stated, scenario, mode, score)
    return InferenceRun(
        name=name,
        files=tuple(name for name, logged in ((DETAIL, detail), (summary_name, summary)) if logged),
        scenario=scenario,
        mode=mode,
        validity=_word(stated, "result_validity"),
        problem=problem,
        score=None if problem else score,
        figures=() if problem else figures,
        stated=stated,
        contradictions=(*_contradictions(detail, summary), *_contradicted(stated, scenario)),
    )


def _problem(
    stated: Mapping[str, StatedValue], scenario: str | None, mode: str | None, score: Measurement | None
) -> str:
    """Why this is not a performance result; "" if it is one."""
    if scenario not in SCENARIOS:
        return f"unknown LoadGen scenario: {scenario}" if scenario else "no LoadGen line in it"
    if mode is not None and not mode.startswith("Performance"):
        return f"measured accuracy, not performance: {mode}"
    validity = _word(stated, "result_validity")
    if validity is None:
        return "no result_validity: the run did not finish, or the log is truncated"
    if validity != "VALID":
        return f"LoadGen says {validity}: {_why_invalid(stated)}"
    if score is None and SAMPLES_PER_QUERY in stated:
        per_query = stated[SAMPLES_PER_QUERY].value
        return f"{scenario} of v0.5 is judged by its samples per query, {per_query}, not by a latency"
    return "" if score else f"no {_SCORES[scenario][-1]} in it"


def _why_invalid(stated: Mapping[str, StatedValue]) -> str:
    """Which of LoadGen's conditions were not met, as text."""
    unmet = [message for key, message in _CONDITIONS.items() if key in stated and stated[key].value is False]
    if (errors := stated.get("num_errors")) and errors.value:
        unmet.append(f"{errors.value} error{'s' if errors.value != 1 else ''} in its detail log")
    return ", ".join(unmet) or "it doesn't say why"


def _score(stated: Mapping[str, StatedValue], scenario: str | None) -> Measurement | None:
    for key in _SCORES.get(scenario or "", ()):
        measurement = _measurement(key, stated)
        if measurement is not None and measurement.value > 0:  # an impossible estimate is logged as 0
            return measurement
    return None


def _figures(stated: Mapping[str, StatedValue], scenario: str | None) -> Iterator[Measurement]:
    """The score first, then the rest in the log's order; MultiStream's latencies are those of its queries."""
    score = _score(stated, scenario)
    if score is not None:
        yield score
    of_queries = any(match[3] for key in stated if (match := _PERCENTILE.fullmatch(key)))
    for key in stated:
        match = _PERCENTILE.fullmatch(key)
        if match and of_queries and not match[1] and not match[3]:
            continue
        measurement = _measurement(key, stated)
        if measurement is not None and measurement != score and not key.startswith("early_stopping"):
            yield measurement


def _measurement(key: str, stated: Mapping[str, StatedValue]) -> Measurement | None:
    """A key's figure in base units; None if there is none, or it is not a finite number."""
    if key not in stated:
        return None
    value, where = stated[key].value, stated[key].where
    if isinstance(value, str | bool) or value is None or not math.isfinite(value):
        return None
    file, _, line = where.rpartition(":")
    if match := _PERCENTILE.fullmatch(key):
        labels: dict[str, Scalar] = {"percentile": number(match[2])}
        return Measurement(_LATENCIES[match[1] or ""], value * 1e-9, "s", labels, file, int(line))
    if key in _RATES:
        metric, unit = _RATES[key]
        return Measurement(metric, float(value), unit, {}, file, int(line))
    if key in ("early_stopping_latency_ss", "early_stopping_latency_ms"):
        return Measurement("latency_estimate", value * 1e-9, "s", {}, file, int(line))
    return None


def _contradictions(detail: Mapping[str, StatedValue], summary: Mapping[str, StatedValue]) -> Iterator[str]:
    """Keys that the two logs state differently, beyond the summary's rounding."""
    for key in sorted(detail.keys() & summary.keys()):
        stated, repeated = detail[key], summary[key]
        if not _same(stated.value, repeated.value):
            yield f"{key} is {stated.value} at {stated.where}, but {repeated.value} at {repeated.where}"


def _contradicted(stated: Mapping[str, StatedValue], scenario: str | None) -> Iterator[str]:
    """What a run states that its own other lines rule out."""
    validity = stated.get("result_validity")
    if validity and validity.value == "VALID":
        for key in _CONDITIONS:
            if key in stated and stated[key].value is False:
                yield f"result_validity is VALID at {validity.where}, but {key} is No at {stated[key].where}"
    longest, rate = (_figure(stated, key) for key in _OFFLINE_RATE)
    if scenario != "Offline" or not longest or not rate:
        return
    possible = [samples / (longest * 1e-9) for samples in _offline_samples(stated)]
    if possible and not any(math.isclose(rate, candidate, rel_tol=_RATE_WITHIN) for candidate in possible):
        rates = " or ".join(f"{candidate:.4g}" for candidate in possible)
        where = stated[_OFFLINE_RATE[-1]].where
        yield (
            f"{_OFFLINE_RATE[-1]} is {rate:g} at {where}, but its samples in {longest * 1e-9:.4g} s "
            f"are {rates} per second"
        )


def _offline_samples(stated: Mapping[str, StatedValue]) -> list[float]:
    """How many samples the one query can have had: those requested, or whole passes over the data set."""
    requested = _figure(stated, "effective_samples_per_query")
    if not requested:
        return []
    counts = dict.fromkeys(_figure(stated, key) for key in _OF_DATA_SET)
    return [requested, *(math.ceil(requested / count) * count for count in counts if count)]


def _figure(stated: Mapping[str, StatedValue], key: str) -> float | None:
    value = stated[key].value if key in stated else None
    return None if value is None or isinstance(value, str | bool) else float(value)


def _same(first: Scalar, second: Scalar) -> bool:
    if isinstance(first, int | float) and isinstance(second, int | float):
        return math.isclose(first, second, rel_tol=_SAME_WITHIN, abs_tol=_HALF_A_DIGIT)
    return first == second


def _word(stated: Mapping[str, StatedValue], key: str) -> str | None:
    value = stated[key].value if key in stated else None
    return value if isinstance(value, str) else None
