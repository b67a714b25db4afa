"""`assay queue --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay import redact
from assay.records import to_plain

if TYPE_CHECKING:
    from assay.questions.queue import RunQueue
    from assay.queue import QueuedRun


def document(queue: RunQueue) -> dict[str, Any]:
    """Every request, oldest first."""
    return {
        "schema": "assay.queue/1",
        "has_worker": queue.has_worker,
        "runs": [run_document(run) for run in queue.runs],
    }


def run_document(run: QueuedRun) -> dict[str, Any]:
    """One request and what became of it, without secrets."""
    plain: dict[str, Any] = redact.redacted(to_plain(run))
    return plain
