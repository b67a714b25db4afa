"""Runs of MLPerf Inference: folders of LoadGen's logs, and logs of the reference app."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay.errors import InputError
from assay.formats.loadgen import logs_of
from assay.formats.loadgen_text import is_summary
from assay.formats.log_text import surroundings
from assay.formats.logged import LoggedRun, LoggedRuns, Stated
from assay.formats.mlperf_inference import LOADGEN, LoadgenLogParams, reading_of, run_in_tree, run_of
from assay.formats.reader import finite_reading
from assay.formats.result_sets import system_facts
from assay.formats.training_runs import shape_of
from assay.inputs import sha256
from assay.records import InferenceRun, Shape, digest_of


@dataclass(frozen=True)
class _InferenceLogs:
    """One run of inference and its logs."""

    path: Path
    logs: tuple[Path, ...]
    stated: InferenceRun


def logged_inference(paths: Sequence[Path], stated: Stated) -> LoggedRuns:
    """LoadGen's folders and the app's logs; accuracy runs are skipped and noted.

    Raises InputError if there is no performance run.
    """
    inference_logs = [_inference_logs(path) for path in paths]
    kept = [run for run in inference_logs if not _of_accuracy(run.stated) and not _of_audit(run.stated)]
    if not kept:
        what = "accuracy" if any(_of_accuracy(run.stated) for run in inference_logs) else "for an audit test"
        raise InputError(f"{paths[0]}: its runs measured {what}; there is no performance run to import")
    about = [stated.system, str(stated.shape), stated.benchmark]
    files = [[str(run.stated.place), log.name, sha256(log)] for run in kept for log in run.logs]
    return LoggedRuns(
        runs=tuple(_run(inference, stated) for inference in kept),
        content=digest_of(["inference", about, sorted(files)]),
        notes=tuple(_notes(inference_logs, kept, stated)),
    )


def _inference_logs(path: Path) -> _InferenceLogs:
    if path.is_dir():
        return _InferenceLogs(path, tuple(logs_of(path)), run_in_tree(path))
    return _InferenceLogs(path, (path,), run_of({path.name: path}))


def _of_accuracy(run: InferenceRun) -> bool:
    """By its log or its folder: some contain a performance log by mistake."""
    in_folder = run.place is not None and run.place.mode == "accuracy"
    return in_folder or (run.mode is not None and run.mode.startswith("Accuracy"))


def _of_audit(run: InferenceRun) -> bool:
    """From an audit test, or from the load search at the start of a power run."""
    return run.place is not None and (run.place.audit != "" or run.place.run == "ranging")


def _notes(
    inference_logs: Sequence[_InferenceLogs], kept: Sequence[_InferenceLogs], stated: Stated
) -> Iterator[str]:
    """What the user should know: what was skipped or is unknown."""
    if stated.round is not None:
        yield "--round is an MLPerf Training round; it does not apply to inference and was ignored"
    if left_out := sum(_of_accuracy(run.stated) for run in inference_logs):
        yield f"{left_out} of {len(inference_logs)} runs measured accuracy and were skipped"
    if left_out := sum(_of_audit(run.stated) for run in inference_logs):
        yield f"{left_out} of {len(inference_logs)} runs are from audit tests or ranging and were skipped"
    unknown = [run for run in kept if stated.shape is None and _shape(run) is None]
    if unknown:
        yield (
            f"no system JSON says how many accelerators took part in {len(unknown)} of {len(kept)} runs; "
            "they are stored as 1x1. Set it with --shape"
        )
    alike: dict[str, list[str]] = {}
    for run in kept:
        place = run.stated.place
        point = str(replace(place, run="")) if place else ""  # bert-99 and bert-99.9 may share one run
        alike.setdefault(digest_of([point, *map(sha256, run.logs)]), []).append(str(run.path))
    for paths in alike.values():
        if len(paths) > 1:
            yield f"{' and '.join(paths)} have the same bytes: a copy is not a repeat; remove it"
    for run in kept:
        yield from (f"{log}: {note}" for log in run.logs for note in surroundings(log).notes)


def _run(inference: _InferenceLogs, stated: Stated) -> LoggedRun:
    run, place = inference.stated, inference.stated.place
    named = stated.benchmark or (place.benchmark if place else "")
    scenario = place.scenario if place else run.scenario
    of_app = not inference.path.is_dir() and not is_summary(inference.path)
    params = LoadgenLogParams(
        scenario=run.scenario,
        benchmark=named or None,
        round=(place.round if place else "") or None,
        app=of_app,
        scored=run.score.metric if run.score else None,
    )
    return LoggedRun(
        logs=inference.logs,
        source=str(inference.path),
        reader=LOADGEN,
        params=params.model_dump(),
        benchmark="-".join([named or "inference", scenario or "unknown", *(["app"] if of_app else [])]),
        system=stated.system or (place.owner if place else ""),
        shape=stated.shape or _shape(inference) or Shape(1, 1),
        reading=finite_reading(reading_of(run, params)),
        primary=LOADGEN.metrics(params)[0].name,
        inference=run,
    )


def _shape(inference: _InferenceLogs) -> Shape | None:
    """Nodes × accelerators from the system's JSON; None if there is none at its place in the tree."""
    if inference.stated.place is None or inference.stated.place.audit:
        return None
    folder = inference.path.resolve()
    mode = next(above for above in (folder, *folder.parents) if above.name == inference.stated.place.mode)
    facts, _ = system_facts(mode.parent.parent, [])
    return shape_of(facts)
