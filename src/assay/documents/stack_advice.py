"""`assay stack advise --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from assay.documents.stack_indicators import prediction
from assay.documents.stacks import hardware, observation, software
from assay.records import to_plain

if TYPE_CHECKING:
    from assay.questions.advise_stack import CandidateFigures, StackAdvice


def document(advice: StackAdvice) -> dict[str, Any]:
    """The advice with its reasons and both files."""
    evidence, series = advice.evidence, advice.evidence.series
    return {
        "schema": "assay.stack-advice/1",
        "goal": advice.goal,
        "decided": advice.decided,
        "hardware": hardware(advice.hardware),
        "chosen": None if advice.chosen is None else advice.chosen.stack.digest,
        "whole": advice.whole,
        "settings": dict(advice.settings),
        "packages": [asdict(package) for package in advice.packages],
        "workload": None if series is None else series.workload.workload,
        "metric": None if series is None else series.metric.name,
        "series": None if series is None else series.title,
        "indicator": None if advice.indicator is None else prediction(advice.indicator),
        "indicators": [prediction(indicator) for indicator in advice.indicators],
        "candidates": [_candidate(candidate) for candidate in advice.candidates],
        "newest_measured": evidence.latest,
        "not_used": {"other_hardware": evidence.foreign, "stale": evidence.stale, "busy": evidence.busy},
        "broken": [{"stack": software(failure.stack), **observation(failure)} for failure in evidence.broken],
        "known_failures": [observation(failure) for failure in advice.known_failures],
        "vulnerable": None
        if advice.vulnerable is None
        else [asdict(advisory) for advisory in advice.vulnerable],
        "excluded": list(advice.excluded),
        "pylock": advice.lock.pylock,
        "requirements": advice.requirements,
    }


def _candidate(figures: CandidateFigures) -> dict[str, Any]:
    candidate = figures.candidate
    return {
        "stack": software(candidate.stack),
        "name": candidate.name,
        "verdict": candidate.verdict,
        "comparison": None if candidate.comparison is None else to_plain(candidate.comparison),
        "through": list(candidate.through),
        "level": asdict(candidate.level),
        "observations": [observation(seen) for seen in candidate.observations],
        "failures": [observation(seen) for seen in candidate.failures],
        "size_bytes": figures.size_bytes,
        "newest_at": figures.newest_at,
        "memory": None if candidate.memory is None else asdict(candidate.memory),
        "advisories": figures.advisories,
        "on_front": figures.on_front,
    }
