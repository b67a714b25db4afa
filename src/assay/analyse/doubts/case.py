"""The claim that doubts are about, the kinds of doubt that it can raise, and helpers to word evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

from assay.analyse.points.encounters import Encounter, encounter
from assay.analyse.points.groups import Group
from assay.analyse.points.succession import Succession, of_pairs, of_side
from assay.records import DEFAULT_MARGIN, Doubt, DoubtKind, Estimate, Result
from assay.units import percent

T = TypeVar("T")
MOST_SHOWN = 6
UNSTEADY = object()
"""Marks a fact that varies within a side."""


@dataclass(frozen=True)
class Side:
    """The evidence for one side of a claim, with the side's name."""

    name: str
    group: Group

    @cached_property
    def sessions(self) -> list[str]:
        """Sessions of its runs, as `suite/session`."""
        return sorted({f"{s.result.run.suite}/{s.result.run.session}" for s in self.group.samples})


@dataclass(frozen=True)
class Case:
    """The claim to be doubted: about one set of runs, or about two sets compared with each other.

    estimate  the interval that the claim rests on; a ratio if there are two sides
    margin    the difference that still counts as equal; None if nothing is compared
    paired    the sides were run in the same shuffled blocks
    dropped   blocks left out because they lack a side
    """

    sides: tuple[Side, ...]
    estimate: Estimate
    margin: float | None = None
    paired: bool = False
    dropped: int = 0

    @property
    def is_count(self) -> bool:
        """Whether the metric counts passes over the data, and so takes only values on a grid."""
        return self.sides[0].group.point.unit == "epochs"

    @cached_property
    def successions(self) -> tuple[Succession, ...]:
        """The sequences behind the estimate, in order: the pairs if sides are paired, else each side's runs.

        Empty if a value is not above 0 and so has no logarithm.
        """
        if any(min(side.group.values, default=0) <= 0 for side in self.sides):
            return ()
        if self.paired and len(self.sides) == 2:
            a, b = self.sides
            if len(a.group.samples) != len(b.group.samples):
                return ()  # no block holds both sides, so there are no pairs
            return (of_pairs(f"{b.name} relative to {a.name}", a.group.samples, b.group.samples),)
        return tuple(of_side(side.name, side.group.samples) for side in self.sides)


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
    results = {side.name: [sample.result for sample in side.group.samples] for side in case.sides}
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
