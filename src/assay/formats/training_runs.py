"""Sets of MLPerf training results as runs: each result file is one, on the system that its folders name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from pathlib import PurePath

from assay.formats.logged import LoggedRun, LoggedRuns, Stated
from assay.formats.mlperf import MLPERF, THROUGHPUT, TIME_PER_EPOCH, TIME_TO_TRAIN, MlperfLogParams
from assay.formats.reader import run_reading
from assay.formats.result_sets import ResultSet
from assay.formats.stated_system import flat, platform_nodes
from assay.inputs import sha256
from assay.records import MOST_RANKS, Provenance, Scalar, Shape, TrainingRun, digest_of
from assay.units import counted


def logged_trainings(sets: Sequence[ResultSet], stated: Stated) -> LoggedRuns:
    """The runs of these sets; systems of one name are renamed after their folders if several have it."""
    content = _content(sets, stated)
    notes = [str(problem) for of_set in sets for problem in of_set.problems]
    if stated.system is None:
        sets, apart = _with_distinct_systems(sets)
        notes += apart
    runs: list[LoggedRun] = []
    for of_set in sets:
        shape = stated.shape or shape_of(of_set.system_facts)
        of_folder = list(_runs(of_set, shape, stated))
        trainings = [run.reading.training for run in of_folder if run.reading.training]
        if shape is None and not all(shape_of(training.system) for training in trainings):
            notes.append(f"{of_set.name}: {_size_unknown(trainings)}; stored as 1x1. Set it with --shape")
        if other := list(_contradictions(of_set, trainings)):
            notes.append(f"{of_set.name}: {'; '.join(other)}; the logs count")
        runs += of_folder
    notes += _interpretation_notes([run.reading.training for run in runs if run.reading.training])
    primary = {run.benchmark: _primary(runs, run.benchmark) for run in runs}
    judged = tuple(replace(run, primary=primary[run.benchmark]) for run in runs)
    return LoggedRuns(judged, content, tuple(dict.fromkeys(notes)))


def _content(sets: Sequence[ResultSet], stated: Stated) -> str:
    """Digest of the files' bytes and of what the user says about them; their location doesn't matter."""
    about = [stated.system, str(stated.shape), stated.round, stated.benchmark]
    files = [[s.benchmark, s.system, s.round, f.name, sha256(f)] for s in sets for f in s.files]
    return digest_of([about, sorted(files, key=str), [dict(s.system_facts) for s in sets]])


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


def _runs(of_set: ResultSet, shape: Shape | None, stated: Stated) -> Iterator[LoggedRun]:
    first_params = MlperfLogParams(
        round=stated.round or of_set.round, benchmark=stated.benchmark or of_set.benchmark
    )
    for file in of_set.files:
        params, reading = first_params, run_reading(MLPERF, {file.name: file}, first_params)
        training = reading.training
        if training:
            params = MlperfLogParams(round=training.round, benchmark=training.benchmark)
        seed = training.hyperparameters.get("seed") if training else None
        yield LoggedRun(
            logs=(file,),
            source=f"{of_set.name}/{file.name}",
            reader=MLPERF,
            params=params.model_dump(),
            benchmark=(training.benchmark if training else None) or stated.benchmark or "",
            system=stated.system or of_set.system or "",
            shape=shape or (shape_of(training.system) if training else None) or Shape(1, 1),
            reading=reading,
            primary="",
            seed=seed if isinstance(seed, int) else 0,
            started_at=training.started_at if training else None,
            provenance=_provenance(of_set, training.system if training else {}),
            of_set="" if stated.system else of_set.name,
            reread=params != first_params,
        )


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


def _primary(runs: Sequence[LoggedRun], benchmark: str) -> str:
    """Time per epoch if every result of the benchmark has it, a property of the system; else throughput."""
    measured = [{m.metric for m in run.reading.measurements} for run in runs if run.benchmark == benchmark]
    for metric in (TIME_PER_EPOCH, THROUGHPUT):
        if all(metric.name in metrics for metrics in measured if metrics):
            return metric.name
    return TIME_TO_TRAIN.name
