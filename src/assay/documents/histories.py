"""`assay history --json`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.analyse.statistics.level_shifts import BETWEEN_FALSE_CHANGES, false_change_rate
from assay.records import to_plain
from assay.report.sentences.history import around

if TYPE_CHECKING:
    from assay.analyse.statistics.level_shifts import LevelShift
    from assay.report.sentences.history import AnnotatedHistory, FactChange


def document(metric: str, histories: Sequence[AnnotatedHistory]) -> dict[str, Any]:
    """The document, as its schema describes it."""
    return {
        "schema": "assay.history/1",
        "metric": metric,
        "histories": [_history_as_data(annotated) for annotated in histories],
    }


def _history_as_data(annotated: AnnotatedHistory) -> dict[str, Any]:
    history = annotated.history
    return {
        "suite": history.suite,
        "system": history.system,
        "point": to_plain(history.point),
        "false_alarm_rate": false_change_rate(len(history.entries)),
        "sessions_between_false_steps": BETWEEN_FALSE_CHANGES,
        "spread": history.spread,
        "reason": history.reason,
        "dropped": history.dropped,
        "undated": list(history.undated),
        "levels": [{"mean": level, "sessions": count} for level, count in history.levels],
        "sessions": [
            {
                "session": e.session,
                "at": e.at if e.dated else None,
                "value": e.value,
                "runs": [r.run.id for r in e.results],
                "slow_in_sweep": annotated.slow_in.get(e.session),
            }
            for e in history.entries
        ],
        "steps": [
            _step_as_data(annotated, step, changes)
            for step, changes in zip(history.steps, annotated.changes, strict=True)
        ],
    }


def _step_as_data(
    annotated: AnnotatedHistory, step: LevelShift, changes: Sequence[FactChange]
) -> dict[str, Any]:
    entries = annotated.history.entries
    return {
        "kind": step.kind,
        "after": entries[step.after].session,
        "before": entries[step.before].session,
        "earliest": entries[step.earliest].session,
        "latest": entries[step.latest].session,
        "ratio": to_plain(step.ratio),
        "better": step.better,
        "compared": [entry.session for entry in around(annotated.history, step)],
        "changes": list(map(str, changes)),
    }
