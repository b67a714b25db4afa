"""`assay diff --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.questions.diff import Differences


def document(found: Differences, *, everything: bool) -> dict[str, Any]:
    """The document, as its schema describes it."""
    shown = [fact for fact in found.facts if everything or fact.differs]
    return {
        "schema": "assay.diff/1",
        **{
            name: {"reference": side.reference, "runs": side.runs, "runs_known": len(side.known)}
            for name, side in (("a", found.a), ("b", found.b))
        },
        "differs": found.matter if found.known else None,
        "facts": [{**asdict(fact), "matters": fact.matters} for fact in shown],
    }
