"""How well performance indicators predict the workloads that they stand for."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from assay.questions.evidence import runs_directory
from assay.questions.stack_knowledge import known

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from assay.stacks.predictions import IndicatorPrediction, MetricSeries


@dataclass(frozen=True)
class IndicatorListing:
    """The result of `stack_indicators`.

    predictions  of each workload on each hardware class, the best indicator first
    indicators   titles of those that were measured, whether or not with a workload
    """

    predictions: tuple[IndicatorPrediction, ...]
    indicators: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Each indicator with each workload."""
        return {
            "schema": "assay.stack-indicators/1",
            "predictions": [
                prediction_document(indicator_prediction) for indicator_prediction in self.predictions
            ],
            "indicators": list(self.indicators),
        }


def stack_indicators(
    *,
    workload: str | None = None,
    runs: str | PathLike[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> IndicatorListing:
    """How well each indicator orders stacks like each workload, like `assay stack indicators`.

    workload  only this one
    runs      directory of the runs; None means $ASSAY_RUNS, or else `runs` here

    Raises InputError if there are neither runs nor imported bundles.
    """
    from assay.stacks.predictions import INDICATORS, predictions, series_of

    observed = known(runs_directory(runs), progress).observations
    shown = [
        prediction
        for prediction in predictions(observed)
        if workload in (None, prediction.workload.workload.workload)
    ]
    series = [
        metric_series
        for metric_series in map(series_of, observed)
        if metric_series and metric_series.workload.workload == INDICATORS
    ]
    return IndicatorListing(tuple(shown), tuple(sorted({metric_series.title for metric_series in series})))


def prediction_document(indicator_prediction: IndicatorPrediction) -> dict[str, Any]:
    """One indicator with one workload: Kendall's rank correlation, its interval, and whether it is used."""
    from assay.questions.stack_knowledge import hardware_document

    return {
        "hardware": hardware_document(indicator_prediction.workload.hardware),
        "workload": _series_as_data(indicator_prediction.workload),
        "indicator": _series_as_data(indicator_prediction.indicator),
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


def _series_as_data(series: MetricSeries) -> dict[str, Any]:
    from assay.records import to_plain

    return {"title": series.title, "workload": to_plain(series.workload), "metric": to_plain(series.metric)}
