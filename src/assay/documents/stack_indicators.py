"""`assay stack indicators --json`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from assay.documents.stacks import hardware
from assay.records import to_plain

if TYPE_CHECKING:
    from assay.questions.stack_indicators import IndicatorListing
    from assay.stacks.predictions import IndicatorPrediction, MetricSeries


def document(listing: IndicatorListing) -> dict[str, Any]:
    """Each indicator with each workload."""
    return {
        "schema": "assay.stack-indicators/1",
        "predictions": [prediction(indicator_prediction) for indicator_prediction in listing.predictions],
        "indicators": list(listing.indicators),
    }


def prediction(indicator_prediction: IndicatorPrediction) -> dict[str, Any]:
    """One indicator with one workload: Kendall's rank correlation, its interval, and whether it is used."""
    return {
        "hardware": hardware(indicator_prediction.workload.hardware),
        "workload": _series(indicator_prediction.workload),
        "indicator": _series(indicator_prediction.indicator),
        "correlation": None
        if indicator_prediction.correlation is None
        else asdict(indicator_prediction.correlation),
        "stacks": indicator_prediction.stacks,
        "reliability": None
        if indicator_prediction.reliability is None
        else asdict(indicator_prediction.reliability),
        "predicts": indicator_prediction.predicts,
        "why_not": indicator_prediction.why_not,
    }


def _series(series: MetricSeries) -> dict[str, Any]:
    return {"title": series.title, "workload": to_plain(series.workload), "metric": to_plain(series.metric)}
