"""Implausible values of ranked systems: the doubts of pairwise comparisons, applied to all systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.analyse import doubts
from assay.analyse.doubts import KINDS, Case, Side, copies, rank
from assay.analyse.points.ratio import Ratio, one_side
from assay.records import DEFAULT_MARGIN, Doubt

_OF_TWO = (copies.COPIED_VALUES, copies.SUSPECT_UNIT, copies.SHARE_OF_WHOLE)


def misleading(sides: Sequence[Side], ratios: Mapping[tuple[int, int], Ratio]) -> tuple[Doubt, ...]:
    """Doubts about the values of each system and of each pair; each code once.

    ratios  of each pair of sides, by their indices
    """
    by_code: dict[str, list[Doubt]] = {}
    for side in sides:
        for doubt in doubts.of(Case((side,), one_side(side.group))):
            if KINDS[doubt.code].severity == "invalid":
                by_code.setdefault(doubt.code, []).append(doubt)
    for (a, b), ratio in ratios.items():
        case = Case((sides[a], sides[b]), ratio.estimate, DEFAULT_MARGIN)
        for raised in (kind.raised(case) for kind in _OF_TWO):
            if raised is not None:
                by_code.setdefault(raised.code, []).append(_with_names(raised, case.sides))
    return tuple(_one(by_code[code]) for code in sorted(by_code, key=rank))


def _with_names(doubt: Doubt, sides: Sequence[Side]) -> Doubt:
    """With the names of both sides if the evidence has none."""
    a, b = (side.name for side in sides)
    if a in doubt.evidence or b in doubt.evidence:
        return doubt
    return replace(doubt, evidence=f"{a} and {b}: {doubt.evidence}")


def _one(alike: Sequence[Doubt]) -> Doubt:
    """The first piece of evidence, and the number of others; equal ones count once."""
    evidence = list(dict.fromkeys(doubt.evidence for doubt in alike))
    more = f"; and {len(evidence) - 1} more like this" if len(evidence) > 1 else ""
    return replace(alike[0], evidence=evidence[0] + more)
