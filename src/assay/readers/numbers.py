"""Imported figures from a spreadsheet: read, never run. A run's log is its rows of the sheet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field

from assay.inputs import read_whole
from assay.logs.numbers import parse
from assay.readers.reader import Params, Reader
from assay.records import Better, Measurement, Metric, Reading, Scalar

# Names with an undisputed direction. Others need a declared direction, or there is no verdict of faster or
# slower. The third value says whether the metric ideally grows (a time: shrinks) with the ranks.
_KNOWN: tuple[tuple[str, Better, bool], ...] = (
    ("time_to_train", "lower", True),
    ("time_per_epoch", "lower", True),
    ("epoch_time", "lower", True),
    ("throughput", "higher", True),
    ("images_per_s", "higher", True),
    ("images_per_second", "higher", True),
    ("samples_per_s", "higher", True),
    ("samples_per_second", "higher", True),
    ("tokens_per_s", "higher", True),
    ("tokens_per_second", "higher", True),
    ("queries_per_s", "higher", True),
    ("qps", "higher", True),
    ("flop_rate", "higher", True),
    ("runtime", "lower", True),
    ("wall_time", "lower", True),
    ("duration", "lower", True),
    ("step_time", "lower", False),
    ("busbw", "higher", False),
    ("algbw", "higher", False),
    ("bandwidth", "higher", False),
    ("latency", "lower", False),
    ("mfu", "higher", False),
    ("accuracy", "higher", False),
    ("top1", "higher", False),
    ("loss", "lower", False),
)

# Columns that describe how the run was made. Assay's programs state the same facts; doubts are based on them.
FACTS = ("device", "device_name", "precision", "global_batch_size")


class NumbersParams(Params):
    """What the sheet says about its metrics."""

    better: Mapping[str, Better] = Field(
        default_factory=dict, description="Better direction by metric name, from the column `better`."
    )


def direction(metric: str, stated: Mapping[str, Better]) -> Better | None:
    """Which direction is better: from the sheet, otherwise from the name; None if neither says."""
    return stated.get(metric) or next((better for name, better, _ in _KNOWN if name == metric), None)


def _metrics(params: NumbersParams) -> tuple[Metric, ...]:
    """Metrics with a direction; each figure carries its unit."""
    known = {name: (better, scales) for name, better, scales in _KNOWN}
    stated = {name: (better, known.get(name, ("", True))[1]) for name, better in params.better.items()}
    return tuple(
        Metric(name, "", better, "as in the spreadsheet", scales)
        for name, (better, scales) in {
            **stated,
            **{n: entry for n, entry in known.items() if n not in stated},
        }.items()
    )


def _read(logs: Mapping[str, Path], _params: NumbersParams) -> Reading:
    [(name, path), *more] = logs.items()
    if more:
        return Reading(problems=(f"found {len(logs)} sheets of one run; expected one",))
    table, problems = parse(read_whole(path).decode(errors="replace"), name)
    if problems:
        return Reading(problems=tuple(map(str, problems)))
    stated = {column: row.labels[column] for row in table.rows for column in FACTS if column in row.labels}
    if any(row.labels.get(column, fact) != fact for row in table.rows for column, fact in stated.items()):
        return Reading(problems=(f"its rows contradict each other in {', '.join(stated)}",))
    measurements = tuple(
        Measurement(row.metric, row.value, row.unit, _without_facts(row.labels), name, row.line)
        for row in table.rows
        if row.value is not None
    )
    reason = () if measurements else ("the sheet has no value for this run",)
    return Reading(measurements, facts=stated, problems=reason)


def _without_facts(labels: Mapping[str, Scalar]) -> Mapping[str, Scalar]:
    return {name: value for name, value in labels.items() if name not in FACTS}


NUMBERS = Reader(
    name="numbers",
    params=NumbersParams,
    metrics=_metrics,
    read=_read,
    version=2,
)
