"""What LoadGen's two logs state, under one set of keys: those of its detail log.

| log                      | line                                                                       |
|--------------------------|----------------------------------------------------------------------------|
| mlperf_log_detail.txt    | `:::MLLOG {"key": "result_validity", "value": "VALID", …}`                 |
| mlperf_log_summary.txt   | `Result is : VALID`, `90.00 percentile latency (ns)   : 581464`            |

The summary is for people; if both exist they must agree, which is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeGuard

from assay.errors import InputError, Problem
from assay.formats.figures import SEVERAL_RUNS
from assay.formats.log_text import LogText
from assay.formats.mllog import EventReader
from assay.records import Scalar, StatedValue

SUMMARY: Final = "mlperf_log_summary.txt"
DETAIL: Final = "mlperf_log_detail.txt"
LARGEST_SUMMARY_BYTES: Final = 1 << 20  # real ones have two kilobytes
LARGEST_FIGURE: Final = 1e300  # seeds have 20 digits; a number beyond the range of a float is not accepted

_HEAD: Final = "MLPerf Results Summary"
_PARAMETERS: Final = "Test Parameters Used"
_ONCE: Final = "result_validity"  # a run states it at its end
_KEPT = re.compile(r"effective_|result_|early_stopping_|num_|loadgen_version|sut_name|error_|generated_|qsl_")
_LINE = re.compile(r"\s*(.+?)\s*:\s+(\S.*?)\s*$")
_SAME: Final[Mapping[str, str]] = {  # the summary's words → the detail log's keys
    "SUT name": "sut_name",
    "Scenario": "effective_scenario",
    "Mode": "effective_test_mode",
    "Result is": "result_validity",
    "Performance constraints satisfied": "result_perf_constraints_met",
    "Min duration satisfied": "result_min_duration_met",
    "Min queries satisfied": "result_min_queries_met",
    "Early stopping satisfied": "early_stopping_met",
    "Samples per query": "result_samples_per_query",
    "Samples per second": "result_samples_per_second",
    "Tokens per second": "result_tokens_per_second",
    "Completed samples per second": "result_completed_samples_per_sec",
    "Completed tokens per second": "result_completed_tokens_per_second",
    "Tokens per second (inferred)": "result_inferred_tokens_per_second",
    "Completed tokens per second (inferred)": "result_inferred_completed_tokens_per_second",
    "Scheduled samples per second": "result_scheduled_samples_per_sec",
    "QPS w/ loadgen overhead": "result_qps_with_loadgen_overhead",
    "QPS w/o loadgen overhead": "result_qps_without_loadgen_overhead",
}
_LATENCY = re.compile(r"(Min|Max|Mean|\d+\.\d+ percentile) latency \(ns\)")
_ESTIMATE = re.compile(r"\s*\* Early stopping (\d+\.\d)th percentile estimate: (\d+)")
_ERRORS = re.compile(r"(No|\d+) ERRORS? encountered\b.*", re.IGNORECASE)
_SETTING = re.compile(r"([a-z][a-z0-9_]*)(?: \((ms|ns)\))?")
_ESTIMATE_KEYS: Final = {
    "SingleStream": "early_stopping_latency_ss",
    "MultiStream": "early_stopping_latency_ms",
}
_WORDS: Final[Mapping[str, Scalar]] = {"Yes": True, "NO": False, "No": False}


def stated_in_detail(path: Path) -> dict[str, StatedValue]:
    """Keys of a detail log with their last value; of repeated errors, the first is kept.

    Raises InputError if the file can't be read.
    """
    stated: dict[str, StatedValue] = {}
    reader = EventReader(path)
    for event in reader:
        value = event.value
        if (isinstance(value, str) or is_figure(value)) and _KEPT.match(event.key):
            if event.key.startswith("error_") and event.key in stated:
                continue
            if event.key == _ONCE and event.key in stated:
                raise _several(path, event.line, stated[event.key])
            stated[event.key] = StatedValue(value, f"{path.name}:{event.line}")
    if reader.problem:
        raise InputError([Problem(str(path), reader.problem)])
    return stated


def is_summary(path: Path) -> bool:
    """Whether a file is a summary, whatever its name. Raises InputError if it can't be read."""
    return any(line.strip() == _HEAD for _, line in _lines(path))


def stated_in_summary(path: Path) -> dict[str, StatedValue]:
    """What a summary states, under the detail log's keys. Raises InputError if it can't be read."""
    stated: dict[str, StatedValue] = {}
    per_query = parameters = False
    for number, line in _lines(path):
        parameters = parameters or line.startswith(_PARAMETERS)
        per_query = per_query or line.startswith("Per-query latency")
        scenario = stated["effective_scenario"].value if "effective_scenario" in stated else None
        for key, value in _of_line(line, str(scenario), parameters=parameters, per_query=per_query):
            if key == _ONCE and key in stated:
                raise _several(path, number, stated[key])
            stated.setdefault(key, StatedValue(value, f"{path.name}:{number}"))
    return stated


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The numbered lines of a summary; a larger file is none, and its rest isn't read."""
    left = LARGEST_SUMMARY_BYTES
    for number, line in LogText(path).lines():
        left -= len(line)
        if left < 0:
            return
        yield number, line.decode("latin-1")


def _several(path: Path, line: int, before: StatedValue) -> InputError:
    return InputError([Problem(f"{path}:{line}", f"{_ONCE} again, after {before.where}: {SEVERAL_RUNS}")])


def _of_line(line: str, scenario: str, *, parameters: bool, per_query: bool) -> Iterator[tuple[str, Scalar]]:
    if estimate := _ESTIMATE.fullmatch(line):
        percentile, value = estimate.groups()
        if (scenario, percentile) in (("SingleStream", "90.0"), ("MultiStream", "99.0")):
            yield _ESTIMATE_KEYS[scenario], _number(value)
        return
    if errors := _ERRORS.fullmatch(line.strip()):
        yield "num_errors", 0 if errors[1].lower() == "no" else _number(errors[1])
        return
    match = _LINE.fullmatch(line)
    if match is None:
        return
    word, value = match.groups()
    if word in _SAME:
        name = value.replace(" ", "") if word == "Scenario" else value  # "Multi Stream" in v0.5
        yield _SAME[word], _WORDS.get(name, _number(name))
    elif latency := _LATENCY.fullmatch(word):
        yield _latency_key(latency[1], per_query=per_query), _number(value)
    elif parameters and (setting := _SETTING.fullmatch(word)):
        unit = f"_{setting[2]}" if setting[2] else ""
        yield f"effective_{setting[1]}{unit}", _number(value)


def _latency_key(which: str, *, per_query: bool) -> str:
    """`90.00 percentile` is result_90.00_percentile_latency_ns; for MultiStream's queries, with per_query."""
    percentile = which.endswith("percentile")
    name = which.replace(" ", "_") if percentile else which.lower()
    query = ("per_query_" if percentile else "query_") if per_query else ""
    return f"result_{name}_{query}latency_ns"


def _number(text: str) -> Scalar:
    try:
        value = int(text) if text.isdecimal() else float(text)
    except ValueError:
        return text
    return value if is_figure(value) else text


def is_figure(value: object) -> TypeGuard[int | float]:
    """A finite number, or a yes or no."""
    return isinstance(value, int | float) and abs(value) < LARGEST_FIGURE
