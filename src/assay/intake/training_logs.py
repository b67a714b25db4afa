"""Imports MLPerf result sets: a session of finished and failed runs, logs copied and read."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path, PurePath

from assay import read
from assay.errors import InputError
from assay.formats.mlperf import MLPERF, THROUGHPUT, TIME_PER_EPOCH, TIME_TO_TRAIN
from assay.formats.result_sets import ResultSet
from assay.formats.stated_system import flat, platform_nodes
from assay.intake.sessions import (
    UNKNOWN,
    ImportResult,
    create,
    digest_of_logs,
    imported_run,
    imported_trial,
    sha256,
)
from assay.records import MOST_RANKS, Provenance, Run, RunState, Scalar, Shape, TrainingRun, digest_of
from assay.rundir import session as rundir
from assay.rundir.files import public_word, set_name
from assay.rundir.session import Session
from assay.units import counted


@dataclass(frozen=True)
class TrainingLogsRequest:
    """What the user says about the logs; None: use what the logs and their folders say.

    name   under which they are stored, in the form of a suite's
    shape  if no system JSON states nodes and accelerators
    """

    runs_dir: Path
    name: str
    system: str | None = None
    shape: Shape | None = None
    round: str | None = None
    benchmark: str | None = None
    command_line: Sequence[str] = ()


@dataclass(frozen=True)
class _Log:
    """One result file as the run that it becomes, not in a session yet; `metrics` that it reports."""

    file: Path
    run: Run
    metrics: frozenset[str]
    provenance: Provenance | None
    training: TrainingRun | None


def import_sets(sets: Sequence[ResultSet], request: TrainingLogsRequest) -> ImportResult:
    """Store the sets as one session; the same bytes under the same name are stored once.

    Raises InputError if the name is a suite's, or if two sets can't be distinguished.
    """
    set_name(request.name)
    content = _content(sets, request)
    notes = tuple(dict.fromkeys(str(problem) for of_set in sets for problem in of_set.problems))
    with rundir.choosing(request.runs_dir, request.name):
        known = [s for s in rundir.sessions_of(request.runs_dir, request.name) if s.header.content == content]
        if known and known[0].header.finished_at is not None:
            runs = tuple(a.run() for a in known[0].last_attempts().values())
            return ImportResult(known[0], runs, added=False, notes=notes)
        _refuse_a_suites_name(request)
        if request.system is None:
            sets, apart = _with_distinct_systems(sets)
            notes += apart
        logs, more_notes = _logs(sets, request)
        session = known[0] if known else _create(logs, request, content)
        for log in logs:
            if not session.attempts_at(log.run.trial.id):  # exists if an import was killed halfway
                run_id = f"{session.id}/{log.run.trial.id}"
                run = replace(log.run, id=run_id, session=session.name, plan_digest=content)
                run = replace(run, log_digest=digest_of_logs([log.file]))
                session.add(run, logs=[log.file], provenance=log.provenance)
        rundir.mark_finished(session, time.time())
    runs = tuple(a.run() for a in session.last_attempts().values())
    return ImportResult(session, runs, added=True, notes=notes + more_notes)


def _content(sets: Sequence[ResultSet], request: TrainingLogsRequest) -> str:
    """Digest of the files' bytes and of what the user says about them; their location doesn't matter."""
    stated = [request.system, str(request.shape), request.round, request.benchmark]
    files = [[s.benchmark, s.system, s.round, f.name, sha256(f)] for s in sets for f in s.files]
    return digest_of([stated, sorted(files, key=str), [dict(s.system_facts) for s in sets]])


def _refuse_a_suites_name(request: TrainingLogsRequest) -> None:
    if any(not session.header.content for session in rundir.sessions_of(request.runs_dir, request.name)):
        raise InputError(
            f"--name {request.name}: {request.runs_dir / request.name} has runs of a suite with that name; "
            "choose another name for these logs"
        )


def _with_distinct_systems(sets: Sequence[ResultSet]) -> tuple[list[ResultSet], tuple[str, ...]]:
    """The sets; systems of one name are renamed after their folders if several have the same benchmark.

    A round's power measurements repeat a submitter's systems next to those without power.
    """
    of_point: dict[tuple[str | None, str | None], list[ResultSet]] = {}
    for of_set in sets:
        of_point.setdefault((of_set.system, of_set.benchmark or of_set.directory.name), []).append(of_set)
    shared = {system: alike for (system, _), alike in of_point.items() if system and len(alike) > 1}
    differs_at = {
        system: _first_difference([of_set.name for of_set in alike]) for system, alike in shared.items()
    }
    named = [
        replace(of_set, system=f"{of_set.system}-{parts[differs_at[of_set.system]]}")
        if of_set.system in differs_at
        and len(parts := PurePath(of_set.name).parts) > differs_at[of_set.system]
        else of_set
        for of_set in sets
    ]
    return named, tuple(
        f"{system}: {len(alike)} folders have its results of the same benchmark; the systems are named after "
        "them"
        for system, alike in shared.items()
    )


def _first_difference(names: Sequence[str]) -> int:
    """Index of the first part in which these paths differ."""
    parts = [PurePath(name).parts for name in names]
    alike = takewhile(lambda column: len(set(column)) == 1, zip(*parts, strict=False))
    return sum(1 for _ in alike)


def _logs(sets: Sequence[ResultSet], request: TrainingLogsRequest) -> tuple[list[_Log], tuple[str, ...]]:
    logs: list[_Log] = []
    notes: list[str] = []
    numbers: Counter[str] = Counter()
    owners: dict[str, str] = {}
    for of_set in sets:
        shape = request.shape or shape_of(of_set.system_facts)
        trainings: list[TrainingRun] = []
        for file in of_set.files:
            log = _log(of_set, file, shape, request)
            stem = log.run.trial.id
            if owners.setdefault(stem, of_set.name) != of_set.name and request.system is None:
                raise InputError(
                    f"{owners[stem]} and {of_set.name} both become {stem}: import them under two names, or "
                    "state with --system that they are one system"
                )
            numbers[stem] += 1
            trial = replace(log.run.trial, id=f"{stem}-r{numbers[stem]:02}", block=numbers[stem])
            logs.append(replace(log, run=replace(log.run, trial=trial)))
            trainings += [log.training] if log.training else []
        if shape is None and not all(shape_of(training.system) for training in trainings):
            notes.append(f"{of_set.name}: {_size_unknown(trainings)}; stored as 1x1. Set it with --shape")
        if other := list(_contradictions(of_set, trainings)):
            notes.append(f"{of_set.name}: {'; '.join(other)}; the logs count")
    return logs, (*notes, *_interpretation_notes([log.training for log in logs if log.training]))


def _size_unknown(trainings: Sequence[TrainingRun]) -> str:
    """What is not known of the size of the system."""
    platforms = (str(training.hyperparameters.get("submission_platform", "")) for training in trainings)
    if nodes := next(filter(None, map(platform_nodes, platforms)), None):
        stated = f"its logs state {counted(nodes[0], 'node')} of {nodes[1]}"
        return f"{stated}, but not how many accelerators each has"
    return "no system JSON or log states the number of nodes and accelerators"


def _interpretation_notes(trainings: Sequence[TrainingRun]) -> Iterator[str]:
    """How the logs were interpreted, each thing once, and where a log contradicts itself."""
    yield from dict.fromkeys(note for training in trainings for note in training.notes)
    doubted: dict[str, list[str]] = {}
    for training in trainings:
        for doubt in training.doubts:
            doubted.setdefault(doubt.code, []).append(f"{training.file}: {doubt.evidence}")
    for code, evidence in doubted.items():
        yield f"{code} in {len(evidence)} of {len(trainings)} logs, such as {evidence[0]}"


def _log(of_set: ResultSet, file: Path, shape: Shape | None, request: TrainingLogsRequest) -> _Log:
    params = {"round": request.round or of_set.round, "benchmark": request.benchmark or of_set.benchmark}
    system = _word(request.system or of_set.system or UNKNOWN, file)
    trial = imported_trial(request.name, "", MLPERF.name, system, shape or Shape(1, 1), params)
    run = imported_run(trial, f"{of_set.name}/{file.name}")
    reading = read.read({file.name: file}, run)
    training = reading.training
    benchmark = _word((training.benchmark if training else None) or request.benchmark or UNKNOWN, file)
    seed = training.hyperparameters.get("seed") if training else None
    if training:
        params = {"round": training.round, "benchmark": training.benchmark}
    shape = shape or (shape_of(training.system) if training else None) or Shape(1, 1)
    trial = imported_trial(request.name, benchmark, MLPERF.name, system, shape, params)
    trial = replace(trial, seed=seed if isinstance(seed, int) else 0)
    state = RunState.FAILED if reading.problems else RunState.FINISHED
    started_at = training.started_at if training else None
    cause = "; ".join(reading.problems)
    run = replace(run, trial=trial, state=state, cause=cause, started_at=started_at)
    metrics = frozenset(m.metric for m in reading.measurements)
    logged = training.system if training else {}
    return _Log(file, run, metrics, _provenance(of_set, logged), training)


def _word(text: str, file: Path) -> str:
    """A name as part of a trial's ID."""
    return public_word(text, str(file)) or UNKNOWN


def shape_of(facts: Mapping[str, object]) -> Shape | None:
    """Nodes × accelerators per node from the system's JSON, which has numbers as strings."""
    counts = [str(facts.get(name, "")) for name in ("number_of_nodes", "accelerators_per_node")]
    if not all(re.fullmatch(r"[1-9]\d{0,5}", count) for count in counts):
        return None
    nodes, accelerators = map(int, counts)
    return Shape(nodes, accelerators) if nodes * accelerators <= MOST_RANKS else None


def _provenance(of_set: ResultSet, logged: Mapping[str, Scalar]) -> Provenance | None:
    """The system's JSON as the table of one node, and the factor by which the set's score is scaled.

    The log takes precedence: the run's container wrote it.
    """
    table = {f"mlperf.{name}": value for name, value in {**flat(of_set.system_facts), **logged}.items()}
    if of_set.scaling_factor not in (None, 1.0):
        table["mlperf.scaling_factor"] = of_set.scaling_factor
    return Provenance((table,)) if table else None


def _contradictions(of_set: ResultSet, trainings: Sequence[TrainingRun]) -> Iterator[str]:
    """Where the system's JSON states different software than the logs."""
    described = flat(of_set.system_facts)
    for name in sorted({name for run in trainings for name in run.system if _is_software(name)}):
        logged = {str(run.system[name]) for run in trainings if name in run.system}
        stated = described.get(name)
        if stated is not None and str(stated) not in logged:
            yield f"{name} is {stated} in the system's JSON, but {' or '.join(sorted(logged))} in the logs"


def _is_software(name: str) -> bool:
    return name.startswith("software.") or name in ("framework", "operating_system")


def _create(logs: Sequence[_Log], request: TrainingLogsRequest, content: str) -> Session:
    trials = [log.run.trial for log in logs]
    primary = {benchmark: _primary(logs, benchmark) for benchmark in {t.benchmark for t in trials}}
    return create(
        request.runs_dir, trials, content=content, primary_metric=primary, command_line=request.command_line
    )


def _primary(logs: Sequence[_Log], benchmark: str) -> str:
    """Time per epoch if every result of the benchmark has it, a property of the system; else throughput."""
    results = [log for log in logs if log.run.trial.benchmark == benchmark and log.metrics]
    for metric in (TIME_PER_EPOCH, THROUGHPUT):
        if all(metric.name in log.metrics for log in results):
            return metric.name
    return TIME_TO_TRAIN.name
