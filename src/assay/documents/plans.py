"""`assay plan --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from assay.records import to_plain
from assay.run.duration import total
from assay.rundir.files import without_secrets

if TYPE_CHECKING:
    from collections.abc import Sequence

    from assay.launch.check import PartCheck
    from assay.questions.plan import SuitePlan
    from assay.records import Trial


def document(suite_plan: SuitePlan) -> dict[str, Any]:
    """The whole plan: its trials, the looks of a run until decided, and how long it takes."""
    durations = suite_plan.durations()
    return {
        "schema": "assay.plan/1",
        **without_secrets(suite_plan.plan),
        "until": _until(suite_plan),
        "duration": {
            "systems": {name: to_plain(of_system) for name, of_system in durations.items()},
            "total": to_plain(total(durations.values())),
        },
    }


def trial_document(
    suite_plan: SuitePlan, trial: Trial, answers: Sequence[PartCheck] | None
) -> dict[str, Any]:
    """One trial and what it submits, with the platform's answer if it was asked."""
    document = {
        "schema": "assay.trial/1",
        "trial": without_secrets(trial),
        "sends": to_plain(suite_plan.sent(trial)),
    }
    return document if answers is None else document | {"platform_says": to_plain(answers)}


def _until(suite_plan: SuitePlan) -> dict[str, Any] | None:
    if suite_plan.limits is None:
        return None
    return {
        "max_repeats": suite_plan.limits.max_repeats,
        "max_time_s": suite_plan.limits.max_time_s,
        "looks": list(suite_plan.plan.looks),
        "nominal_p": suite_plan.nominal_p,
        "confidence": 1 - suite_plan.nominal_p,
    }
