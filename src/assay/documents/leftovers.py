"""`assay clean --json`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.questions.clean import Leftovers, OtherSystem


def document(cleaned: Sequence[Leftovers], others: Sequence[OtherSystem]) -> dict[str, Any]:
    """The document, as its schema describes it."""
    return {
        "schema": "assay.clean/1",
        "systems": [_system(leftovers) for leftovers in cleaned],
        "not_looked_at": [asdict(other) for other in others],
    }


def _system(cleaned: Leftovers) -> dict[str, Any]:
    jobs = [
        {
            "token": left.token,
            "what": list(left.what),
            "session": left.session or None,
            "goes_on": left.going or None,
            "removed": left.token in cleaned.removed,
        }
        for left in cleaned.found
    ]
    return {"system": cleaned.system, "looked": cleaned.looked, "error": cleaned.error, "jobs": jobs}
