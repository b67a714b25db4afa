"""`assay data feeds --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from assay.questions.feeds import FeedingResult


def document(found: FeedingResult) -> dict[str, Any]:
    """Supplies with demands, and costs of checkpoints."""
    return {
        "feedings": [{**asdict(one), "at_least": one.at_least} for one in found.feedings],
        "checkpoints": [asdict(one) for one in found.checkpoints],
        "apart": list(found.apart),
        "unread": list(found.unread),
    }
