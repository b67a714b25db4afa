"""A metric over sessions: each session, its runs, the levels between steps, and the steps' uncertainty."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from assay.analyse.history import History, SessionValue
from assay.report import figures
from assay.report.charts.chart import INK, Chart, axis_title, listed, plain, tooltip
from assay.report.sentences import history as words

_MOST_TICKS = 9
_COLOURS = {"better": "var(--faster)", "worse": "var(--slower)", "level": INK}


def history(told: History) -> Chart:
    """Sessions at equal distances, because steps are searched for by order, not by time."""
    import altair as alt

    entries = told.entries
    scale = figures.scale_of([e.value for e in entries], told.point.unit)
    per_unit, unit = scale.per_unit, scale.unit
    x = alt.X(
        "x:Q",
        title="sessions, oldest first",
        scale=alt.Scale(domain=[-0.5, len(entries) - 0.5], nice=False),
        axis=_dates(entries),
    )
    y = alt.Y("value:Q", title=axis_title(told.point.metric, unit), scale=alt.Scale(zero=False))
    colour = alt.Color(
        "way:N", legend=None, scale=alt.Scale(domain=list(_COLOURS), range=list(_COLOURS.values()))
    )
    steps, levels = (alt.Chart(alt.NamedData(name)) for name in ("steps", "levels"))
    layers = [
        steps.mark_rect(color="var(--band)").encode(x=alt.X("first:Q"), x2="last:Q"),
        steps.mark_rect(opacity=0.22).encode(
            x=alt.X("x:Q"), x2="until:Q", y=alt.Y("low:Q"), y2="high:Q", color=colour
        ),
        levels.mark_rule(strokeWidth=2).encode(x=x, x2="until:Q", y=y, y2="end:Q", color=colour),
        alt.Chart(alt.NamedData("sessions"))
        .mark_point(filled=True, size=46, opacity=1, color="var(--series-1)")
        .encode(x=x, y=y, tooltip=tooltip("session", "when", "value", "runs")),
        steps.mark_text(dy=-8, fontWeight="bold", fontSize=12).encode(
            x=alt.X("middle:Q"), y=alt.value(0), text="text:N", color=colour
        ),
    ]
    spec = plain(
        alt.layer(*(layers if told.steps else layers[2:4])),
        height=240,
        sessions=[_session(at, entry, per_unit) for at, entry in enumerate(entries)],
        levels=_levels(told, per_unit),
        **({"steps": _steps(told, per_unit)} if told.steps else {}),
    )
    return Chart("history", _caption(told), _words(told), spec, wide=True)


def _caption(told: History) -> str:
    caption = f"{words.place(told)}, {told.system}: {words.found(told)}"
    if not told.steps:
        return caption
    return f"{caption}. Vertical bands: where a step may be (95 %); horizontal: the new level"


def _words(told: History) -> str:
    unit, texts = figures.column([e.value for e in told.entries], told.point.unit)
    return listed(
        (
            f"from {texts[0]} to {texts[-1]} {unit} over {len(texts)} sessions",
            *(f"{words.changed_by(step)}, {words.at(told, step)}" for step in told.steps),
            words.spread(told),
        )
    )


def _session(at: int, entry: SessionValue, per_unit: float) -> dict[str, Any]:
    return {
        "x": at,
        "value": entry.value * per_unit,
        "session": entry.session,
        "when": words.made(entry),
        "runs": len(entry.results),
    }


def _levels(told: History, per_unit: float) -> list[dict[str, Any]]:
    """Each stretch between changes as a line, extended by half a session at each end; a drift as a slope."""
    edges = [0, *(step.before for step in told.steps), len(told.entries)]
    rows = []
    for (first, end), (level, _), step in zip(
        pairwise(edges), told.levels, (*told.steps, None), strict=False
    ):
        drift = step if step is not None and step.kind == "drift" else None
        until = end - 0.5 if drift is None else drift.after
        value = level * per_unit
        rows.append({"x": first - 0.5, "until": until, "value": value, "end": value, "way": "level"})
        if drift is not None:
            new = value * drift.ratio.value
            rows.append({"x": until, "until": drift.before, "value": value, "end": new, "way": "level"})
    return rows


def _steps(told: History, per_unit: float) -> list[dict[str, Any]]:
    """Each step: its possible positions, and the interval of the level after it."""
    ends = [*(step.before for step in told.steps[1:]), len(told.entries)]
    rows = []
    for step, (old, _), end in zip(told.steps, told.levels, ends, strict=False):
        low, high = (
            old * (e if e is not None else step.ratio.value) for e in (step.ratio.low, step.ratio.high)
        )
        rows.append(
            {
                "first": step.earliest - 1,
                "last": step.latest,
                "middle": step.before - 0.5,
                "x": step.before - 0.5,
                "until": end - 0.5,
                "low": low * per_unit,
                "high": high * per_unit,
                "way": {True: "better", False: "worse", None: "level"}[step.better],
                "text": words.size_alone(step),
            }
        )
    return rows


def _dates(entries: Sequence[SessionValue]) -> Any:
    """An axis with the dates of a few evenly spaced sessions; with times if a day has several."""
    import altair as alt

    count = min(_MOST_TICKS, len(entries))
    places = sorted({round(k * (len(entries) - 1) / max(1, count - 1)) for k in range(count)})
    texts = [words.made(entries[place]) for place in places]
    days = [text[:10] for text in texts]
    shown = days if len(set(days)) == len(days) else [text[5:] for text in texts]
    label = f"{json.dumps(shown)}[indexof({json.dumps(places)}, datum.value)]"
    return alt.Axis(values=places, labelExpr=label, grid=False)
