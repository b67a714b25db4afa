"""`assay stack bisect --json`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from assay.records import to_plain

if TYPE_CHECKING:
    from assay.questions.bisect_stacks import BisectedLine, BisectionResult, BisectPlan
    from assay.stacks.bisecting.posterior import Confirmation, SpeedEffect
    from assay.stacks.bisecting.search import Culprit


def document(bisection: BisectionResult) -> dict[str, Any]:
    """The answer: every line that was bisected, the coarsest first."""
    return {
        "schema": "assay.stack-bisection/1",
        "name": bisection.plan.name,
        "ended": bisection.ended,
        "decided": bisection.decided,
        "error": bisection.error,
        "changes": list(bisection.plan.names),
        "fixed": [str(change) for change in bisection.plan.fixed],
        "spent_s": bisection.spent_s,
        "sessions": list(bisection.sessions),
        "lines": [_line(line) for line in bisection.lines],
    }


def plan_document(plan: BisectPlan) -> dict[str, Any]:
    """What would be bisected."""
    return {
        "schema": "assay.stack-bisection-plan/1",
        "name": plan.name,
        "what": plan.what,
        "changes": list(plan.names),
        "fixed": [str(change) for change in plan.fixed],
        "at_least": plan.at_least,
        "folder": str(plan.folder),
    }


def _line(line: BisectedLine) -> dict[str, Any]:
    search = line.search
    reverted = search.reverted
    return {
        "what": line.what,
        "changes": list(line.names),
        "ended": search.ended,
        "kind": search.kind,
        "too_busy": line.too_busy,
        "culprits": [_culprit(line, culprit) for culprit in search.culprits],
        "not_confirmed": None if search.doubtful is None else _culprit(line, search.doubtful),
        "probabilities": {line.names[index]: p for index, p in search.probabilities.items()},
        "bad_relative_to_good": _effect(search.whole),
        "bad_without_culprits": {"fails": reverted} if isinstance(reverted, bool) else _effect(reverted),
        "comparison": None if line.ends is None else to_plain(line.ends),
        "builds": line.builds,
        "unbuildable": [{"stack": name, "why": why} for name, why in line.unbuildable],
        "then": line.then,
    }


def _culprit(line: BisectedLine, culprit: Culprit) -> dict[str, Any]:
    return {
        "changes": [line.names[index] for index in culprit.changes],
        "probability": culprit.probability,
        "built_again": _built_again(culprit.confirmed),
        "good_with_it": {"fails": culprit.fails} if culprit.fails is not None else _effect(culprit.effect),
        "explains": culprit.explains,
    }


def _built_again(confirmation: Confirmation | None) -> dict[str, Any] | None:
    if confirmation is None:
        return None
    return {
        "effect": _effect(confirmation.effect),
        "builds_of_each": confirmation.builds,
        "spread_of_builds": math.expm1(confirmation.spread),
        "confirmed": confirmation.slower,
    }


def _effect(effect: SpeedEffect | None) -> dict[str, float] | None:
    if effect is None:
        return None
    return {
        name: math.exp(getattr(effect, attribute))
        for name, attribute in (("ratio", "log"), ("low", "low"), ("high", "high"))
    }
