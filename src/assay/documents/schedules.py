"""`assay monitor schedule --json` and `assay monitor idle --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.monitor.schedule import NodeIdleness
    from assay.questions.schedule import Schedule


def document(schedule: Schedule) -> dict[str, Any]:
    """The files by name, and what to know before installing them."""
    return {
        "schema": "assay.schedule/1",
        "form": schedule.form,
        "files": {**schedule.files},
        "notes": [*schedule.notes],
    }


def idleness_document(idleness: NodeIdleness) -> dict[str, Any]:
    """Whether the machine is idle, and why not."""
    return {
        "schema": "assay.idle/1",
        "idle": idleness.is_idle,
        "busy_cores": idleness.busy_cores,
        "cores": idleness.cores,
        "gpus": idleness.gpus,
        "reasons": [*idleness.reasons],
    }
