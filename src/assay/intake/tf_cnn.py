"""Imports logs of tf_cnn_benchmarks: a session of finished and failed runs, copied and read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from assay import read
from assay.intake.content import sha256, without_copies
from assay.intake.sessions import UNKNOWN, ImportResult, imported_run, imported_trial, keep_logs, numbered
from assay.intake.training_logs import TrainingLogsRequest
from assay.logs.log_text import surroundings
from assay.logs.tf_cnn_benchmarks import cnn_run, devices_of
from assay.readers.tf_cnn_log import TF_CNN, THROUGHPUT, TfCnnLogParams
from assay.records import Run, RunState, Shape, digest_of
from assay.rundir.files import public_word


def import_cnn_logs(paths: Sequence[Path], request: TrainingLogsRequest) -> ImportResult:
    """Store each log as a run of one session; the same bytes are stored once.

    Raises InputError if the name is a suite's.
    """
    paths, copies = without_copies(paths)
    stated = [request.system, str(request.shape), request.benchmark]
    content = digest_of(["tf-cnn-benchmarks", stated, sorted(sha256(path) for path in paths)])
    runs = numbered([(_run(path, request), (path,)) for path in paths], content)
    return keep_logs(
        request.runs_dir,
        runs,
        content=content,
        primary_metric={run.trial.benchmark: THROUGHPUT.name for run, _ in runs},
        command_line=request.command_line,
        notes=(*copies, *_notes(paths, request)),
    )


def _run(path: Path, request: TrainingLogsRequest) -> Run:
    stated = cnn_run(path)
    model = stated.facts.get("model")
    named = request.benchmark or (model if isinstance(model, str) else "")
    benchmark = public_word(named, str(path)) or UNKNOWN
    shape = request.shape or Shape(1, devices_of(stated.facts) or 1)
    system = public_word(request.system or "", str(path)) or UNKNOWN
    params = TfCnnLogParams(benchmark=request.benchmark)
    trial = imported_trial(request.name, benchmark, TF_CNN.name, system, shape, params.model_dump())
    run = imported_run(trial, str(path))
    problems = read.read({path.name: path}, run).problems
    return replace(run, state=RunState.FAILED if problems else RunState.FINISHED, cause="; ".join(problems))


def _notes(paths: Sequence[Path], request: TrainingLogsRequest) -> tuple[str, ...]:
    notes = [
        f"{path}: read as a log of tf_cnn_benchmarks; unknown lines: {cnn_run(path).skipped}"
        for path in paths
    ]
    notes += [f"{path}: {note}" for path in paths for note in surroundings(path).notes]
    if request.round is not None:
        notes.append("--round is an MLPerf round; it does not apply to tf_cnn_benchmarks and was ignored")
    if request.shape is None:
        notes.append("no log states its number of nodes; they are stored as one node. Set it with --shape")
    if any(devices_of(cnn_run(path).facts) is None for path in paths) and request.shape is None:
        notes.append("logs without batch sizes don't show how many devices took part; they are stored as 1x1")
    return tuple(notes)
