"""Doubts about a set of MLPerf runs apart from its score: logs compared with each other, and with the
system's JSON.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from assay.analyse.mlperf.likeness import files_by_seed, shared_seeds
from assay.records import Doubt, DoubtKind, Scalar, TrainingRun
from assay.targets import era_of
from assay.units import counted

_CONTAINER_PLATFORMS = {  # platform in a system's name → operating systems that it runs on
    "openshift": ("red hat", "rhel", "rhcos", "coreos", "openshift", "fedora"),
}


UNREADABLE_FILE = DoubtKind(
    code="unreadable-file",
    subject="training",
    severity="invalid",
    means="A file that belongs to the set can't be read.",
    effect="The score does not include it.",
    remedy="Fix the file or remove it; the score is computed without it.",
)


def doubts_of_set(
    runs: Sequence[TrainingRun], *, system: str | None, system_facts: Mapping[str, Any]
) -> tuple[Doubt, ...]:
    """Doubts about a set's runs, including those about single runs, one of each kind.

    system        the system's name in the tree; None if unknown
    system_facts  the system's JSON, with MLCommons' keys; empty if there is none
    """
    doubts = [
        *_differing(runs),
        *_equal_seeds(runs),
        *_same_run_twice(runs),
        *_placeholders(runs),
        *_targets_unknown(runs),
        *_accelerators(runs, system_facts),
        *_operating_system(system, system_facts),
        *_of_single_runs(runs),
    ]
    return tuple(doubts)


MIXED_RUNS = DoubtKind(
    code="mixed-runs",
    subject="training",
    severity="invalid",
    means="The runs of a set differ in benchmark, round or global batch size.",
    effect=(
        "They are not repetitions of one experiment, so neither their mean nor their score means anything."
    ),
    remedy="Score only runs of one configuration: these are not repetitions.",
)


def _differing(runs: Sequence[TrainingRun]) -> list[Doubt]:
    """A set is one benchmark in one configuration."""
    what: dict[str, Callable[[TrainingRun], Scalar]] = {
        "benchmark": lambda run: run.benchmark,
        "round": lambda run: run.round,
        "global batch size": lambda run: run.global_batch_size,
    }
    doubts = []
    for name, value_of in what.items():
        values = Counter(value_of(run) for run in runs if value_of(run) is not None)
        if len(values) > 1:
            counts = ", ".join(f"{value} in {n}" for value, n in values.items())
            doubts.append(MIXED_RUNS.doubt(f"the runs differ in {name}: {counts}"))
    return doubts


EQUAL_SEEDS = DoubtKind(
    code="equal-seeds",
    subject="training",
    severity="weak",
    means="Several runs of a set have the same seed.",
    effect="Runs with equal seeds converge alike and hide how much convergence varies.",
    remedy="Draw a new seed for each run: equal seeds hide how much convergence varies.",
)


def _equal_seeds(runs: Sequence[TrainingRun]) -> list[Doubt]:
    shared = shared_seeds(files_by_seed(runs))
    return [EQUAL_SEEDS.doubt(shared)] if shared else []


SAME_RUN_TWICE = DoubtKind(
    code="same-run-twice",
    subject="training",
    severity="invalid",
    means="Two logs have the same times to the millisecond and the same evaluations.",
    effect="A copy counts as a repetition, so the spread is too small.",
    remedy="Remove the copies, and score as many real runs as the rule requires.",
)


def _same_run_twice(runs: Sequence[TrainingRun]) -> list[Doubt]:
    """Time to the millisecond and every evaluation are equal: a copy, not a repetition."""
    alike: dict[object, list[str]] = defaultdict(list)
    for run in runs:
        if run.minutes is not None:
            alike[run.minutes, run.init_minutes, run.evaluations].append(run.file)
    copies = [" = ".join(files) for files in alike.values() if len(files) > 1]
    if not copies:
        return []
    return [SAME_RUN_TWICE.doubt(f"equal times and evaluations: {'; '.join(copies[:5])}")]


TARGET_UNKNOWN = DoubtKind(
    code="target-unknown",
    subject="training",
    severity="weak",
    means=(
        "The log says that the run succeeded, and no quality target is known for its benchmark and round."
    ),
    effect="Whether it trained far enough was not checked: a run that stopped early looks fast.",
    remedy=(
        "Name the round with `--round` or by the folder. If that is impossible, or in the open division, "
        "where a run may stop anywhere, compare the last evaluations yourself."
    ),
)


def _targets_unknown(runs: Sequence[TrainingRun]) -> list[Doubt]:
    """Successes for which the log's own claim is the only evidence."""
    unchecked = [run for run in runs if run.status == "success" and run.target_reached is None]
    if not unchecked or "mlperf_round" in unchecked[0].hyperparameters:
        return []
    named, round_ = unchecked[0].benchmark or "an unknown benchmark", unchecked[0].round or "an unknown round"
    open_ = (
        era_of(named, round_) is not None
        and unchecked[0].hyperparameters.get("submission_division") == "open"
    )
    why = "the open division has no target" if open_ else "no target is known"
    evidence = f"{len(unchecked)} of {counted(len(runs), 'run')} claim success; {why} for {named} in {round_}"
    return [TARGET_UNKNOWN.doubt(evidence)]


PLACEHOLDER = DoubtKind(
    code="placeholder",
    subject="training",
    severity="note",
    means="A log contains a placeholder instead of the submitter or system.",
    effect="None on the score; the log does not identify its submitter or system.",
    remedy="Use the submitter and the system from the folders, not from the log.",
)


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
    return [PLACEHOLDER.doubt(evidence)]


SYSTEM_CONTRADICTS = DoubtKind(
    code="system-contradicts",
    subject="training",
    severity="invalid",
    means=(
        "The system's description contradicts its name or its logs: accelerators that don't "
        "fit the batch sizes, or an operating system that the platform does not run on."
    ),
    effect="Values per accelerator, or a claim about the platform, may be about another machine.",
    remedy=(
        "Ask the submitter which machines took part before you use values per accelerator or of the platform."
    ),
)


def _accelerators(runs: Sequence[TrainingRun], facts: Mapping[str, Any]) -> list[Doubt]:
    """Accelerators in the system's JSON compared with ranks by the logs' batch sizes."""
    nodes, each = _whole(facts.get("number_of_nodes")), _whole(facts.get("accelerators_per_node"))
    if not nodes or not each:
        return []
    other = Counter(ranks for run in runs if (ranks := _ranks(run)) and ranks != nodes * each)
    if not other:
        return []
    logged = ", ".join(f"{ranks:g} in {n} of {counted(len(runs), 'run')}" for ranks, n in other.items())
    return [
        SYSTEM_CONTRADICTS.doubt(
            f"the system's JSON says {nodes} nodes x {each} accelerators, batch sizes in the logs {logged}",
        )
    ]


def _ranks(run: TrainingRun) -> float | None:
    """Processes that took part: the global batch size divided by that of one process."""
    stated = run.hyperparameters
    own = stated.get("d_batch_size", stated.get("local_batch_size"))
    if not isinstance(own, int) or own <= 0 or not run.global_batch_size:
        return None
    steps = stated.get("gradient_accumulation_steps", 1)
    ranks = run.global_batch_size / own
    # Submitters differ in whether the process's batch already includes the accumulated steps.
    return ranks if ranks == int(ranks) and steps == 1 else None


def _operating_system(system: str | None, facts: Mapping[str, Any]) -> list[Doubt]:
    operating_system = facts.get("operating_system")
    if not isinstance(operating_system, str) or not operating_system or system is None:
        return []
    for platform, systems in _CONTAINER_PLATFORMS.items():
        if platform in system.lower() and not any(word in operating_system.lower() for word in systems):
            return [
                SYSTEM_CONTRADICTS.doubt(
                    f"the system is called {system}, but the operating_system in its JSON is "
                    f"{operating_system}",
                )
            ]
    return []


def _of_single_runs(runs: Sequence[TrainingRun]) -> list[Doubt]:
    """The runs' own doubts, one of each kind, with the number of runs that share it."""
    by_code: dict[str, list[tuple[str, Doubt]]] = defaultdict(list)
    for run in runs:
        for doubt in run.doubts:
            by_code[doubt.code].append((run.file, doubt))
    return [
        replace(
            occurrences[0][1],
            evidence=f"{len(occurrences)} of {counted(len(runs), 'run')}, as {occurrences[0][0]}: "
            f"{occurrences[0][1].evidence}",
        )
        for occurrences in by_code.values()
    ]


def _whole(value: object) -> int | None:
    """MLCommons' system files write numbers as text."""
    text = str(value).strip()
    return int(text) if re.fullmatch(r"\d{1,9}", text) else None
