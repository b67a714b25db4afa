"""`assay stack indicators --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from assay.documents.stacks import hardware
from assay.records import to_plain

if TYPE_CHECKING:
    from assay.questions.stack_indicators import IndicatorListing
    from assay.stacks.predictions import IndicatorPrediction, MetricSeries


def document(found: IndicatorListing) -> dict[str, Any]:
    """Each indicator with each workload."""
    return {
        "schema": "assay.stack-indicators/1",
        "predictions": [prediction(one) for one in found.predictions],
        "indicators": list(found.indicators),
    }


def prediction(one: IndicatorPrediction) -> dict[str, Any]:
    """One indicator with one workload: Kendall's rank correlation, its interval, and whether it is used."""
    return {
        "hardware": hardware(one.workload.hardware),
        "workload": _series(one.workload),
        "indicator": _series(one.indicator),
        "correlation": None if one.correlation is None else asdict(one.correlation),
        "stacks": one.stacks,
        "reliability": None if one.reliability is None else asdict(one.reliability),
        "predicts": one.predicts,
        "why_not": one.why_not,
    }


def _series(one: MetricSeries) -> dict[str, Any]:
    return {"title": one.title, "workload": to_plain(one.workload), "metric": to_plain(one.metric)}
