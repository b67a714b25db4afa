"""`assay stack advise --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from assay.documents.stack_indicators import prediction
from assay.documents.stacks import hardware, observation, software
from assay.records import to_plain

if TYPE_CHECKING:
    from assay.questions.advise_stack import CandidateFigures, StackAdvice


def document(found: StackAdvice) -> dict[str, Any]:
    """The advice with its reasons and both files."""
    evidence, series = found.evidence, found.evidence.series
    return {
        "schema": "assay.stack-advice/1",
        "goal": found.goal,
        "decided": found.decided,
        "hardware": hardware(found.hardware),
        "chosen": None if found.chosen is None else found.chosen.stack.digest,
        "whole": found.whole,
        "settings": dict(found.settings),
        "packages": [asdict(one) for one in found.packages],
        "workload": None if series is None else series.workload.workload,
        "metric": None if series is None else series.metric.name,
        "series": None if series is None else series.title,
        "indicator": None if found.indicator is None else prediction(found.indicator),
        "indicators": [prediction(one) for one in found.indicators],
        "candidates": [_candidate(one) for one in found.candidates],
        "newest_measured": evidence.latest,
        "not_used": {"other_hardware": evidence.foreign, "stale": evidence.stale, "busy": evidence.busy},
        "broken": [{"stack": software(one.stack), **observation(one)} for one in evidence.broken],
        "known_failures": [observation(one) for one in found.known_failures],
        "vulnerable": None if found.vulnerable is None else [asdict(one) for one in found.vulnerable],
        "excluded": list(found.excluded),
        "pylock": found.lock.pylock,
        "requirements": found.requirements,
    }


def _candidate(one: CandidateFigures) -> dict[str, Any]:
    candidate = one.candidate
    return {
        "stack": software(candidate.stack),
        "name": candidate.name,
        "verdict": candidate.verdict,
        "comparison": None if candidate.comparison is None else to_plain(candidate.comparison),
        "through": list(candidate.through),
        "level": asdict(candidate.level),
        "observations": [observation(seen) for seen in candidate.observations],
        "failures": [observation(seen) for seen in candidate.failures],
        "size_bytes": one.size_bytes,
        "newest_at": one.newest_at,
        "memory": None if candidate.memory is None else asdict(candidate.memory),
        "advisories": one.advisories,
        "on_front": one.on_front,
    }
