"""What speaks against a set of MLPerf runs beside its score: logs against each other, and against what the
system's JSON says of the machine.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from assay.records import Doubt, Scalar, TrainingRun
from assay.targets import era_of
from assay.units import counted

_CONTAINER_PLATFORMS = {  # named by a system → operating systems that it runs on
    "openshift": ("red hat", "rhel", "rhcos", "coreos", "openshift", "fedora"),
}


def doubts_of_set(
    runs: Sequence[TrainingRun], *, system: str | None, system_facts: Mapping[str, Any]
) -> tuple[Doubt, ...]:
    """Doubts about a set's runs, the single runs' own among them, one for each kind.

    system        the system's name in the tree; None if unknown
    system_facts  the system's JSON, MLCommons' keys; empty where there is none
    """
    found = [
        *_differing(runs),
        *_equal_seeds(runs),
        *_same_run_twice(runs),
        *_placeholders(runs),
        *_targets_unknown(runs),
        *_accelerators(runs, system_facts),
        *_operating_system(system, system_facts),
        *_of_single_runs(runs),
    ]
    return tuple(found)


def _differing(runs: Sequence[TrainingRun]) -> list[Doubt]:
    """A set is one benchmark at one configuration."""
    what: dict[str, Callable[[TrainingRun], Scalar]] = {
        "benchmark": lambda run: run.benchmark,
        "round": lambda run: run.round,
        "global batch size": lambda run: run.global_batch_size,
    }
    found = []
    for name, of in what.items():
        values = Counter(of(run) for run in runs if of(run) is not None)
        if len(values) > 1:
            told = ", ".join(f"{value} in {n}" for value, n in values.items())
            remedy = "score runs of one configuration only; these are not repetitions"
            found.append(Doubt("mixed-runs", f"the runs differ in {name}: {told}", remedy))
    return found


def _equal_seeds(runs: Sequence[TrainingRun]) -> list[Doubt]:
    by_seed: dict[Scalar, list[str]] = defaultdict(list)
    for run in runs:
        if (seed := run.hyperparameters.get("seed")) is not None:
            by_seed[seed].append(run.file)
    shared = [f"{', '.join(files)} have seed {seed}" for seed, files in by_seed.items() if len(files) > 1]
    if not shared:
        return []
    remedy = "draw a new seed for each run: equal seeds hide how much convergence varies"
    return [Doubt("equal-seeds", "; ".join(shared[:5]), remedy)]


def _same_run_twice(runs: Sequence[TrainingRun]) -> list[Doubt]:
    """Time to the millisecond and every evaluation equal: a copy, not a repetition."""
    alike: dict[object, list[str]] = defaultdict(list)
    for run in runs:
        if run.minutes is not None:
            alike[run.minutes, run.init_minutes, run.evaluations].append(run.file)
    copies = [" = ".join(files) for files in alike.values() if len(files) > 1]
    if not copies:
        return []
    remedy = "remove the copies and score as many real runs as the rule asks for"
    return [Doubt("same-run-twice", f"equal times and evaluations: {'; '.join(copies[:5])}", remedy)]


def _targets_unknown(runs: Sequence[TrainingRun]) -> list[Doubt]:
    """Successes that nothing but the log's own word says."""
    unchecked = [run for run in runs if run.status == "success" and run.target_reached is None]
    if not unchecked or "mlperf_round" in unchecked[0].hyperparameters:
        return []
    named, round_ = unchecked[0].benchmark or "an unknown benchmark", unchecked[0].round or "an unknown round"
    open_ = (
        era_of(named, round_) is not None
        and unchecked[0].hyperparameters.get("submission_division") == "open"
    )
    why = "the open division has no target" if open_ else "no target is known"
    evidence = f"{len(unchecked)} of {counted(len(runs), 'run')} say success; {why} for {named} in {round_}"
    remedy = (
        "compare the last evaluations yourself: in the open division a run may stop anywhere"
        if open_
        else "name the round with --round or by the folder, else compare the last evaluations yourself"
    )
    return [Doubt("target-unknown", evidence, remedy)]


def _placeholders(runs: Sequence[TrainingRun]) -> list[Doubt]:
    left = Counter(
        f"{key} is {value}"
        for run in runs
        for key, value in run.hyperparameters.items()
        if isinstance(value, str) and "PLACEHOLDER" in value
    )
    if not left:
        return []
    evidence = "; ".join(f"{text} in {n} of {counted(len(runs), 'run')}" for text, n in left.items())
    return [Doubt("placeholder", evidence, "take the submitter and the system from the folders, not the log")]


def _accelerators(runs: Sequence[TrainingRun], facts: Mapping[str, Any]) -> list[Doubt]:
    """Accelerators by the system's JSON against ranks by the logs' batch sizes."""
    nodes, each = _whole(facts.get("number_of_nodes")), _whole(facts.get("accelerators_per_node"))
    if not nodes or not each:
        return []
    other = Counter(ranks for run in runs if (ranks := _ranks(run)) and ranks != nodes * each)
    if not other:
        return []
    logged = ", ".join(f"{ranks:g} in {n} of {counted(len(runs), 'run')}" for ranks, n in other.items())
    return [
        Doubt(
            "system-contradicts",
            f"the system's JSON says {nodes} nodes x {each} accelerators, batch sizes in the logs {logged}",
            "ask who measured how many accelerators took part before using figures per accelerator",
        )
    ]


def _ranks(run: TrainingRun) -> float | None:
    """Processes that took part: global batch size over that of one process."""
    stated = run.hyperparameters
    own = stated.get("d_batch_size", stated.get("local_batch_size"))
    if not isinstance(own, int) or own <= 0 or not run.global_batch_size:
        return None
    steps = stated.get("gradient_accumulation_steps", 1)
    ranks = run.global_batch_size / own
    # whether the process's batch already holds the accumulated steps differs between submitters
    return ranks if ranks == int(ranks) and steps == 1 else None


def _operating_system(system: str | None, facts: Mapping[str, Any]) -> list[Doubt]:
    said = facts.get("operating_system")
    if not isinstance(said, str) or not said or system is None:
        return []
    for platform, systems in _CONTAINER_PLATFORMS.items():
        if platform in system.lower() and not any(word in said.lower() for word in systems):
            return [
                Doubt(
                    "system-contradicts",
                    f"the system is called {system}, but its JSON's operating_system is {said}",
                    "find out whether that is the container's system: the platform's nodes run another",
                )
            ]
    return []


def _of_single_runs(runs: Sequence[TrainingRun]) -> list[Doubt]:
    """The runs' own doubts, one of each kind, with how many runs share it."""
    by_code: dict[str, list[tuple[str, Doubt]]] = defaultdict(list)
    for run in runs:
        for doubt in run.doubts:
            by_code[doubt.code].append((run.file, doubt))
    return [
        Doubt(
            code,
            f"{len(found)} of {counted(len(runs), 'run')}, as {found[0][0]}: {found[0][1].evidence}",
            found[0][1].remedy,
        )
        for code, found in by_code.items()
    ]


def _whole(value: object) -> int | None:
    """MLCommons' system files write numbers as text."""
    text = str(value).strip()
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None
