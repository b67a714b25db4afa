"""`assay push --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.questions.push import Push


def document(push: Push) -> dict[str, Any]:
    """Each session that the server has now, and those that can't be sent."""
    return {
        "schema": "assay.push/1",
        "sessions": [asdict(session) for session in push.sessions],
        "left_out": [asdict(session) for session in push.left_out],
    }
