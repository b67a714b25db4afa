"""Reasons not to take a figure at its face, each with its evidence in figures and what to do about it.

A doubt is a function from a case to a `Doubt` or None, and a line in `DOUBTS`. It looks only at the case.
What its code means at length stands in `assay.analyse.explanations`.
"""

from __future__ import annotations

from collections.abc import Callable

from assay.analyse.doubts import design, sides
from assay.analyse.doubts.case import Case, Side, percent
from assay.records import Doubt

__all__ = ["DOUBTS", "Case", "Side", "of", "percent"]

DOUBTS: dict[str, Callable[[Case], Doubt | None]] = {
    "too-few-runs": design.too_few_runs,
    "wider-than-margin": design.wider_than_margin,
    "not-interleaved": design.not_interleaved,
    "one-session": design.one_session,
    "pooled-sessions": design.pooled_sessions,
    "failed-runs-left-out": design.failed_runs_left_out,
    "dropped-blocks": design.dropped_blocks,
    "different-software": sides.different_software,
    "different-parameters": sides.different_parameters,
    "identical-values": design.identical_values,
}


def of(case: Case) -> tuple[Doubt, ...]:
    """Every doubt that the case raises, in the order of `DOUBTS`."""
    return tuple(doubt for raised in DOUBTS.values() if (doubt := raised(case)) is not None)
