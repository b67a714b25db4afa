"""`assay goodput --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from assay.questions.goodput import GoodputResult


def document(result: GoodputResult) -> dict[str, Any]:
    """The answers, without the single attempts."""
    outcomes = sorted({attempt.outcome for attempt in result.attempts})
    return {
        "until": result.until,
        "attempts": {name: sum(attempt.outcome == name for attempt in result.attempts) for name in outcomes},
        "goodput": None if result.share is None else asdict(result.share),
        "jobs": [asdict(size) for size in result.by_size],
        "node_failures": None if result.of_nodes is None else asdict(result.of_nodes),
        "nodes": [asdict(node) for node in result.by_node],
        "unreadable": [str(problem) for problem in result.unreadable],
    }
