"""`assay push --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.questions.push import Push


def document(found: Push) -> dict[str, Any]:
    """Each session that the server has now, and those that can't be sent."""
    return {
        "schema": "assay.push/1",
        "sessions": [asdict(one) for one in found.sessions],
        "left_out": [asdict(one) for one in found.left_out],
    }
