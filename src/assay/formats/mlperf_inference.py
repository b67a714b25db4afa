"""Logs of MLPerf Inference: where a run is in MLPerf's tree, its accuracy, and what the reference app prints.

    DIVISION/SUBMITTER/results/SYSTEM/BENCHMARK/SCENARIO/performance/run_1/mlperf_log_detail.txt
                                                        /accuracy/{mlperf_log_detail.txt, accuracy.txt}
    DIVISION/SUBMITTER/compliance/SYSTEM/BENCHMARK/SCENARIO/TEST01/performance/run_1/…

Folders named after a scenario may be lowercase. From v5.1 on `Interactive` is Server with tighter bounds.

Source: MLPerf inference submission rules, "Submission directory structure"; the patterns of accuracy.txt are
those of mlcommons/inference, tools/submission (ACC_PATTERN).

The reference app ends with one line:

    TestScenario.SingleStream qps=163.51, mean=0.0061, time=60.040, queries=9817, tiles=90.0:0.0066

`tiles` (`t` in older versions) are percentiles of latency; times are in seconds. The app measures on its own,
independently of LoadGen: its line has figures but no validity, and so no score.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.formats.figures import OPERATION_UNKNOWN, SEVERAL_RUNS, number
from assay.formats.loadgen import SCENARIOS, find_runs, inference_run, logs_of
from assay.formats.loadgen_text import DETAIL, SUMMARY, is_summary
from assay.formats.log_text import LogText
from assay.formats.reader import Params, Reader
from assay.formats.result_sets import holds_results, round_of
from assay.inputs import read_whole
from assay.records import (
    AccuracyRun,
    InferencePlace,
    InferenceRun,
    Measurement,
    Metric,
    Reading,
    Scalar,
    StatedValue,
)
from assay.units import counted

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


def reading_of(run: InferenceRun, params: LoadgenLogParams) -> Reading:
    """The figures of a run, or why it has none."""
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
    read=lambda logs, params: reading_of(run_of(logs), params),
    version=3,
)


_NAME: Final = re.compile(rf"result_.*\.txt(?:\.gz|\.xz)?|{re.escape(DETAIL)}|{re.escape(SUMMARY)}")


def is_mlperf_name(name: str) -> bool:
    """Whether a file of this name is MLPerf's, whatever is in it."""
    return _NAME.fullmatch(name) is not None


def told_apart(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The paths of training results, and the runs of inference: LoadGen's folders, the app's logs."""
    training: list[Path] = []
    inference: dict[Path, None] = {}
    for path in paths:
        runs = find_runs([path])
        if path.is_file() and not runs and (is_app_log(path) or is_summary(path)):
            runs = [path]
        inference.update(dict.fromkeys(runs))
        if not runs or (path.is_dir() and holds_results(path)):
            training.append(path)
    return training, list(inference)


def inference_runs(paths: Sequence[Path]) -> list[InferenceRun]:
    """Each run: from a folder's LoadGen logs or a file's app line; accuracy runs with their speed."""
    return without_joined(
        {path: run_in_tree(path) if path.is_dir() else run_in_file(path, path.name) for path in paths}
    )


def run_in_file(path: Path, name: str) -> InferenceRun:
    """The run of one file: a summary of LoadGen under whatever name, or a log of the app."""
    if path.name in (DETAIL, SUMMARY) or is_summary(path):
        return inference_run([path], name=name)
    return app_run(path, name=name)


_LONGEST_LINE: Final = 8000  # bytes: the line has a percentile of each kind
_LINE = re.compile(
    r"TestScenario\.(SingleStream|MultiStream|Server|Offline) (qps=[-+0-9.e]+, mean=[^\r\n]{1,5000})"
)
_PAIR = re.compile(r"(\w+)=([^,\s]+)")
_TILES = re.compile(r"\b(?:tiles|t)=")
_TILE = re.compile(r"(\d+(?:\.\d+)?):([-+0-9.eE]+)")


def is_app_log(path: Path) -> bool:
    """Whether a file holds the app's line. Raises InputError if it can't be read."""
    return _last_line(path) is not None


def app_run(path: Path, *, name: str) -> InferenceRun:
    """What the app's last line in a log says; a problem if there is none."""
    try:
        last_line = _last_line(path)
        problem = "" if last_line else "no line of MLPerf Inference's reference app in it"
    except InputError as error:
        last_line, problem = None, str(error.problems[0])
    scenario, figures_text, line, earlier = last_line or (None, "", 0, 0)
    where = f"{path.name}:{line}"
    stated = {
        key: StatedValue(_number(value), where) for key, value in _PAIR.findall(_TILES.split(figures_text)[0])
    }
    figures = tuple(_app_figures(stated, figures_text, path.name, line))
    if last_line and not figures:
        problem = f"line {line} has no finite figure: {figures_text[:100]}"
    if earlier:
        problem = f"line {line}: a result after {counted(earlier, 'other')}: {SEVERAL_RUNS}"
    return InferenceRun(
        name=name,
        files=(path.name,),
        scenario=scenario,
        mode=None,
        validity=None,
        problem=problem,
        score=None,
        figures=figures,
        stated=stated,
    )


def _last_line(path: Path) -> tuple[str, str, int, int] | None:
    """Scenario, its figures, and the line of the last match; how many others are before it."""
    last, others, before = None, -1, 0
    for block in LogText(path, _LONGEST_LINE).blocks():
        if b"TestScenario." in block:
            for match in _LINE.finditer(block.decode("latin-1")):
                others += 1
                last = match[1], match[2], 1 + before + block.count(b"\n", 0, match.start()), others
        before += block.count(b"\n")
    return last


def _app_figures(
    stated: dict[str, StatedValue], figures_text: str, file: str, line: int
) -> Iterator[Measurement]:
    rate, mean = (stated[key].value if key in stated else None for key in ("qps", "mean"))
    if isinstance(rate, float):
        yield Measurement("qps", rate, "queries/s", {}, file, line)
    if isinstance(mean, float):
        yield Measurement("mean_latency", mean, "s", {}, file, line)
    for percentile, text in _TILE.findall("".join(_TILES.split(figures_text)[1:])):
        value, percent = number(text), number(percentile)
        if value is not None and percent is not None:
            yield Measurement("latency", value, "s", {"percentile": percent}, file, line)


def _number(text: str) -> Scalar:
    value = number(text)
    return text if value is None else value


_DIVISIONS: Final = ("closed", "open", "network")
_FOLDERS: Final = {name.lower() for name in (*SCENARIOS, "Interactive")}
_MODES: Final = ("performance", "accuracy")
_AUDIT: Final = re.compile(r"TEST\d\d")
ACCURACY: Final = "accuracy.txt"
_QUOTED: Final = r"'{}':\s+'?(\d+(?:\.\d+)?)"
_METRICS: Final[Mapping[str, re.Pattern[str]]] = {
    name: re.compile(pattern, re.MULTILINE)
    for name, pattern in {
        "accuracy": r'^(?:\{"accuracy|accuracy)[": ]*=?\s*(\d+(?:\.\d+)?)',
        "AUC": r"^AUC=(\d+(?:\.\d+)?)",
        "mAP": r"(?:mAP=|'Total':)\s*(\d+(?:\.\d+)?)",
        "F1": r"""^\{["']exact_match["']:\s*[\d.]+,\s*["']f1["']:\s*(\d+(?:\.\d+)?)""",
        "word accuracy": r"Word Error Rate:.*, accuracy=(\d+(?:\.\d+)?)%",
        "DICE": r"Accuracy:\s*mean\s*=\s*(\d+(?:\.\d+)?)",
        "ROUGE1": _QUOTED.format("rouge1"),
        "ROUGE2": _QUOTED.format("rouge2"),
        "ROUGEL": _QUOTED.format("rougeL"),
        "ROUGELSUM": _QUOTED.format("rougeLsum"),
        "GEN_LEN": _QUOTED.format("gen_len"),
        "TOKENS_PER_SAMPLE": _QUOTED.format("tokens_per_sample"),
        "CLIP_SCORE": _QUOTED.format("CLIP_SCORE"),
        "FID_SCORE": _QUOTED.format("FID_SCORE"),
        "gsm8k": _QUOTED.format("gsm8k"),
        "mbxp": _QUOTED.format("mbxp"),
        "exact_match": _QUOTED.format("exact_match"),
    }.items()
}


def run_in_tree(folder: Path) -> InferenceRun:
    """The run whose logs are in a folder; in MLPerf's tree, with its name there and its accuracy run."""
    place, scenario = _place(folder)
    if place is None or scenario is None:
        return inference_run(logs_of(folder), name="/".join(folder.resolve().parts[-3:]).lstrip("/"))
    run = inference_run(logs_of(folder), name=str(place))
    run = replace(run, place=place, contradictions=(*run.contradictions, *_in_the_wrong_folder(run, place)))
    if place.audit or place.mode != "performance":
        return run
    return replace(run, accuracy=_accuracy_run(scenario / "accuracy"))


def _in_the_wrong_folder(run: InferenceRun, place: InferencePlace) -> Iterator[str]:
    scenario = "Server" if place.scenario == "Interactive" else place.scenario
    if run.scenario is not None and run.scenario.lower() != scenario.lower():
        yield f"the folder is for {place.scenario}, but the log for {run.scenario}"


def without_joined(runs: Mapping[Path, InferenceRun]) -> list[InferenceRun]:
    """The runs, except accuracy runs that belong to a performance run among them."""
    joined = {run.accuracy.folder for run in runs.values() if run.accuracy}
    return [run for folder, run in runs.items() if str(folder.resolve()) not in joined]


def _place(folder: Path) -> tuple[InferencePlace | None, Path | None]:
    """What a run's path says about it, and its scenario's folder; None if it is not in such a tree."""
    path = folder.resolve()
    parts = path.parts
    for index in range(len(parts) - 2, 2, -1):
        below = parts[index + 1 :]
        audit = below[0] if _AUDIT.fullmatch(below[0]) else ""
        mode, *rest = below[1:] if audit and len(below) > 1 else below
        if parts[index].lower() not in _FOLDERS or mode not in _MODES:
            continue
        submitted = (
            index > 4 and parts[index - 5] in _DIVISIONS and parts[index - 3] in ("results", "compliance")
        )
        place = InferencePlace(
            round=(round_of(Path(*parts[: index - 5])) or "") if submitted else "",
            division=parts[index - 5] if submitted else "",
            submitter=parts[index - 4] if submitted else "",
            system=parts[index - 2],
            benchmark=parts[index - 1],
            scenario=parts[index][0].upper() + parts[index][1:],
            audit=audit,
            mode=mode,
            run="/".join(rest),
        )
        return place, Path(*parts[: index + 1])
    return None, None


def _accuracy_run(folder: Path) -> AccuracyRun | None:
    """The score of a scenario's accuracy run; None if there is none."""
    file = folder / ACCURACY
    logs = logs_of(folder) if folder.is_dir() else []
    if not file.is_file() and not logs:
        return None
    here = str(folder)
    mode = inference_run(logs, name=folder.name).mode if logs else None
    if mode is None or not mode.startswith("Accuracy"):
        stated = f"has a run of {mode}" if mode else "has no LoadGen log"
        return AccuracyRun(here, {}, f"the folder accuracy {stated}; expected a run of AccuracyOnly")
    if not file.is_file():
        return AccuracyRun(here, {}, f"the folder accuracy has no {ACCURACY}: the run's score is unknown")
    try:
        text = read_whole(file).decode("latin-1")
    except InputError as error:
        return AccuracyRun(here, {}, str(error.problems[0]))
    figures = dict(_figures(text))
    return AccuracyRun(here, figures, "" if figures else f"{ACCURACY} has no known accuracy metric")


def _figures(text: str) -> Iterator[tuple[str, StatedValue]]:
    """Metrics with the last value of each in the text."""
    last = {name: match for name, pattern in _METRICS.items() for match in pattern.finditer(text)}
    for name, match in last.items():
        line = text.count("\n", 0, match.start(1)) + 1
        yield name, StatedValue(float(match[1]), f"accuracy/{ACCURACY}:{line}")
