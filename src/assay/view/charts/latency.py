"""Latency by percentile, one line per side, and throughput against latency.

For throughput and latency: LoadGen's Server scenario and load on LLM servers, and loads beyond the bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from assay.records import Result
from assay.units import human, significant
from assay.view import figures
from assay.view.blocks import Chart
from assay.view.charts.chart import (
    CUT,
    INK,
    axis_title,
    legible,
    listed,
    plain,
    side_color,
    side_dash,
    side_shape,
    tooltip,
)
from assay.view.contents import Summary
from assay.view.figures import gathered

MOST_CURVES = 12
PERCENTILE = "percentile"
_LEAST_PERCENTILES = 3


def by_percentile(summaries: Sequence[Summary], sides: Sequence[str]) -> list[Chart]:
    """A line per side from the median to the last percentile, for each metric with percentiles."""
    with_percentiles = [s for s in summaries if PERCENTILE in s.point.labels]
    groups = gathered(
        with_percentiles,
        lambda s: (s.point.benchmark, s.point.metric, s.point.shape, figures.labels(_others(s))),
    )
    drawn = [g for g in groups if len({s.point.labels[PERCENTILE] for s in g}) >= _LEAST_PERCENTILES]
    return [_percentiles(group, sides) for group in drawn[:MOST_CURVES]]


def _others(summary: Summary) -> dict[str, Any]:
    return {name: value for name, value in summary.point.labels.items() if name != PERCENTILE}


def _percentiles(group: Sequence[Summary], sides: Sequence[str]) -> Chart:
    """Percentiles spaced by halvings of the share above them, because tails differ there."""
    import altair as alt

    point = group[0].point
    scale = figures.scale_of([v for s in group for v in s.values], point.unit)
    per_unit, unit = scale.per_unit, scale.unit
    rows = [
        {
            "side": s.side,
            "percentile": f"{s.point.labels[PERCENTILE]:g}",
            "x": _above(s),
            "value": s.estimate.value * per_unit,
            "low": None if s.estimate.low is None else s.estimate.low * per_unit,
            "high": None if s.estimate.high is None else s.estimate.high * per_unit,
        }
        for s in group
    ]
    names = {f"{_above(s):.4f}": f"{s.point.labels[PERCENTILE]:g}" for s in group}
    ends = [end for s in group for end in (s.estimate.low, s.estimate.high)]
    domain, cut = legible(
        [s.estimate.value * per_unit for s in group],
        [None if end is None else end * per_unit for end in ends],
    )
    axis = alt.Axis(
        values=sorted({_above(s) for s in group}),
        labelExpr=f"{names}[format(datum.value, '.4f')]",
        labelOverlap=False,
    )
    x = alt.X("x:Q", title=PERCENTILE, axis=axis, scale=alt.Scale(zero=False, padding=12))
    upward = alt.Scale(domain=domain, zero=False, nice=not cut)
    y = alt.Y("value:Q", title=axis_title(point.metric, unit), scale=upward)
    base = alt.Chart(alt.NamedData("rows")).encode(x=x, color=side_color(sides, legend=True))
    line = base.mark_line(strokeWidth=1.5).encode(y=y, strokeDash=side_dash(sides, legend=True))
    if any(end is not None for end in ends):
        line += base.mark_rule(strokeWidth=2, clip=True).encode(y=alt.Y("low:Q", scale=upward), y2="high:Q")
    dots = base.mark_point(filled=True, size=45, opacity=1).encode(
        y=y,
        shape=side_shape(sides, legend=True),
        tooltip=tooltip("side", "percentile", "value", "low", "high"),
    )
    spec = plain(line + dots, rows=rows, height=220)
    place = ", ".join(filter(None, (figures.shape(point.shape), figures.labels(_others(group[0])))))
    summary = listed(
        f"{s.side} at {s.point.labels[PERCENTILE]:g} %: {figures.measured(s.estimate)[0]}" for s in group
    )
    caption = f"{point.benchmark} {figures.metric(point.metric)} by percentile, {place}{CUT * cut}"
    return Chart("latency", caption, summary, spec)


def _above(summary: Summary) -> float:
    """A percentile as the number of halvings of the share above it: 1 for the median."""
    percentile = summary.point.labels[PERCENTILE]
    assert isinstance(percentile, int | float)
    return -math.log2(1 - min(percentile, 99.999) / 100)


_BOUNDED_AT = 99.0  # Server's bound applies to this percentile
_SWEPT = ("target_qps", "latency_bound_s", "rate", "users", "ttft_bound_s")  # labels that a curve runs over
_CROSS = "M-1,-1L1,1M-1,1L1,-1"


@dataclass(frozen=True)
class _Load:
    """What a curve's axes show: the scenario, what is sustained per second, and its latency."""

    scenario: str
    per_s: str
    latency: str


_LOADGEN = _Load("Server", "samples/s", "latency")
_ARRIVALS = _Load("arrivals", "requests/s", "time to first token")
_USERS = _Load("users", "tokens/s", "time to first token")


@dataclass(frozen=True)
class _LoadRun:
    """A run under load: if it was INVALID, `latency_s` is None and `rate` is what was sent.

    bound_s  the latency bound; None if there is none, in which case no run is INVALID
    """

    side: str
    result: Result
    load: _Load
    rate: float
    latency_s: float | None
    bound_s: float | None


def rate_against_latency(sides: Mapping[str, Sequence[Result]]) -> list[Chart]:
    """Runs under several loads: the sustained rate, its latency, and the loads that were not sustained."""
    load_runs = [
        load_run for side, results in sides.items() for r in results for load_run in _served(side, r)
    ]
    groups = gathered(
        load_runs,
        lambda load_run: (
            load_run.load,
            load_run.result.run.trial.benchmark,
            str(load_run.result.run.trial.shape),
            _load_place(load_run),
        ),
    )
    several = [g for g in groups if len({tuple(_load_sweep(load_run).items()) for load_run in g}) > 1]
    return [_load_chart(group, tuple(sides)) for group in several[:MOST_CURVES]]


def _served(side: str, result: Result) -> Iterator[_LoadRun]:
    facts = result.reading.facts
    if result.run.trial.workload == "llm-serving":
        yield from _served_llm(side, result)
        return
    bound, sent = facts.get("effective_target_latency_ns"), facts.get("effective_target_qps")
    if (
        facts.get("scenario") != "Server"
        or not isinstance(bound, int | float)
        or not isinstance(sent, int | float)
    ):
        return
    held = _held_latencies(result)
    if facts.get("validity") == "INVALID":
        yield _LoadRun(side, result, _LOADGEN, float(sent), None, bound * 1e-9)
    elif result.counts and {"throughput", "latency"} <= held.keys():
        yield _LoadRun(side, result, _LOADGEN, held["throughput"], held["latency"], bound * 1e-9)


def _served_llm(side: str, result: Result) -> Iterator[_LoadRun]:
    """Requests per second for an arrival rate, tokens per second for users; a search gives one value."""
    facts, held = result.reading.facts, _held_latencies(result)
    bound, sent = facts.get("ttft_bound_s"), facts.get("rate")
    bound_s = float(bound) if isinstance(bound, int | float) else None
    load, metric = (
        (_ARRIVALS, "throughput") if facts.get("scenario") == "server" else (_USERS, "token_throughput")
    )
    if facts.get("validity") == "INVALID":
        if load is _ARRIVALS and bound_s is not None and isinstance(sent, int | float):
            yield _LoadRun(side, result, load, float(sent), None, bound_s)
    elif facts.get("scenario") != "search" and result.counts and {metric, "first_token"} <= held.keys():
        yield _LoadRun(side, result, load, held[metric], held["first_token"], bound_s)


def _held_latencies(result: Result) -> dict[str, float]:
    """The run's measurement; of those with percentiles, the one with a bound."""
    return {
        m.metric: m.value
        for m in result.reading.measurements
        if m.labels.get(PERCENTILE, _BOUNDED_AT) == _BOUNDED_AT
    }


def _load_sweep(load_run: _LoadRun) -> dict[str, Any]:
    return {name: value for name, value in load_run.result.run.trial.varied.items() if name in _SWEPT}


def _load_place(load_run: _LoadRun) -> str:
    others = {name: value for name, value in load_run.result.run.trial.varied.items() if name not in _SWEPT}
    return figures.labels(others)


def _load_chart(group: Sequence[_LoadRun], sides: Sequence[str]) -> Chart:
    """A point per run, a line per side through the means of each setting, a cross at the bound if INVALID."""
    import altair as alt

    load, bounds = (
        group[0].load,
        sorted({load_run.bound_s for load_run in group if load_run.bound_s is not None}),
    )
    scale = figures.scale_of(
        [*bounds, *(load_run.latency_s for load_run in group if load_run.latency_s is not None)], "s"
    )
    per_unit, unit = scale.per_unit, scale.unit
    x = alt.X("x:Q", title=f"throughput, {load.per_s}", scale=alt.Scale(zero=False, padding=12))
    y = alt.Y("value:Q", title=f"{load.latency} at the 99th percentile, {unit}", scale=alt.Scale(zero=True))
    color, tooltips = side_color(sides, legend=True), tooltip("run", "x", "value")
    bound = alt.Chart(alt.NamedData("bounds")).mark_rule(color=INK, strokeDash=[3, 3], strokeWidth=1)
    line = alt.Chart(alt.NamedData("means")).mark_line(strokeWidth=1.5)
    dots = alt.Chart(alt.NamedData("runs")).mark_point(filled=True, size=52, opacity=0.85)
    crosses = alt.Chart(alt.NamedData("lost")).mark_point(shape=_CROSS, size=90, strokeWidth=2)
    spec = plain(
        bound.encode(y=y)
        + line.encode(x=x, y=y, color=color, strokeDash=side_dash(sides, legend=True))
        + dots.encode(x=x, y=y, color=color, shape=side_shape(sides, legend=True), tooltip=tooltips)
        + crosses.encode(x=x, y=y, color=color, tooltip=tooltips),
        runs=[_load_row(load_run, per_unit) for load_run in group if load_run.latency_s is not None],
        lost=[_load_row(load_run, per_unit) for load_run in group if load_run.latency_s is None],
        means=_load_means(group, per_unit),
        bounds=[{"value": value * per_unit} for value in bounds],
        height=260,
    )
    trial = group[0].result.run.trial
    place = ", ".join(filter(None, (figures.shape(str(trial.shape)), _load_place(group[0]))))
    caption = f"{trial.benchmark} {load.scenario}, {place}"
    if bounds:
        caption += f", bound {' and '.join(human(b, 's') for b in bounds)}; crosses: rate sent, INVALID"
    return Chart("served", caption, listed(map(_describe_load_run, group)), spec, wide=True)


def _load_row(load_run: _LoadRun, per_unit: float) -> dict[str, Any]:
    value = load_run.bound_s if load_run.latency_s is None else load_run.latency_s
    assert value is not None
    return {
        "side": load_run.side,
        "run": load_run.result.run.trial.id,
        "x": load_run.rate,
        "value": value * per_unit,
    }


def _load_means(group: Sequence[_LoadRun], per_unit: float) -> list[dict[str, Any]]:
    """One point per side and setting, over its runs that count."""
    held = [(load_run, load_run.latency_s) for load_run in group if load_run.latency_s is not None]
    return [
        {
            "side": alike[0][0].side,
            "x": fmean(load_run.rate for load_run, _ in alike),
            "value": fmean(latency for _, latency in alike) * per_unit,
        }
        for alike in gathered(held, lambda pair: (pair[0].side, tuple(_load_sweep(pair[0]).items())))
    ]


def _describe_load_run(load_run: _LoadRun) -> str:
    if load_run.latency_s is None and load_run.bound_s is not None:
        sent = f"{load_run.side} was sent {significant(load_run.rate, 4)} queries/s"
        return f"{sent}, INVALID at a bound of {human(load_run.bound_s, 's')}"
    assert load_run.latency_s is not None
    rate = f"{significant(load_run.rate, 4)} {load_run.load.per_s}"
    return f"{load_run.side} sustained {rate} at {human(load_run.latency_s, 's')}"
