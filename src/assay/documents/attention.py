"""What needs a look, as `/api/v1/attention` answers it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.records import to_plain

if TYPE_CHECKING:
    from assay.questions.attention import AttentionItem


def document(attention: Sequence[AttentionItem]) -> dict[str, Any]:
    """The document."""
    return {"schema": "assay.attention/1", "attention": [to_plain(item) for item in attention]}
