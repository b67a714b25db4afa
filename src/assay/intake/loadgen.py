"""Imports runs of MLPerf Inference: a session of finished and failed runs, logs copied and read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay import read
from assay.analyse.doubts.inference import doubts_of_inference
from assay.errors import InputError
from assay.formats.loadgen import logs_of
from assay.formats.loadgen_text import is_summary
from assay.formats.log_text import surroundings
from assay.formats.mlperf_inference import LOADGEN, LoadgenLogParams, run_in_tree, run_of
from assay.formats.result_sets import system_facts
from assay.intake.sessions import (
    UNKNOWN,
    ImportResult,
    imported_run,
    imported_trial,
    keep_logs,
    numbered,
    sha256,
)
from assay.intake.training_logs import TrainingLogsRequest, shape_of
from assay.records import InferenceRun, Run, RunState, Shape, digest_of
from assay.rundir.files import public_word, set_name


@dataclass(frozen=True)
class _InferenceLogs:
    """One run of inference and its logs."""

    path: Path
    logs: tuple[Path, ...]
    stated: InferenceRun


def import_inference(paths: Sequence[Path], request: TrainingLogsRequest) -> ImportResult:
    """Store LoadGen's folders and the app's logs as one session; the same bytes under a name are stored once.

    Accuracy runs are skipped and noted. Raises InputError if the name is a suite's, or if there is no
    performance run.
    """
    set_name(request.name)
    inference_logs = [_inference_logs(path) for path in paths]
    performance = [
        run for run in inference_logs if not _of_accuracy(run.stated) and not _of_audit(run.stated)
    ]
    if not performance:
        what = "accuracy" if any(_of_accuracy(run.stated) for run in inference_logs) else "for an audit test"
        raise InputError(f"{paths[0]}: its runs measured {what}; there is no performance run to import")
    content = _content(performance, request)
    runs = _runs(performance, request, content)
    return keep_logs(
        request.runs_dir,
        runs,
        content=content,
        primary_metric={
            trial.benchmark: LOADGEN.metrics(LoadgenLogParams(**trial.params))[0].name
            for trial in (run.trial for run, _ in runs)
        },
        command_line=request.command_line,
        notes=tuple(_notes(inference_logs, performance, request)),
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


def _content(inference_logs: Sequence[_InferenceLogs], request: TrainingLogsRequest) -> str:
    stated = [request.system, str(request.shape), request.benchmark]
    files = [[str(run.stated.place), log.name, sha256(log)] for run in inference_logs for log in run.logs]
    return digest_of(["inference", stated, sorted(files)])


def _notes(
    inference_logs: Sequence[_InferenceLogs], kept: Sequence[_InferenceLogs], request: TrainingLogsRequest
) -> list[str]:
    """What the user should know: what was skipped or is unknown, and doubts about the runs."""
    notes = []
    if request.round is not None:
        notes.append("--round is an MLPerf Training round; it does not apply to inference and was ignored")
    if left_out := sum(_of_accuracy(run.stated) for run in inference_logs):
        notes.append(f"{left_out} of {len(inference_logs)} runs measured accuracy and were skipped")
    if left_out := sum(_of_audit(run.stated) for run in inference_logs):
        notes.append(
            f"{left_out} of {len(inference_logs)} runs are from audit tests or ranging and were skipped"
        )
    unknown = [run for run in kept if request.shape is None and _shape(run) is None]
    if unknown:
        notes.append(
            f"no system JSON says how many accelerators took part in {len(unknown)} of {len(kept)} runs; "
            "they are stored as 1x1. Set it with --shape"
        )
    alike: dict[str, list[str]] = {}
    for run in kept:
        place = run.stated.place
        point = str(replace(place, run="")) if place else ""  # bert-99 and bert-99.9 may share one run
        alike.setdefault(digest_of([point, *map(sha256, run.logs)]), []).append(str(run.path))
    notes += [
        f"{' and '.join(paths)} have the same bytes: a copy is not a repeat; remove it"
        for paths in alike.values()
        if len(paths) > 1
    ]
    for run in kept:
        notes += [f"{log}: {note}" for log in run.logs for note in surroundings(log).notes]
        notes += [f"{run.path}: {d.code}: {d.evidence}" for d in doubts_of_inference(run.stated)]
    return notes


def _runs(
    inference_logs: Sequence[_InferenceLogs], request: TrainingLogsRequest, content: str
) -> list[tuple[Run, tuple[Path, ...]]]:
    """The runs with their logs; those of one benchmark, scenario, system, and shape in the given order."""
    return numbered([(_run(inference, request), inference.logs) for inference in inference_logs], content)


def _run(inference: _InferenceLogs, request: TrainingLogsRequest) -> Run:
    stated, place = inference.stated, inference.stated.place
    shape = request.shape or _shape(inference) or Shape(1, 1)
    system = public_word(request.system or (place.owner if place else ""), str(inference.path)) or UNKNOWN
    named = request.benchmark or (place.benchmark if place else "")
    scenario = place.scenario if place else stated.scenario
    of_app = not inference.path.is_dir() and not is_summary(inference.path)
    parts = [named or "inference", scenario or UNKNOWN, *(["app"] if of_app else [])]
    benchmark = public_word("-".join(parts), str(inference.path))
    params = LoadgenLogParams(
        scenario=stated.scenario,
        benchmark=named or None,
        round=(place.round if place else "") or None,
        app=of_app,
        scored=stated.score.metric if stated.score else None,
    )
    trial = imported_trial(request.name, benchmark, LOADGEN.name, system, shape, params.model_dump())
    run = imported_run(trial, str(inference.path))
    problems = read.read({log.name: log for log in inference.logs}, run).problems
    return replace(run, state=RunState.FAILED if problems else RunState.FINISHED, cause="; ".join(problems))


def _shape(inference: _InferenceLogs) -> Shape | None:
    """Nodes × accelerators from the system's JSON; None if there is none at its place in the tree."""
    if inference.stated.place is None or inference.stated.place.audit:
        return None
    folder = inference.path.resolve()
    mode = next(above for above in (folder, *folder.parents) if above.name == inference.stated.place.mode)
    facts, _ = system_facts(mode.parent.parent, [])
    return shape_of(facts)
