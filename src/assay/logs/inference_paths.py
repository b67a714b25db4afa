"""Logs of MLPerf Inference among paths that may also contain training results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.logs.inference_app import app_run, is_app_log
from assay.logs.inference_tree import run_in_tree, without_joined
from assay.logs.loadgen import find_runs, inference_run
from assay.logs.loadgen_text import DETAIL, SUMMARY, is_summary
from assay.logs.result_sets import holds_results
from assay.records import InferenceRun


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
