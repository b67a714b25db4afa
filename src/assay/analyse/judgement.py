"""Answers with their doubts: comparisons, curves, rankings, supplies and requirements.

The modules of these subjects draw conclusions and know no doubts. Each conclusion comes with the case that it
rests on, and its doubts are attached here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from assay.analyse import doubts
from assay.analyse.comparison.compare import Outcome, compare
from assay.analyse.comparison.families import claimed_together
from assay.analyse.comparison.sides import OpenQuestion, Runs, SidePair, open_questions
from assay.analyse.doubts import KINDS, copies
from assay.analyse.doubts.kernel_counts import OTHERS_USED_ITS_CPUS
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import Metrics
from assay.records import Comparison, Doubt, Point, Requirement, Result, Scaling

if TYPE_CHECKING:
    from assay.analyse.expectations.requirements import CheckedRequirement
    from assay.analyse.feeding import Feeding
    from assay.analyse.rankings import RankedCases, Ranking
    from assay.analyse.scaling.curve import Curve
    from assay.analyse.scaling.study import Study

_OF_TWO_RANKED = (copies.COPIED_VALUES, copies.SUSPECT_UNIT, copies.SHARE_OF_WHOLE)


@dataclass(frozen=True)
class Judgement:
    """The result of comparing pairs of sides.

    comparisons   each metric at each point that both sides of a pair have, by pair
    primary       those that the verdict rests on, corrected as one family
    not_compared  points without a comparison, each with the reason as text
    open          what has no verdict, although other metrics were compared
    sides         all runs of each side, by its name in the comparisons
    """

    comparisons: tuple[Comparison, ...]
    primary: tuple[Comparison, ...]
    not_compared: tuple[tuple[Point, str], ...]
    open: tuple[OpenQuestion, ...]
    sides: Mapping[str, Runs] = field(default_factory=dict)


def compare_with_doubts(
    a: Sequence[Result],
    b: Sequence[Result],
    *,
    margin: float,
    names: tuple[str, str],
    metrics: Metrics,
    confidence: float = 0.95,
    layouts: bool = False,
) -> Outcome:
    """What `compare` answers, each comparison with its doubts."""
    outcome = compare(
        a, b, margin=margin, names=names, metrics=metrics, confidence=confidence, layouts=layouts
    )
    about_runs: dict[doubts.Runs, tuple[Doubt, ...]] = {}
    comparisons = tuple(
        replace(comparison, doubts=doubts.of(case, about_runs))
        for comparison, case in zip(outcome.comparisons, outcome.cases, strict=True)
    )
    return replace(outcome, comparisons=comparisons)


def judge(
    pairs: Sequence[SidePair],
    metrics: Metrics,
    *,
    margin: float,
    primary: Mapping[str, str],
    layouts: bool = False,
) -> Judgement:
    """Each pair compared, with doubts, and the claims about the primary metrics corrected as one family.

    margin   share that counts as equal: 0.02
    primary  benchmark → the metric that its verdict rests on; others are compared but not judged
    layouts  also compare shapes with the same number of ranks

    Raises InputError when a run is on both sides of a pair.
    """
    comparisons: list[Comparison] = []
    not_compared: list[tuple[Point, str]] = []
    open_: list[OpenQuestion] = []
    sides: dict[str, Runs] = {}
    for pair in pairs:
        outcome = compare_with_doubts(
            pair.a, pair.b, margin=margin, names=pair.names, metrics=metrics, layouts=layouts
        )
        comparisons += outcome.comparisons
        not_compared += outcome.left_out
        for c in outcome.comparisons:
            sides |= {c.a: pair.a, c.b: pair.b}
        questions = list(open_questions(pair, outcome.comparisons, primary))
        for question in questions:
            sides |= {question.a: pair.a, question.b: pair.b}
        open_ += questions

    def leads(c: Comparison) -> bool:
        return primary.get(c.point.benchmark) == c.point.metric

    together = claimed_together(comparisons, leads)
    return Judgement(together, tuple(filter(leads, together)), tuple(not_compared), tuple(open_), sides)


def scaling_with_doubts(curve: Curve) -> Scaling:
    """Each size relative to the smallest, with its doubts."""
    scaling = curve.scaling()
    points = tuple(
        replace(point, doubts=doubts.of(case))
        for point, case in zip(scaling.points, curve.cases, strict=True)
    )
    return replace(scaling, points=points)


def study_with_doubts(study: Study, curve: Curve) -> Study:
    """The conclusions from a curve, each of whose sizes has its doubts."""
    return replace(study, curve=scaling_with_doubts(curve))


def ranking_with_doubts(ranked: RankedCases) -> Ranking:
    """The ranking, with the doubts because of which values of ranked systems are probably wrong."""
    return replace(ranked.ranking, doubts=_misleading(ranked.systems, ranked.pairs))


def feeding_with_doubts(feeding: Feeding, case: Case) -> Feeding:
    """The supply with its demand, with doubts; that they did different things is no doubt here."""
    expected = {kind.code for kind in doubts.of_subject("sides")}
    return replace(feeding, doubts=tuple(doubt for doubt in doubts.of(case) if doubt.code not in expected))


def requirement_with_doubts(checked: CheckedRequirement) -> Requirement:
    """The requirement, with doubts; time that others took is one only if it may change the verdict."""
    raised = () if checked.case is None else doubts.of(checked.case)
    if not checked.may_change:
        raised = tuple(doubt for doubt in raised if doubt.code not in OTHERS_USED_ITS_CPUS)
    return replace(checked.requirement, doubts=raised)


def _misleading(systems: Sequence[Case], pairs: Sequence[Case]) -> tuple[Doubt, ...]:
    """Doubts about the values of each system and of each pair; each code once."""
    by_code: dict[str, list[Doubt]] = {}
    for case in systems:
        for doubt in doubts.of(case):
            if KINDS[doubt.code].severity == "invalid":
                by_code.setdefault(doubt.code, []).append(doubt)
    for case in pairs:
        for raised in (kind.raised(case) for kind in _OF_TWO_RANKED):
            if raised is not None:
                by_code.setdefault(raised.code, []).append(_with_names(raised, case.sides))
    return tuple(_first_of(by_code[code]) for code in sorted(by_code, key=doubts.rank))


def _with_names(doubt: Doubt, sides: Sequence[Side]) -> Doubt:
    """With the names of both sides if the evidence has none."""
    a, b = (side.name for side in sides)
    if a in doubt.evidence or b in doubt.evidence:
        return doubt
    return replace(doubt, evidence=f"{a} and {b}: {doubt.evidence}")


def _first_of(alike: Sequence[Doubt]) -> Doubt:
    """The first piece of evidence, and the number of others; equal ones count once."""
    evidence = list(dict.fromkeys(doubt.evidence for doubt in alike))
    more = f"; and {len(evidence) - 1} more like this" if len(evidence) > 1 else ""
    return replace(alike[0], evidence=evidence[0] + more)
