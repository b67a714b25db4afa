"""What MLPerf Storage reports of one run: the `summary.json` of DLIO, or the `[METRIC]` lines of its log.

    results/SYSTEM/unet3d-h100/run1/…/summary.json
                                    /configs/overrides.yaml   - workload=unet3d_h100

Samples per second count only if the accelerators, which are emulated, were busy for the share of the time
that the rules demand: 90 %, for RetinaNet 85, for CosmoFlow 70. DLIO's flag says whether they were; a summary
whose flag and share differ is no result (in the 661 runs of the round v1.0, none does). DLIO's bandwidth is
samples per second times the nominal size of a record, which is not what the storage was seen to deliver; its
MB and GB are MiB and GiB. A run that DLIO suspects of having read from memory says so (`potential_caching`).

Source: mlcommons/storage, rules of v1.0 to v3.0; argonne-lcf/dlio_benchmark, utils/statscounter.py;
mlcommons/storage_results_v3.0, where checkpoints are in results/SYSTEM/checkpointing/llama3-70b/TIME/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any, Final

from assay.errors import InputError
from assay.formats.figures import (
    LogFigure,
    LogFigures,
    check_agreement,
    document,
    line_of,
    lines,
    number,
    reported,
    whole,
)
from assay.formats.tools import Tool
from assay.inputs import read_whole
from assay.records import Metric

NAME: Final = "mlperf-storage"
_MARK: Final = re.compile(
    rb'"train_au_mean_percentage"|"(?:save|load)_checkpoint_io_mean_GB_per_second"'
    rb"|\[METRIC\] Training Accelerator Utilization"
)
METRICS: Final = (
    Metric("throughput", "samples/s", "higher", "samples per second that reached the emulated accelerators"),
    Metric(
        "checkpoint_save_bandwidth", "B/s", "higher", "bytes per second of saving a checkpoint", scales=False
    ),
    Metric(
        "accelerator_utilization", "", "higher", "share of the time that accelerators computed", scales=False
    ),
    Metric(
        "nominal_bandwidth", "B/s", "higher", "samples per second times the nominal size of one", scales=False
    ),
    Metric(
        "checkpoint_load_bandwidth", "B/s", "higher", "bytes per second of loading a checkpoint", scales=False
    ),
    Metric("checkpoint_save_time", "s", "lower", "time to save a checkpoint, slowest rank", scales=False),
    Metric("checkpoint_load_time", "s", "lower", "time to load a checkpoint, slowest rank", scales=False),
)
_KEYS: Final = {  # DLIO's key → metric and unit
    "train_throughput_mean_samples_per_second": ("throughput", "samples/s"),
    "train_au_mean_percentage": ("accelerator_utilization", "%"),
    "train_io_mean_MB_per_second": ("nominal_bandwidth", "MiB/s"),
    "save_checkpoint_io_mean_GB_per_second": ("checkpoint_save_bandwidth", "GiB/s"),
    "load_checkpoint_io_mean_GB_per_second": ("checkpoint_load_bandwidth", "GiB/s"),
    "save_checkpoint_duration_mean_seconds": ("checkpoint_save_time", "s"),
    "load_checkpoint_duration_mean_seconds": ("checkpoint_load_time", "s"),
}
_LINES: Final = {  # the same in DLIO's log, by what precedes the colon
    "Training Throughput (samples/second)": ("throughput", "samples/s"),
    "Training Accelerator Utilization [AU] (%)": ("accelerator_utilization", "%"),
    "Training I/O Throughput (MB/second)": ("nominal_bandwidth", "MiB/s"),  # until v2.0
    "Training I/O Throughput (MiB/second)": ("nominal_bandwidth", "MiB/s"),  # from v3.0 on
}
_LINE: Final = re.compile(r"\[METRIC\] ([^:]+): (\d+\.\d+) \((\d+\.\d+)\)\s*$")
_RULES: Final = {"unet3d": 90.0, "resnet50": 90.0, "retinanet": 85.0, "cosmoflow": 70.0}  # least busy, %
_MODELS: Final = re.compile(r"unet3d|cosmoflow|resnet50|retinanet|dlrm|flux|llama3[-_]\w+", re.IGNORECASE)
_ACCELERATORS: Final = re.compile(r"(?<![a-z0-9])(a100|h100|b200|mi355)(?![a-z0-9])", re.IGNORECASE)
_WORKLOAD: Final = re.compile(r"^- workload=(\w+?)_(\w+)\s*$", re.MULTILINE)  # unet3d_b200, llama3_70b
_CODE: Final = re.compile(r"code(-[0-9a-f]+)?")  # a submission's copy of the benchmark; from v3.0 on several
_GIB: Final = 1 << 30
_CONFIGURATIONS: Final = ("configs", "dlio_config", ".hydra")


def mlperf_storage(path: Path) -> LogFigures:
    """What a summary or a log says, and its folders. Raises InputError if it can't be read."""
    text = whole(path)
    log = LogFigures()
    places = _places(path)
    if text.lstrip().startswith("{"):
        _of_summary(text, places.get("model", ""), log)
    else:
        _of_log(path, log)
    log.facts = {**places, **log.facts}
    return log.missing("no figure", "DLIO measured neither a training nor a checkpoint")


def _of_summary(text: str, model: str, log: LogFigures) -> None:
    with reported(log, "incomplete summary of DLIO: {} is missing"):
        summary = document(text)
        metric = summary["metric"]
        log.figures += _figures(metric, text)
        _check_means(metric, text)
        for fact, key in (("ranks", "num_accelerators"), ("nodes", "num_hosts")):
            if isinstance(summary.get(key), int):
                log.facts[fact] = summary[key]
        if (size := number(metric.get("checkpoint_size_GB"))) is not None:
            log.facts["checkpoint_bytes"] = round(size * _GIB)
        _judge(metric, model.partition("-")[0], text, log)
        if "train_au_mean_percentage" in metric:  # a checkpointing run states both without reading files
            if isinstance(summary.get("num_files_train"), int):
                log.facts["files"] = summary["num_files_train"]
            _note_caching(summary.get("potential_caching"), log)


def _figures(metric: Mapping[str, Any], text: str) -> Iterator[LogFigure]:
    for key, (name, unit) in _KEYS.items():
        value = number(metric.get(key))
        if value is not None and value > 0:
            yield LogFigure(name, value, {}, {}, line_of(text, f'"{key}"'), unit)


def _check_means(metric: Mapping[str, Any], text: str) -> None:
    """Raise ValueError if a mean is not that of its epochs or checkpoints, which DLIO lists next to it."""
    for key in _KEYS:
        stated = metric.get(key.replace("_mean", ""))
        values = [number(listed) for listed in stated] if isinstance(stated, list) else []
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            where = f"line {line_of(text, chr(34) + key)}"
            check_agreement(where, key, metric.get(key), fmean(known), f"its {len(known)} values")


def _judge(metric: Mapping[str, Any], model: str, text: str, log: LogFigures) -> None:
    """A run whose accelerators waited too long is no result, and neither is one that contradicts itself.

    model  decides how busy accelerators must be; "" if unknown: success then needs what all models need
    """
    least = _RULES.get(model)
    verdict, share = metric.get("train_au_meet_expectation"), number(metric.get("train_au_mean_percentage"))
    line = line_of(text, '"train_au_meet_expectation"')
    busy = f"busy for {share:.1f} % of the time" if share is not None else "not busy enough"
    if verdict is not None:
        log.facts["utilization_met"] = verdict == "success"
    if verdict not in (None, "success"):
        enough = share is not None and least is not None and share >= least
        judged = f"enough by the rules ({least:g} %)" if enough else "below what the rules demand"
        contradiction = ", but DLIO says that they were not" if enough else ""
        log.problems.append(f"line {line}: the accelerators were {busy}, {judged}{contradiction}")
        return
    least = least if model else min(_RULES.values())
    if share is not None and least is not None and share < least:
        contradiction = ", though DLIO says success" if verdict is not None else ""
        log.problems.append(
            f"line {line}: the accelerators were {busy}, below the {least:g} % of the rules{contradiction}"
        )


def _note_caching(caching: object, log: LogFigures) -> None:
    """A run that memory may have served says so."""
    if isinstance(caching, list) and any(caching):
        log.facts["potential_caching"] = True
        log.notes += ("DLIO suspects that data came from memory (potential_caching), not from the storage",)


def _of_log(path: Path, log: LogFigures) -> None:
    ended = False
    for line, text in lines(path, log, ended=True):
        if "[METRIC]" not in text:
            continue
        ended = "[METRIC] ==" in text
        match = _LINE.search(text)
        if match is None:
            log.skipped += text.count(":") > 0 and any(name in text for name in _LINES)
        elif match[1] in _LINES:
            metric, unit = _LINES[match[1]]
            value = number(match[2])
            if value is not None and value > 0:
                log.figures.append(LogFigure(metric, value, {}, {}, line, unit))
    if log.figures and not ended:
        log.notes += ("no `[METRIC] ===` after the last figure: the log may have been cut there",)


def _places(path: Path) -> dict[str, str]:
    """Submitter, system and what was run, from the folders and the configuration beside the file."""
    parts = path.absolute().parts
    facts: dict[str, str] = {}
    results_index = max((index for index, part in enumerate(parts) if part == "results"), default=None)
    below = "/".join(parts[-5:-1])
    if results_index is not None and 0 < results_index < len(parts) - 2:
        facts |= {"submitter": parts[results_index - 1], "system": parts[results_index + 1]}
        below = "/".join(parts[results_index + 2 : -1])
    model, accelerator = _MODELS.search(below), _ACCELERATORS.search(below)
    named = _configured(path.parent) or (
        (model[0].lower(), accelerator[1].lower()) if model and accelerator else ()
    )
    if named:
        facts["model"] = "-".join(named)
        if _ACCELERATORS.fullmatch(named[1]):  # of a checkpoint, it is the size of the network
            facts["accelerator"] = named[1]
    elif model:
        facts["model"] = model[0].lower()
    return facts


def _configured(folder: Path) -> tuple[str, str] | None:
    """Model and accelerator by what DLIO was told; None if its configuration is not here."""
    for name in _CONFIGURATIONS:
        file = folder / name / "overrides.yaml"
        try:
            match = _WORKLOAD.search(read_whole(file).decode(errors="replace")) if file.is_file() else None
        except InputError:
            return None
        if match:
            return match[1], match[2]
    return None


def find_summaries(folder: Path) -> list[Path]:
    """DLIO's summaries in a folder and below it, except in the code of a submission; [] for a file."""
    if not folder.is_dir():
        return []
    return [
        path
        for path in sorted(folder.rglob("summary.json"))
        if not any(map(_CODE.fullmatch, path.relative_to(folder).parts)) and _is_summary(path)
    ]


def _is_summary(path: Path) -> bool:
    try:
        return _MARK.search(read_whole(path)) is not None
    except InputError:
        return False


TOOL: Final = Tool(
    NAME,
    _MARK,
    line='"train_au_mean_percentage", in the summary.json of DLIO',
    words=("dlio", "[metric]", "accelerator utilization", "mlperf_storage"),
    read=mlperf_storage,
    metrics=METRICS,
)
