"""The kinds of doubt that every case is checked for, and helpers to word their evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from assay.analyse.points.case import Case
from assay.analyse.points.encounters import Encounter, encounter
from assay.records import DEFAULT_MARGIN, Doubt, DoubtKind, Result
from assay.units import percent

T = TypeVar("T")
MOST_SHOWN = 6
UNSTEADY = object()
"""Marks a fact that varies within a side."""


@dataclass(frozen=True, kw_only=True)
class CaseDoubtKind(DoubtKind):
    """A kind of doubt that is checked in every case.

    evidence  finds what speaks against the claim, as text; None if nothing does
    looks_at  `runs`: the evidence is the same for every result of the same runs, so they are examined once
    reworded  phrases of the remedy that do not apply to a case, with their replacements
    """

    evidence: Callable[[Case], str | None]
    looks_at: Literal["runs", "figure"] = "figure"
    reworded: Callable[[Case], Sequence[tuple[str, str]]] = lambda _: ()

    def raised(self, case: Case) -> Doubt | None:
        """The doubt that this case raises; None if it raises none."""
        evidence = self.evidence(case)
        return None if evidence is None else self.doubt(evidence, *self.reworded(case))


def counted(number: int, noun: str) -> str:
    """`1 run`, `3 runs`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def steady_facts(results: Sequence[Result]) -> dict[str, object]:
    """Each fact's one value over all nodes of all runs, or a mark if it varies; empty if none is known."""
    facts: dict[str, object] = {}
    distinct = {id(r.provenance): r.provenance for r in results if r.provenance is not None}
    for provenance in distinct.values():
        for table in provenance.nodes:
            for name, value in table.items():
                if facts.setdefault(name, value) != value:
                    facts[name] = UNSTEADY
    return facts


def evidence(
    case: Case,
    what: str,
    parts: Callable[[Result], Sequence[T]],
    share: Callable[[T], float | None],
    describe: Callable[[T], str],
) -> str | None:
    """The share on each side, and whether both are affected; None if no side is affected enough to matter.

    what      `a quota stopped it for {} of its CPU time`
    describe  the worst node or GPU, as text
    """
    matters = (case.margin or DEFAULT_MARGIN) / 2
    results = {side.name: side.group.results for side in case.sides}
    per_side = [encounter(name, own, parts, share) for name, own in results.items()]
    sides = [met for met in per_side if met is not None]
    if max((met.share for met in sides), default=0.0) < matters:
        return None
    sentences = [
        f"{met.name}: {what.format(percent(met.share))} over {counted(met.runs, 'run')} "
        f"(most in {met.worst_trial}: {describe(met.worst)})"
        for met in sides
        if met.share >= matters
    ]
    sentences += [f"{met.name}: {percent(met.share)}" for met in sides if met.share < matters]
    if len(case.sides) > 1:
        sentences.append(_between(case, sides, matters))
    return "; ".join(sentences)


def _between(case: Case, sides: Sequence[Encounter[T]], matters: float) -> str:
    """What it means for a comparison."""
    unknown = {side.name for side in case.sides} - {met.name for met in sides}
    if unknown:
        return f"nothing was counted for {', '.join(sorted(unknown))}"
    least, most = sorted(sides, key=lambda met: met.share)
    if least.share >= matters or most.share - least.share <= matters:
        return "both sides were affected, and either may have lost more"
    return f"the effect on {least.name} hardly matters, the effect on {most.name} may have slowed it down"
