"""Reasons not to take a figure at its face, each with its evidence in figures and what to do about it.

A doubt is a function from a case to a `Doubt` or None, and a line in `DOUBTS`. It looks only at the case.
What its code means at length stands in `assay.analyse.explanations`.
"""

from __future__ import annotations

from collections.abc import Callable

from assay.analyse import explanations
from assay.analyse.doubts import (
    design,
    inference,
    machine,
    meanwhile,
    paths,
    plausible,
    sequence,
    sides,
    timing,
    within,
)
from assay.analyse.doubts.case import Case, Side, percent
from assay.records import Doubt

__all__ = ["DOUBTS", "Case", "Side", "of", "percent"]

DOUBTS: dict[str, Callable[[Case], Doubt | None]] = {
    "above-best-known": plausible.above_best_known,
    "short-settings": inference.short_settings,
    "rate-was-set": inference.rate_was_set,
    "learns-nothing": within.learns_nothing,
    "different-parameters": sides.different_parameters,
    "different-work": sides.different_work,
    "provenance-contradicts": machine.contradicts_itself,
    "failed-runs-left-out": design.failed_runs_left_out,
    "not-interleaved": design.not_interleaved,
    "different-software": sides.different_software,
    "drift": sequence.drift,
    "dependence": sequence.dependence,
    "two-modes": sequence.two_modes,
    "one-far-off": sequence.one_far_off,
    "warm-up": within.warm_up,
    "too-short": timing.too_short,
    "fast-path-off": paths.fast_path_off,
    "fast-path-unused": paths.fast_path_unused,
    "cpu-throttled": meanwhile.throttled,
    "busy-neighbours": meanwhile.busy_neighbours,
    "stolen-time": meanwhile.stolen,
    "heat-throttled": meanwhile.heat,
    "swapping": meanwhile.swapping,
    "clock-changed": machine.clock_changed,
    "cpu-quota": machine.quota,
    "busy-machine": machine.busy_machine,
    "uneven-nodes": machine.uneven_nodes,
    "too-few-runs": design.too_few_runs,
    "wider-than-margin": design.wider_than_margin,
    "one-session": design.one_session,
    "pooled-sessions": design.pooled_sessions,
    "dropped-blocks": design.dropped_blocks,
    "mfu-far-below": plausible.far_below_reference,
    "identical-values": design.identical_values,
    "cannot-tell": sequence.cannot_tell,
}


def of(case: Case) -> tuple[Doubt, ...]:
    """Every doubt that the case raises, the gravest first."""
    raised = (doubt for raises in DOUBTS.values() if (doubt := raises(case)) is not None)
    return tuple(sorted(raised, key=lambda doubt: explanations.rank(doubt.code)))
