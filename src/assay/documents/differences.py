"""`assay diff --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.questions.diff import Differences


def document(differences: Differences, *, everything: bool) -> dict[str, Any]:
    """The document, as its schema describes it."""
    shown = [fact for fact in differences.facts if everything or fact.differs]
    return {
        "schema": "assay.diff/1",
        **{
            name: {"reference": side.reference, "runs": side.runs, "runs_known": len(side.known)}
            for name, side in (("a", differences.a), ("b", differences.b))
        },
        "differs": differences.matter if differences.known else None,
        "facts": [{**asdict(fact), "matters": fact.matters} for fact in shown],
    }
