"""A session over time: what ran when on which system, and whether the runs drifted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

from assay.records import Result
from assay.units import counted
from assay.view import figures
from assay.view.blocks import Chart
from assay.view.charts.chart import (
    INK,
    listed,
    plain,
    ratio_ticks,
    side_axis,
    side_color,
    side_shape,
    tooltip,
)
from assay.view.contents import Summary
from assay.view.figures import gathered

MOST_SESSIONS = 4  # drawn, the newest; each takes two charts
_MARKED = {"failed": "a cross is a failed run", "done again": "a triangle is a repeated run"}
_TIMES = 8  # approximate number of labels on an axis
_CLOCK = (  # 24 hours; the date at midnight
    "utcFormat(datum.value, utcmilliseconds(datum.value) ? '%H:%M:%S.%L' : "
    "utcseconds(datum.value) ? '%H:%M:%S' : "
    "utchours(datum.value) || utcminutes(datum.value) ? '%H:%M' : '%b %d')"
)
MOST_BARS = 2_000  # in all sessions together; a longer session shows only its drift


def timelines(sides: Mapping[str, Sequence[Result]], primary: Sequence[Summary]) -> list[Chart]:
    """For each session, what ran when, and each run's primary results relative to their mean.

    Runs without a start and an end (imported logs) have no place in time and are left out.
    """
    timed = [
        (side, result)
        for side, results in sides.items()
        for result in results
        if result.run.started_at is not None and result.run.ended_at is not None
    ]
    sessions = gathered(
        sorted(timed, key=_start), lambda side_result: (side_result[1].run.suite, side_result[1].run.session)
    )
    charts = []
    for session in sessions[-MOST_SESSIONS:]:
        own = {result.run.id: result for _, result in session}
        name = f", {session[0][1].run.session}" * (len(sessions) > 1)
        if len(session) > 1 and len(timed) <= MOST_BARS:
            charts.append(_lanes(session, tuple(sides), name))
        rows = _against_means(primary, own)
        if len(rows) > 1:
            charts.append(_drift(rows, tuple(sides), name))
    return charts


def _start(side_result: tuple[str, Result]) -> float:
    return side_result[1].run.started_at or 0.0


def _lanes(session: Sequence[tuple[str, Result]], sides: Sequence[str], name: str) -> Chart:
    import altair as alt

    rows = [_bar(side, result) for side, result in session]
    unfinished = [row for row in rows if row["ended"] != "finished"]
    present = [side for side in sides if any(row["side"] == side for row in rows)]
    y = alt.Y("side:N", sort=present, title=None, axis=side_axis(present))
    chart: Any = (
        alt.Chart(alt.NamedData("bars"))
        .mark_bar(height=16, strokeWidth=1, stroke="var(--paper)")
        .encode(
            y=y,
            x=_time("start:T", "UTC"),
            x2="end:T",
            color=side_color(sides),
            tooltip=[alt.Tooltip(f"{field}:N") for field in ("run", "ended", "took")],
        )
    )
    if unfinished:
        chart = (chart + _marks(y)).resolve_scale(color="independent")
    spec = plain(chart, height=44 * len(present), bars=rows, marks=unfinished)
    seen = [label for ended, label in _MARKED.items() if any(row["ended"] == ended for row in unfinished)]
    caption = f"Each run as a bar on its system{''.join('; ' + label for label in seen)}{name}"
    return Chart("timeline", caption, _lane_words(session, present), spec, wide=True)


def _marks(y: Any) -> Any:
    """The marks above the bars of failed and repeated runs."""
    import altair as alt

    color = alt.Scale(domain=list(_MARKED), range=["var(--fails)", "var(--undecided)"])
    shape = alt.Scale(domain=list(_MARKED), range=["cross", "triangle-down"])
    return (
        alt.Chart(alt.NamedData("marks"))
        .mark_point(filled=True, size=70, opacity=1, yOffset=-15)
        .encode(
            y=y,
            x="start:T",
            color=alt.Color("ended:N", legend=None, scale=color),
            shape=alt.Shape("ended:N", legend=None, scale=shape),
            tooltip=[alt.Tooltip(f"{field}:N") for field in ("run", "ended", "why")],
        )
    )


def _time(field: str, title: str) -> Any:
    import altair as alt

    return alt.X(
        field, scale=alt.Scale(type="utc"), title=title, axis=alt.Axis(tickCount=_TIMES, labelExpr=_CLOCK)
    )


def _bar(side: str, result: Result) -> dict[str, Any]:
    run = result.run
    start, end = run.started_at or 0.0, run.ended_at or 0.0
    again = f"attempt {run.attempt}" if run.attempt > 1 else ""
    ended = "failed" if result.failed else "done again" if again else "finished"
    return {
        "side": side,
        "run": run.trial.id,
        "start": int(start * 1000),
        "end": int(end * 1000),
        "took": f"{end - start:,.1f} s",
        "ended": ended,
        "why": run.cause or again,
    }


def _lane_words(session: Sequence[tuple[str, Result]], present: Sequence[str]) -> str:
    turns = sum(a != b for (a, _), (b, _) in pairwise(session))
    summaries = []
    for side in present:
        own = [result for owner, result in session if owner == side]
        failed = sum(result.failed for result in own)
        again = sum(result.run.attempt > 1 for result in own)
        first, last = min(r.run.started_at or 0.0 for r in own), max(r.run.ended_at or 0.0 for r in own)
        summaries.append(
            f"{side}: {counted(len(own), 'run')} from {_clock(first)} to {_clock(last)} UTC, "
            f"{failed} failed, {again} repeated"
        )
    return listed(
        [*summaries, f"the systems alternated {counted(turns, 'time')}" if len(present) > 1 else ""]
    )


def _clock(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%H:%M:%S")


def _against_means(primary: Sequence[Summary], runs: Mapping[str, Result]) -> list[dict[str, Any]]:
    """Each run relative to the mean of its own system and point; times inverted, so above 1 is faster."""
    rows = []
    for summary in primary:
        inverted = summary.point.better == "lower"
        for value, run in zip(summary.values, summary.runs, strict=True):
            if run not in runs or value <= 0 or summary.estimate.value <= 0:
                continue
            share = value / summary.estimate.value
            started = runs[run].run.started_at or 0.0
            rows.append(
                {
                    "side": summary.side,
                    "run": runs[run].run.trial.id,
                    "what": f"{figures.metric(summary.point.metric)}, {figures.where(summary.point)}",
                    "start": int(started * 1000),
                    "value": 1 / share if inverted else share,
                }
            )
    return rows


def _drift(rows: Sequence[dict[str, Any]], sides: Sequence[str], name: str) -> Chart:
    import altair as alt

    shares = [row["value"] for row in rows]
    domain, ticks = ratio_ticks(min(shares), max(shares))
    upward = alt.Scale(type="log", domain=domain, nice=False)
    axis = alt.Axis(values=ticks, format="~g")
    mean = alt.Chart(alt.NamedData("mean")).mark_rule(color=INK, strokeDash=[3, 3]).encode(y="value:Q")
    points = (
        alt.Chart(alt.NamedData("rows"))
        .mark_point(filled=True, size=44, opacity=0.85)
        .encode(
            x=_time("start:T", "started, UTC"),
            y=alt.Y("value:Q", title="relative to its mean", scale=upward, axis=axis),
            color=side_color(sides, legend=True),
            shape=side_shape(sides, legend=True),
            tooltip=tooltip("run", "what", "value"),
        )
    )
    halves = _halves(rows)
    return Chart(
        "timeline",
        f"Each run relative to the mean of its system and point, above 1 is better: a slope is drift{name}",
        f"Between {min(shares):.3g} and {max(shares):.3g} of its mean; {halves}.",
        plain(mean + points, rows=rows, mean=[{"value": 1.0}], height=190),
        wide=True,
    )


def _halves(rows: Sequence[Mapping[str, Any]]) -> str:
    """The drift as text: the first half of the runs compared with the second."""
    from statistics import geometric_mean

    ordered = [row["value"] for row in sorted(rows, key=lambda row: row["start"])]
    middle = len(ordered) // 2
    first, second = geometric_mean(ordered[:middle]), geometric_mean(ordered[middle:])
    return f"the first half of the runs is at {first:.3g} of it on average, the second at {second:.3g}"
