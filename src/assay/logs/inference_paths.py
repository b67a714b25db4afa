"""Logs of MLPerf Inference among paths that may also contain training results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.logs.inference_app import app_run, is_app_log
from assay.logs.inference_tree import run_in_tree, without_joined
from assay.logs.loadgen import find_runs
from assay.logs.result_sets import holds_results
from assay.records import InferenceRun


def told_apart(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The paths of training results, and the runs of inference: LoadGen's folders, the app's logs."""
    training: list[Path] = []
    inference: dict[Path, None] = {}
    for path in paths:
        found = find_runs([path])
        if path.is_file() and not found and is_app_log(path):
            found = [path]
        inference.update(dict.fromkeys(found))
        if not found or (path.is_dir() and holds_results(path)):
            training.append(path)
    return training, list(inference)


def inference_runs(found: Sequence[Path]) -> list[InferenceRun]:
    """Each run: from a folder's LoadGen logs or a file's app line; accuracy runs with their speed."""
    return without_joined(
        {path: run_in_tree(path) if path.is_dir() else app_run(path, name=path.name) for path in found}
    )
