"""`assay stack explore --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.records import to_plain

if TYPE_CHECKING:
    from assay.questions.explore_stacks import ExplorationResult, ExploredStack


def document(found: ExplorationResult) -> dict[str, Any]:
    """The answer, with every candidate, the best first."""
    return {
        "schema": "assay.stack-exploration/1",
        "name": found.name,
        "incumbent": found.incumbent,
        "best": None if found.best is None else found.best.name,
        "build_only": found.build_only,
        "margin": found.margin,
        "ended": found.ended,
        "possible": found.possible,
        "spent_s": found.spent_s,
        "sessions": list(found.sessions),
        "candidates": [_candidate(one) for one in found.candidates],
    }


def _candidate(one: ExploredStack) -> dict[str, Any]:
    return {
        "name": one.name,
        "values": dict(one.choice.values),
        "changes": dict(one.changes),
        "comparison": None if one.comparison is None else to_plain(one.comparison),
        "blocks": one.blocks,
        "dropped": one.dropped,
        "failure": one.failure,
        "why": one.why,
        "log": one.log,
        "same_as": one.same_as,
        "lock": one.lock,
    }
