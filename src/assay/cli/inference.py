"""Logs of MLPerf inference among the paths that `assay score` and `assay import` are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.records import InferenceRun


def told_apart(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """The paths of training results, and the runs of inference: LoadGen's folders, the app's logs."""
    from assay.logs.inference_app import is_app_log
    from assay.logs.loadgen import find_runs
    from assay.logs.result_sets import holds_results

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
    """Each run read: of a folder LoadGen's logs, of a file the app's line; accuracy runs with their speed."""
    from assay.logs.inference_app import app_run
    from assay.logs.inference_tree import run_in_tree, without_joined

    return without_joined(
        {path: run_in_tree(path) if path.is_dir() else app_run(path, name=path.name) for path in found}
    )


def run_json(run: InferenceRun, *, rules: bool) -> dict[str, Any]:
    """A run as plain data: its score and figures, what it was run with, doubts and checks."""
    from assay.analyse.inference_rules import check_inference, doubts_of_inference

    document = {
        "run": run.name,
        "files": list(run.files),
        "place": asdict(run.place) if run.place else None,
        "scenario": run.scenario,
        "mode": run.mode,
        "validity": run.validity,
        "problem": run.problem or None,
        "score": asdict(run.score) if run.score else None,
        "figures": [asdict(figure) for figure in run.figures],
        "accuracy": _accuracy_json(run),
        "settings": {key: said.value for key, said in run.stated.items() if key.startswith("effective_")},
        "doubts": [asdict(doubt) for doubt in doubts_of_inference(run)],
    }
    if rules:
        document["checks"] = [asdict(check) for check in check_inference(run)]
    return document


def _accuracy_json(run: InferenceRun) -> dict[str, Any] | None:
    """The accuracy run next to a run: its figures, or why it states none; None where there is none."""
    if run.accuracy is None:
        return None
    figures = {metric: stated.value for metric, stated in run.accuracy.figures.items()}
    return {"figures": figures, "problem": run.accuracy.problem or None}
