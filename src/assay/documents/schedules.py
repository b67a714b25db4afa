"""`assay monitor schedule --json` and `assay monitor idle --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.monitor.schedule import NodeIdleness
    from assay.questions.schedule import Schedule


def document(found: Schedule) -> dict[str, Any]:
    """The files by name, and what to know before installing them."""
    return {
        "schema": "assay.schedule/1",
        "form": found.form,
        "files": {**found.files},
        "notes": [*found.notes],
    }


def idleness_document(found: NodeIdleness) -> dict[str, Any]:
    """Whether the machine is idle, and why not."""
    return {
        "schema": "assay.idle/1",
        "idle": found.is_idle,
        "busy_cores": found.busy_cores,
        "cores": found.cores,
        "gpus": found.gpus,
        "reasons": [*found.reasons],
    }
