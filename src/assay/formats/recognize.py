"""Which formats the logs at a path are in, and what each format makes of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from assay.errors import InputError, Problem
from assay.formats.inference_runs import logged_inference
from assay.formats.loadgen import find_runs
from assay.formats.loadgen_text import is_summary
from assay.formats.logged import LoggedRuns, Stated
from assay.formats.mlperf_inference import is_app_log, is_mlperf_name, told_apart
from assay.formats.mlperf_storage import NAME, find_summaries
from assay.formats.result_sets import find_sets, holds_results
from assay.formats.tf_cnn_benchmarks import cnn_run, logged_cnn_runs
from assay.formats.tool_log import logged_tool_runs
from assay.formats.tools import CNN, MLPERF, TOOLS, marks_in, read_log, unrecognised
from assay.formats.training_runs import logged_trainings

AUTO: Final = "auto"
_MLPERF_TEXT: Final = "mlperf-text"
_OTHER_MARKS: Final = {  # of formats that are more than a mark
    CNN: re.compile(rb"images/sec"),
    _MLPERF_TEXT: re.compile(rb"TestScenario\.|MLPerf Results Summary"),
}


def logged_runs(format_: str, paths: Sequence[Path], stated: Stated) -> Iterator[LoggedRuns]:
    """The runs of logs in one format, as they are kept together. Raises InputError if one can't be read."""
    if format_ == MLPERF:
        training, inference = told_apart(paths)
        if training:
            yield logged_trainings(find_sets(training), stated)
        if inference:
            yield logged_inference(inference, stated)
    elif format_ == CNN:
        yield logged_cnn_runs(paths, stated)
    else:
        yield logged_tool_runs(format_, paths, stated)


def recognize(
    path: Path, requested: str, notes: list[str], tell: Callable[[Path], None] = lambda _file: None
) -> Iterator[tuple[str, Path]]:
    """Each log of a path with its format; several formats may be in one folder, or in one file.

    requested  the format to read it as; AUTO: by its content
    notes      gets what was left out of a folder
    tell       is called with each file of a folder before it is looked at

    Raises InputError if there is none.
    """
    if not path.is_dir():
        formats = [requested] if requested != AUTO else formats_of_file(path)
        if not formats:
            raise InputError([Problem(str(path), unrecognised(path))])
        yield from ((name, path) for name in formats)
        return
    summaries = find_summaries(path)
    yield from ((NAME, summary) for summary in summaries)
    is_mlperfs = holds_results(path) or bool(find_runs([path]))
    logs: list[tuple[str, Path]] = []
    if requested != MLPERF and not summaries:
        logs += _logs_below(path, requested, notes, tell, beside_results=is_mlperfs)
    if requested not in (AUTO, MLPERF):
        logs = [(name, log) for name, log in logs if name == requested]
        if not logs and not summaries:
            raise InputError(f"{path}: none of its files is a log of {requested}")
    if is_mlperfs or not (summaries or logs):
        yield MLPERF, path  # where there is no log at all, its reader says what is missing
    yield from logs


def _logs_below(
    folder: Path, requested: str, notes: list[str], tell: Callable[[Path], None], *, beside_results: bool
) -> Iterator[tuple[str, Path]]:
    """The logs in a folder and below it, without hidden ones and those of Assay's own runs.

    beside_results  the folder has results of MLPerf, whose tree is read by its own rules: then only logs
                    of other programs, directly in the folder
    """
    unknown: list[Path] = []
    found_any = False
    for place, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith((".", "attempt-")))
        if beside_results:
            inner.clear()
        for file in (Path(place, name) for name in sorted(names) if not name.startswith(".")):
            is_results = file.name.startswith("mlperf_log_") or is_mlperf_name(file.name)
            if not file.is_file() or (beside_results and is_results):
                continue
            tell(file)
            try:
                formats = formats_of_file(file)
            except InputError as error:
                notes += [] if beside_results else [f"{error}; left out"]
                continue
            if beside_results and MLPERF in formats:
                continue
            unknown += [] if formats else [file]
            found_any = found_any or bool(formats)
            yield from ((name, file) for name in formats)
    if unknown and found_any and not beside_results and requested == AUTO:
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        shown = ", ".join(map(str, unknown[:3]))
        notes.append(f"left out, in no known format: {shown}{more}")


def formats_of_file(path: Path) -> list[str]:
    """The formats that a file is in. One whose figures are all in lines of another one's is left out.

    Raises InputError if it can't be read.
    """
    marks = marks_in(path, _OTHER_MARKS)
    names = [name for name in TOOLS if name in marks]
    run = cnn_run(path) if CNN in marks else None
    if run and run.figures:
        names.append(CNN)
    if not names:
        is_mlperfs = MLPERF in marks or is_mlperf_name(path.name)
        is_mlperfs = is_mlperfs or (_MLPERF_TEXT in marks and (is_app_log(path) or is_summary(path)))
        return [MLPERF] if is_mlperfs else []
    if len(names) == 1:
        return names
    lines: dict[str, set[int]] = {}
    for name in names:
        if run and name == CNN:
            lines[name] = {figure.line for figure in run.figures}
        else:
            lines[name] = {figure.line for figure in read_log(name, path).figures}
    formats: list[str] = []
    for name in sorted(lines, key=lambda name: -len(lines[name])):
        if not any(lines[name] <= lines[other] for other in formats):
            formats.append(name)
    return sorted(formats, key=names.index)
