"""Runs of MLPerf inference that others made → a session of finished and failed runs, logs copied and read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay import read
from assay.analyse.inference_rules import doubts_of_inference
from assay.errors import InputError
from assay.intake.content import sha256
from assay.intake.imported import UNKNOWN, Imported, imported_run, imported_trial, keep_logs, numbered
from assay.intake.training_logs import Asked
from assay.logs.loadgen import SCENARIOS, logs_of
from assay.records import InferenceRun, Run, RunState, Shape, digest_of
from assay.rundir.files import safe_name, word
from assay.workloads.loadgen_log import LOADGEN, LoadgenLogParams, run_of


@dataclass(frozen=True)
class _Found:
    """One run of inference, its logs, and where in MLPerf's tree it lies; "" where it doesn't."""

    path: Path
    logs: tuple[Path, ...]
    stated: InferenceRun
    system: str
    benchmark: str


def import_inference(paths: Sequence[Path], asked: Asked) -> Imported:
    """Keep LoadGen's folders and the app's logs as one session; the same bytes under a name are kept once.

    Runs that measured accuracy are left out and noted. Raises InputError where the name is a suite's, or no
    run of performance is there.
    """
    safe_name(asked.name)
    found = [_found(path) for path in paths]
    performance = [run for run in found if not _of_accuracy(run.stated)]
    if not performance:
        raise InputError(f"{paths[0]}: its runs measured accuracy; there is no performance to keep")
    content = _content(performance, asked)
    runs = _runs(performance, asked, content)
    return keep_logs(
        asked.runs_dir,
        runs,
        content=content,
        primary_metric={
            trial.benchmark: LOADGEN.metrics(LoadgenLogParams(**trial.params))[0].name
            for trial in (run.trial for run, _ in runs)
        },
        command_line=asked.command_line,
        notes=tuple(_notes(found, asked)),
    )


def _found(path: Path) -> _Found:
    logs = tuple(logs_of(path)) if path.is_dir() else (path,)
    stated = run_of({log.name: log for log in logs})
    system, benchmark = _place(path)
    return _Found(path, logs, stated, system, benchmark)


def _place(path: Path) -> tuple[str, str]:
    """System and benchmark of a run that lies in MLPerf's tree; "" where it doesn't.

    The tree is SYSTEM/BENCHMARK/SCENARIO/performance/run_1.
    """
    parts = path.resolve().parts
    for at in range(len(parts) - 1, 1, -1):
        if parts[at].lower() in {scenario.lower() for scenario in SCENARIOS} and "performance" in parts[at:]:
            return parts[at - 2], parts[at - 1]
    return "", ""


def _of_accuracy(run: InferenceRun) -> bool:
    return run.mode is not None and run.mode.startswith("Accuracy")


def _content(found: Sequence[_Found], asked: Asked) -> str:
    said = [asked.system, str(asked.shape), asked.benchmark]
    files = [[run.system, run.benchmark, log.name, sha256(log)] for run in found for log in run.logs]
    return digest_of(["inference", said, sorted(files)])


def _notes(found: Sequence[_Found], asked: Asked) -> list[str]:
    """What the user should know: what was left out or not told, and what is doubted about the runs."""
    notes = []
    if asked.round is not None:
        notes.append("--round is a round of training; it says nothing about inference and was left out")
    if left_out := sum(_of_accuracy(run.stated) for run in found):
        notes.append(f"{left_out} of {len(found)} runs measured accuracy and were left out")
    if asked.shape is None:
        notes.append("no log says how many accelerators took part; they stand as 1x1. Say it with --shape")
    alike: dict[str, list[str]] = {}
    for run in found:
        alike.setdefault(digest_of([sha256(log) for log in run.logs]), []).append(str(run.path))
    notes += [
        f"{' and '.join(paths)} hold the same bytes: a copy is no repetition; remove it"
        for paths in alike.values()
        if len(paths) > 1
    ]
    for run in found:
        notes += [f"{run.path}: {d.code}: {d.evidence}" for d in doubts_of_inference(run.stated)]
    return notes


def _runs(found: Sequence[_Found], asked: Asked, content: str) -> list[tuple[Run, tuple[Path, ...]]]:
    """The runs with their logs; of one benchmark, scenario, system and shape in the order given."""
    return numbered([(_run(one, asked), one.logs) for one in found], content)


def _run(found: _Found, asked: Asked) -> Run:
    stated = found.stated
    shape = asked.shape or Shape(1, 1)
    system = word(asked.system or found.system) or UNKNOWN
    named = asked.benchmark or found.benchmark
    of_app = not found.path.is_dir()
    parts = [named or "inference", stated.scenario or UNKNOWN, *(["app"] if of_app else [])]
    benchmark = word("-".join(parts))
    params = LoadgenLogParams(scenario=stated.scenario, benchmark=named or None, app=of_app)
    trial = imported_trial(asked.name, benchmark, LOADGEN.name, system, shape, params.model_dump())
    run = imported_run(trial, str(found.path))
    problems = read.read({log.name: log for log in found.logs}, run).problems
    return replace(run, state=RunState.FAILED if problems else RunState.FINISHED, cause="; ".join(problems))
