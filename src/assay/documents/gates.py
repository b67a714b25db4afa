"""`assay gate --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.records import to_plain

if TYPE_CHECKING:
    from assay.questions.gate import GateResult


def document(found: GateResult) -> dict[str, Any]:
    """The document, as its schema describes it."""
    return {
        "schema": "assay.gate/1",
        "answer": found.answer,
        "margin": found.margin,
        "sides": to_plain(found.sides),
        "judged": [
            {"answer": one.answer, "reason": one.reason, "comparison": to_plain(one.comparison)}
            for one in found.judged
        ],
        "missing": [{"point": to_plain(point), "reason": why} for point, why in found.missing],
        "open": to_plain(found.open),
    }
