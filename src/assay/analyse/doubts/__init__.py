"""Reasons not to take a result at face value, each with its evidence and what to do about it.

A kind of doubt is one record: its code, its severity, what it means, its effect and the remedy. The record
is defined next to the function that finds the evidence, in the module of its subject, and listed here.
`CASE_KINDS` are checked in every case; `DoubtKind.doubt` raises the others where logs are read, sets are
scored and sizes are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from assay.analyse.doubts import (
    copies,
    design,
    gpus,
    inference,
    kernel_counts,
    machine,
    network,
    paths,
    plausibility,
    result_sets,
    sequence,
    series,
    sides,
)
from assay.analyse.doubts.case_kinds import CaseDoubtKind
from assay.analyse.mlperf import score_doubts as of_scores
from assay.analyse.points.case import Case
from assay.analyse.scaling import doubts as of_scaling
from assay.formats import doubts as of_logs
from assay.records import SEVERITIES, SUBJECTS, Doubt, DoubtKind, Subject
from assay.registry import EntryPoint, NamedEntries, registry, report

CASE_KINDS: tuple[CaseDoubtKind, ...] = (
    plausibility.ABOVE_BEST_KNOWN,
    inference.SHORT_SETTINGS,
    inference.BELOW_ASKED_ACCURACY,
    inference.RATE_WAS_SET,
    copies.COPIED_VALUES,
    copies.NEAR_COPIES,
    copies.SUSPECT_UNIT,
    copies.SHARE_OF_WHOLE,
    series.LEARNS_NOTHING,
    sides.DIFFERENT_PARAMETERS,
    sides.DIFFERENT_WORK,
    sides.UNKNOWN_OPERATION,
    sides.STATED_ONCE,
    kernel_counts.UNEQUAL_CPUS,
    machine.PROVENANCE_CONTRADICTS,
    gpus.GPU_IDLE,
    paths.OTHER_TRANSPORT,
    network.ONE_HOST,
    design.FAILED_RUNS_LEFT_OUT,
    design.NOT_INTERLEAVED,
    inference.DIFFERENT_LENGTHS,
    inference.CLIENT_LATE,
    inference.OTHER_RANK,
    inference.FEW_BEYOND,
    sides.DIFFERENT_SOFTWARE,
    sides.CHANGED_SOFTWARE,
    design.STEPS_AS_RUNS,
    sequence.DRIFT,
    sequence.DEPENDENCE,
    sequence.TWO_MODES,
    sequence.ONE_FAR_OFF,
    series.WARM_UP,
    series.CUT_LINES,
    plausibility.TOO_SHORT,
    paths.FAST_PATH_OFF,
    paths.FAST_PATH_UNUSED,
    kernel_counts.SUSPENDED,
    kernel_counts.CPU_THROTTLED,
    kernel_counts.BUSY_NEIGHBOURS,
    kernel_counts.STOLEN_TIME,
    kernel_counts.HEAT_THROTTLED,
    kernel_counts.SWAPPING,
    gpus.GPU_THROTTLED,
    gpus.GPU_NEIGHBOURS,
    gpus.POWER_LIMITS_DIFFER,
    gpus.TELEMETRY_DISAGREES,
    gpus.TELEMETRY_INCOMPLETE,
    network.DIFFERENT_PLACEMENT,
    network.CPU_LIMITED,
    network.MANY_RETRANSMITS,
    network.BELOW_LINK_RATE,
    network.SLOW_CLOCK,
    machine.CLOCK_CHANGED,
    machine.CPU_QUOTA,
    machine.BUSY_MACHINE,
    machine.UNEVEN_NODES,
    design.TOO_FEW_RUNS,
    design.WIDER_THAN_MARGIN,
    design.ONE_SESSION,
    design.POOLED_SESSIONS,
    design.OUTSIDE_BLOCK,
    design.DROPPED_BLOCKS,
    plausibility.MFU_FAR_BELOW,
    design.IDENTICAL_VALUES,
    design.LOOKED_BEFORE,
    sequence.ORDER_UNKNOWN,
)
"""The doubts checked in every case. Of equal severity, the earlier one comes first, plug-ins' last."""

_OWN: dict[str, DoubtKind] = {
    kind.code: kind
    for kind in (
        *CASE_KINDS,
        of_scaling.SUPERLINEAR,
        of_scaling.OFF_THE_CURVE,
        of_scaling.BATCH_DIFFERS,
        of_scores.SCORE_CONTRADICTS,
        of_scores.NO_RULE,
        of_scores.RUN_COUNT,
        of_scores.UNUSABLE_RUN,
        of_scores.NOT_CONVERGED,
        result_sets.UNREADABLE_FILE,
        result_sets.MIXED_RUNS,
        result_sets.EQUAL_SEEDS,
        result_sets.SAME_RUN_TWICE,
        result_sets.PLACEHOLDER,
        result_sets.SYSTEM_CONTRADICTS,
        result_sets.TARGET_UNKNOWN,
        of_logs.CACHE_NOT_CLEARED,
        of_logs.LENGTH_CONTRADICTS,
        of_logs.EVENTS_OUT_OF_ORDER,
        of_logs.THROUGHPUT_CONTRADICTS,
        inference.NO_ACCURACY,
        inference.LATENCY_ABOVE_BOUND,
        inference.OTHER_DATA_SET,
        inference.NO_VALIDITY,
        inference.SETTINGS_UNKNOWN,
        inference.DEFAULT_SEEDS,
        inference.TEST_MODE,
        inference.LOGGED_ERRORS,
        inference.LOGS_DISAGREE,
    )
}


def _guarded(kind: DoubtKind, plugin: EntryPoint) -> DoubtKind:
    """The kind of a plug-in: where finding its evidence fails, it raises no doubt, which is reported."""
    if kind.severity not in SEVERITIES or kind.subject not in SUBJECTS:
        raise ValueError(f"found {kind.severity!r} and {kind.subject!r}; expected a severity and a subject")
    if not isinstance(kind, CaseDoubtKind):
        return kind

    def evidence(case: Case) -> str | None:
        doubt = kind.raised(case)  # with its rewordings, which may not fit the remedy
        return None if doubt is None else str(doubt.evidence)

    return replace(kind, evidence=plugin.guarded(evidence, lambda failure: report(str(failure))))


KINDS: NamedEntries[DoubtKind] = registry(
    "assay.doubts", _OWN, DoubtKind, calls_itself=lambda kind: kind.code, adapt=_guarded
)
"""Every kind of doubt by its code."""

Runs = tuple[object, ...]
"""What doubts about runs examine, used as a key while the runs are alive."""

_ORDER = {kind.code: number for number, kind in enumerate(CASE_KINDS)}


def rank(code: str) -> int:
    """The sort key of a doubt: the gravest first."""
    return list(SEVERITIES).index(KINDS[code].severity)


def of_subject(subject: Subject) -> list[DoubtKind]:
    """The kinds of doubt about this subject."""
    return [kind for kind in KINDS.values() if kind.subject == subject]


def of(case: Case, about_runs: dict[Runs, tuple[Doubt, ...]] | None = None) -> tuple[Doubt, ...]:
    """Every doubt that the case raises, the gravest first.

    about_runs  cache shared by cases whose results rest on the same runs, so that the runs are examined once
    """
    known = {} if about_runs is None else about_runs
    runs = _runs(case)
    if runs not in known:
        known[runs] = tuple(_raised(case, "runs"))
    raised = (*known[runs], *_raised(case, "figure"))
    return tuple(sorted(raised, key=lambda doubt: (rank(doubt.code), _ORDER.get(doubt.code, len(_ORDER)))))


def _raised(case: Case, looks_at: Literal["runs", "figure"]) -> Iterator[Doubt]:
    added = (kind for kind in KINDS.added().values() if isinstance(kind, CaseDoubtKind))
    doubts = (kind.raised(case) for kind in (*CASE_KINDS, *added) if kind.looks_at == looks_at)
    return (doubt for doubt in doubts if doubt is not None)


def _runs(case: Case) -> Runs:
    return case.margin, *(
        (side.name, side.group.point.shape, tuple(id(sample.result) for sample in side.group.samples))
        for side in case.sides
    )
