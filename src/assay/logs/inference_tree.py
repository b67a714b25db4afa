"""Inference runs in MLPerf's tree of results: their submitter and system, and their accuracy.

    DIVISION/SUBMITTER/results/SYSTEM/BENCHMARK/SCENARIO/performance/run_1/mlperf_log_detail.txt
                                                        /accuracy/{mlperf_log_detail.txt, accuracy.txt}
    DIVISION/SUBMITTER/compliance/SYSTEM/BENCHMARK/SCENARIO/TEST01/performance/run_1/…

Folders named after a scenario may be lowercase. From v5.1 on `Interactive` is Server with tighter bounds.

Source: MLPerf inference submission rules, "Submission directory structure"; the patterns of accuracy.txt are
those of mlcommons/inference, tools/submission (ACC_PATTERN).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from assay.errors import InputError
from assay.inputs import read_whole
from assay.logs.loadgen import SCENARIOS, inference_run, logs_of
from assay.logs.result_sets import round_of
from assay.records import AccuracyRun, InferencePlace, InferenceRun, StatedValue

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
