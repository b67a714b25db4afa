"""How well performance indicators predict the workloads that they stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from assay.questions.evidence import runs_directory
from assay.questions.stack_knowledge import known

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike

    from assay.stacks.predictions import IndicatorPrediction


@dataclass(frozen=True)
class IndicatorListing:
    """The result of `stack_indicators`.

    predictions  of each workload on each hardware class, the best indicator first
    indicators   titles of those that were measured, whether or not with a workload
    """

    predictions: tuple[IndicatorPrediction, ...]
    indicators: tuple[str, ...]


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
