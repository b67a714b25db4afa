"""LoadGen's Server scenario: what rate is held within which latency, and what was sent and not held."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from assay.analyse.groups import counts
from assay.records import Result
from assay.report import figures
from assay.report.charts.chart import (
    INK,
    Chart,
    listed,
    plain,
    side_colour,
    side_dash,
    side_shape,
    tooltip,
)
from assay.report.charts.latency import MOST_CURVES, PERCENTILE
from assay.report.tables import gathered
from assay.units import human

_BOUNDED_AT = 99.0  # Server's bound is on this percentile
_SWEPT = ("target_qps", "latency_bound_s")  # what a curve runs over
_CROSS = "M-1,-1L1,1M-1,1L1,-1"


@dataclass(frozen=True)
class _Served:
    """A run of Server: `latency_s` is None where it was INVALID, and `rate` then what was sent."""

    side: str
    result: Result
    rate: float
    latency_s: float | None
    bound_s: float


def rate_against_latency(sides: Mapping[str, Sequence[Result]]) -> list[Chart]:
    """Runs of Server at several rates or bounds: what each held, at which latency, and what wasn't held."""
    found = [one for side, results in sides.items() for r in results for one in _served(side, r)]
    groups = gathered(
        found, lambda one: (one.result.run.trial.benchmark, str(one.result.run.trial.shape), _place(one))
    )
    several = [g for g in groups if len({tuple(_swept(one).items()) for one in g}) > 1]
    return [_chart(group, tuple(sides)) for group in several[:MOST_CURVES]]


def _served(side: str, result: Result) -> Iterator[_Served]:
    facts = result.reading.facts
    bound, sent = facts.get("effective_target_latency_ns"), facts.get("effective_target_qps")
    if (
        facts.get("scenario") != "Server"
        or not isinstance(bound, int | float)
        or not isinstance(sent, int | float)
    ):
        return
    held = {
        m.metric: m.value
        for m in result.reading.measurements
        if m.labels.get(PERCENTILE, _BOUNDED_AT) == _BOUNDED_AT
    }
    if facts.get("validity") == "INVALID":
        yield _Served(side, result, float(sent), None, bound * 1e-9)
    elif counts(result) and {"throughput", "latency"} <= held.keys():
        yield _Served(side, result, held["throughput"], held["latency"], bound * 1e-9)


def _swept(one: _Served) -> dict[str, Any]:
    return {name: value for name, value in one.result.run.trial.varied.items() if name in _SWEPT}


def _place(one: _Served) -> str:
    others = {name: value for name, value in one.result.run.trial.varied.items() if name not in _SWEPT}
    return figures.labels(others)


def _chart(group: Sequence[_Served], sides: Sequence[str]) -> Chart:
    """A point a run, a line a side through the means of each setting, a cross at the bound where INVALID."""
    import altair as alt

    scale = figures.scale_of([v for one in group for v in (one.latency_s or one.bound_s, one.bound_s)], "s")
    per_unit, unit = (scale.per_unit, scale.unit) if scale else (1.0, "s")
    x = alt.X("x:Q", title="throughput, samples/s", scale=alt.Scale(zero=False, padding=12))
    y = alt.Y("value:Q", title=f"latency at the 99th percentile, {unit}", scale=alt.Scale(zero=True))
    colour, told = side_colour(sides, legend=True), tooltip("run", "x", "value")
    bound = alt.Chart(alt.NamedData("bounds")).mark_rule(color=INK, strokeDash=[3, 3], strokeWidth=1)
    line = alt.Chart(alt.NamedData("means")).mark_line(strokeWidth=1.5)
    dots = alt.Chart(alt.NamedData("runs")).mark_point(filled=True, size=52, opacity=0.85)
    crosses = alt.Chart(alt.NamedData("lost")).mark_point(shape=_CROSS, size=90, strokeWidth=2)
    bounds = sorted({one.bound_s for one in group})
    spec = plain(
        bound.encode(y=y)
        + line.encode(x=x, y=y, color=colour, strokeDash=side_dash(sides, legend=True))
        + dots.encode(x=x, y=y, color=colour, shape=side_shape(sides, legend=True), tooltip=told)
        + crosses.encode(x=x, y=y, color=colour, tooltip=told),
        runs=[_row(one, per_unit) for one in group if one.latency_s is not None],
        lost=[_row(one, per_unit) for one in group if one.latency_s is None],
        means=_means(group, per_unit),
        bounds=[{"value": value * per_unit} for value in bounds],
        height=260,
    )
    trial = group[0].result.run.trial
    place = ", ".join(filter(None, (figures.shape(str(trial.shape)), _place(group[0]))))
    caption = f"{trial.benchmark} Server, {place}, bound {' and '.join(human(b, 's') for b in bounds)}"
    words = listed(map(_words, group))
    return Chart("served", f"{caption}; crosses: sent, and INVALID", words, spec, wide=True)


def _row(one: _Served, per_unit: float) -> dict[str, Any]:
    value = one.bound_s if one.latency_s is None else one.latency_s
    return {"side": one.side, "run": one.result.run.trial.id, "x": one.rate, "value": value * per_unit}


def _means(group: Sequence[_Served], per_unit: float) -> list[dict[str, Any]]:
    """Of each side and setting, over its runs that count."""
    held = [(one, one.latency_s) for one in group if one.latency_s is not None]
    return [
        {
            "side": alike[0][0].side,
            "x": fmean(one.rate for one, _ in alike),
            "value": fmean(latency for _, latency in alike) * per_unit,
        }
        for alike in gathered(held, lambda pair: (pair[0].side, tuple(_swept(pair[0]).items())))
    ]


def _words(one: _Served) -> str:
    if one.latency_s is None:
        return (
            f"{one.side} was sent {one.rate:.4g} queries/s, INVALID at a bound of {human(one.bound_s, 's')}"
        )
    return f"{one.side} held {one.rate:.4g} samples/s at {human(one.latency_s, 's')}"
