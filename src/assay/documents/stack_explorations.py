"""`assay stack explore --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.records import to_plain

if TYPE_CHECKING:
    from assay.questions.explore_stacks import ExplorationResult, ExploredStack


def document(exploration: ExplorationResult) -> dict[str, Any]:
    """The answer, with every candidate, the best first."""
    return {
        "schema": "assay.stack-exploration/1",
        "name": exploration.name,
        "incumbent": exploration.incumbent,
        "best": None if exploration.best is None else exploration.best.name,
        "build_only": exploration.build_only,
        "margin": exploration.margin,
        "ended": exploration.ended,
        "possible": exploration.possible,
        "spent_s": exploration.spent_s,
        "sessions": list(exploration.sessions),
        "candidates": [_candidate(candidate) for candidate in exploration.candidates],
    }


def _candidate(candidate: ExploredStack) -> dict[str, Any]:
    return {
        "name": candidate.name,
        "values": dict(candidate.choice.values),
        "changes": dict(candidate.changes),
        "comparison": None if candidate.comparison is None else to_plain(candidate.comparison),
        "blocks": candidate.blocks,
        "dropped": candidate.dropped,
        "failure": candidate.failure,
        "why": candidate.why,
        "log": candidate.log,
        "same_as": candidate.same_as,
        "lock": candidate.lock,
    }
