"""`assay data feeds --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from assay.questions.feeds import FeedingResult


def document(result: FeedingResult) -> dict[str, Any]:
    """Supplies with demands, and costs of checkpoints."""
    return {
        "feedings": [{**asdict(feeding), "at_least": feeding.at_least} for feeding in result.feedings],
        "checkpoints": [asdict(checkpoint) for checkpoint in result.checkpoints],
        "apart": list(result.apart),
        "unread": list(result.unread),
    }
