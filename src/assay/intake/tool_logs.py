"""Imports logs of recognized programs: a session of finished and failed runs, copied and read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from assay import read
from assay.formats.figures import LogFigures
from assay.formats.log_text import surroundings
from assay.formats.tf_cnn_benchmarks import TF_CNN, THROUGHPUT, TfCnnLogParams, cnn_run, devices_of
from assay.formats.tool_log import TOOL_LOG, ToolLogParams
from assay.formats.tools import TOOLS, read_log
from assay.intake.sessions import (
    UNKNOWN,
    ImportResult,
    imported_run,
    imported_trial,
    keep_logs,
    numbered,
    sha256,
    without_copies,
)
from assay.intake.training_logs import TrainingLogsRequest
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
        notes=(*copies, *_cnn_notes(paths, request)),
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


def _cnn_notes(paths: Sequence[Path], request: TrainingLogsRequest) -> tuple[str, ...]:
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


_NAMES = (
    "model",
    "test",
    "operation",
)  # facts that distinguish what was run from what else the program can run
_RANKS = ("ranks", "workers", "gpus")


@dataclass(frozen=True)
class _Log:
    """One file as the run that it becomes, and the metrics for which it has figures."""

    path: Path
    run: Run
    measured: tuple[str, ...]
    found: LogFigures


def import_tool_logs(paths: Sequence[Path], tool: str, request: TrainingLogsRequest) -> ImportResult:
    """Store each log of one tool as a run of one session; the same bytes are stored once.

    Raises InputError if the name is a suite's.
    """
    paths, copies = without_copies(paths)
    stated = [tool, request.system, str(request.shape), request.benchmark]
    content = digest_of(["tool-log", stated, sorted(sha256(path) for path in paths)])
    logs = [_log(path, tool, request) for path in paths]
    return keep_logs(
        request.runs_dir,
        numbered([(log.run, (log.path,)) for log in logs], content),
        content=content,
        primary_metric={log.run.trial.benchmark: _primary(log) for log in reversed(logs)},
        command_line=request.command_line,
        notes=(*copies, *_notes(logs, tool, request)),
    )


def _log(path: Path, tool: str, request: TrainingLogsRequest) -> _Log:
    log = read_log(tool, path)
    name = next((text for fact in _NAMES if (text := _text_fact(log, fact))), "")
    benchmark = public_word(request.benchmark or f"{tool} {name}".strip(), str(path)) or UNKNOWN
    system = public_word(request.system or _text_fact(log, "system"), str(path)) or UNKNOWN
    params = ToolLogParams(tool=tool, benchmark=request.benchmark, named=_rates(tool, log))
    shape = request.shape or _shape(log) or Shape(1, 1)
    trial = imported_trial(request.name, benchmark, TOOL_LOG.name, system, shape, params.model_dump())
    run = imported_run(trial, str(path))
    reading = read.read({path.name: path}, run)
    state = RunState.FAILED if reading.problems else RunState.FINISHED
    cause = "; ".join(reading.problems)
    run = replace(run, state=state, cause=cause, started_at=log.started_at)
    return _Log(path, run, tuple(figure.metric for figure in log.figures), log)


def _text_fact(log: LogFigures, fact: str) -> str:
    """A fact that the log states as text; "" if it doesn't."""
    value = log.facts.get(fact)
    return value if isinstance(value, str) else ""


def _rates(tool: str, log: LogFigures) -> tuple[str, ...]:
    """Rates that the program named itself, those of the whole before those of a part."""
    if TOOLS[tool].metrics:
        return ()
    rates = dict.fromkeys(figure.metric for figure in log.figures if figure.unit.endswith("/s"))
    return tuple(sorted(rates, key=lambda name: "total" not in name))


def _shape(log: LogFigures) -> Shape | None:
    """Nodes × ranks per node from the log; None if it does not state them, or states what can't be."""
    ranks = next((count for fact in _RANKS if (count := _count(log, fact)) is not None), None)
    nodes = _count(log, "nodes") if "nodes" in log.facts else 1
    if ranks is None or nodes is None or nodes < 1 or ranks % nodes:
        return None
    try:
        return Shape.parse(f"{nodes}x{ranks // nodes}")
    except ValueError:
        return None


def _count(log: LogFigures, fact: str) -> int | None:
    value = log.facts.get(fact)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _primary(log: _Log) -> str:
    """The first of the tool's metrics for which the log has figures."""
    names = [metric.name for metric in TOOL_LOG.metrics(ToolLogParams(**log.run.trial.params))]
    measured = [name for name in names if name in log.measured] or names
    return measured[0] if measured else next(iter(log.measured), UNKNOWN)


def _notes(logs: Sequence[_Log], tool: str, request: TrainingLogsRequest) -> tuple[str, ...]:
    notes = [f"{log.path}: read as a log of {tool}; unknown lines: {log.found.skipped}" for log in logs]
    notes += [f"{log.path}: {note}" for log in logs for note in log.found.notes]
    if request.round is not None:
        notes.append(f"--round is an MLPerf round; it does not apply to {tool} and was ignored")
    for log in logs if request.shape is None else ():
        facts = log.found.facts
        if "ranks_listed" in facts:
            total = (
                f"of {facts['ranks']}, according to its rows"
                if "ranks" in facts
                else "but how many ran is unknown"
            )
            notes.append(f"{log.path}: lists {facts['ranks_listed']} ranks {total}")
    shapes = [_shape(log.found) for log in logs if request.shape is None]
    if unsized := shapes.count(None):
        notes.append(
            f"{unsized} of {len(logs)} logs don't say how many devices took part, or say what can't be; they "
            "are stored as 1x1. Set it with --shape"
        )
    on_one = [log for log in logs if "nodes" not in log.found.facts and _shape(log.found)]
    if request.shape is None and on_one:
        notes.append(
            f"{len(on_one)} of {len(logs)} logs don't state their number of nodes; they are stored as one "
            "node. Set it with --shape"
        )
    return tuple(notes)
