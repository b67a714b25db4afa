"""A metric over sessions: each session, its runs, the levels between steps, and the steps' uncertainty."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from assay.analyse.history import MetricHistory, SessionValue
from assay.view import figures
from assay.view.blocks import Chart
from assay.view.charts.chart import INK, axis_title, listed, plain, tooltip
from assay.view.sentences import history as words

_MOST_TICKS = 9
_COLORS = {"better": "var(--faster)", "worse": "var(--slower)", "level": INK}


def history(history: MetricHistory) -> Chart:
    """Sessions at equal distances, because steps are searched for by order, not by time."""
    import altair as alt

    entries = history.entries
    scale = figures.scale_of([e.value for e in entries], history.point.unit)
    per_unit, unit = scale.per_unit, scale.unit
    x = alt.X(
        "x:Q",
        title="sessions, oldest first",
        scale=alt.Scale(domain=[-0.5, len(entries) - 0.5], nice=False),
        axis=_dates(entries),
    )
    y = alt.Y("value:Q", title=axis_title(history.point.metric, unit), scale=alt.Scale(zero=False))
    color = alt.Color(
        "way:N", legend=None, scale=alt.Scale(domain=list(_COLORS), range=list(_COLORS.values()))
    )
    steps, levels = (alt.Chart(alt.NamedData(name)) for name in ("steps", "levels"))
    layers = [
        steps.mark_rect(color="var(--band)").encode(x=alt.X("first:Q"), x2="last:Q"),
        steps.mark_rect(opacity=0.22).encode(
            x=alt.X("x:Q"), x2="until:Q", y=alt.Y("low:Q"), y2="high:Q", color=color
        ),
        levels.mark_rule(strokeWidth=2).encode(x=x, x2="until:Q", y=y, y2="end:Q", color=color),
        alt.Chart(alt.NamedData("sessions"))
        .mark_point(filled=True, size=46, opacity=1, color="var(--series-1)")
        .encode(x=x, y=y, tooltip=tooltip("session", "when", "value", "runs")),
        steps.mark_text(dy=-8, fontWeight="bold", fontSize=12).encode(
            x=alt.X("middle:Q"), y=alt.value(0), text="text:N", color=color
        ),
    ]
    spec = plain(
        alt.layer(*(layers if history.steps else layers[2:4])),
        height=240,
        sessions=[_session(index, entry, per_unit) for index, entry in enumerate(entries)],
        levels=_levels(history, per_unit),
        **({"steps": _steps(history, per_unit)} if history.steps else {}),
    )
    return Chart("history", _caption(history), _describe_sessions(history), spec, wide=True)


def _caption(history: MetricHistory) -> str:
    caption = f"{words.place(history)}, {history.system}: {words.describe_sessions(history)}"
    if not history.steps:
        return caption
    return f"{caption}. Vertical bands: where a step may be (95 %); horizontal: the new level"


def _describe_sessions(history: MetricHistory) -> str:
    unit, texts = figures.column([e.value for e in history.entries], history.point.unit)
    return listed(
        (
            f"from {texts[0]} to {texts[-1]} {unit} over {len(texts)} sessions",
            *(f"{words.changed_by(step)}, {words.locate_step(history, step)}" for step in history.steps),
            words.spread(history),
        )
    )


def _session(index: int, entry: SessionValue, per_unit: float) -> dict[str, Any]:
    return {
        "x": index,
        "value": entry.value * per_unit,
        "session": entry.session,
        "when": words.describe_date(entry),
        "runs": len(entry.results),
    }


def _levels(history: MetricHistory, per_unit: float) -> list[dict[str, Any]]:
    """Each stretch between changes as a line, extended by half a session at each end; a drift as a slope."""
    edges = [0, *(step.before for step in history.steps), len(history.entries)]
    rows = []
    for (first, end), (level, _), step in zip(
        pairwise(edges), history.levels, (*history.steps, None), strict=False
    ):
        drift = step if step is not None and step.kind == "drift" else None
        until = end - 0.5 if drift is None else drift.after
        value = level * per_unit
        rows.append({"x": first - 0.5, "until": until, "value": value, "end": value, "way": "level"})
        if drift is not None:
            new = value * drift.ratio.value
            rows.append({"x": until, "until": drift.before, "value": value, "end": new, "way": "level"})
    return rows


def _steps(history: MetricHistory, per_unit: float) -> list[dict[str, Any]]:
    """Each step: its possible positions, and the interval of the level after it."""
    ends = [*(step.before for step in history.steps[1:]), len(history.entries)]
    rows = []
    for step, (old, _), end in zip(history.steps, history.levels, ends, strict=False):
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
    texts = [words.describe_date(entries[place]) for place in places]
    days = [text[:10] for text in texts]
    shown = days if len(set(days)) == len(days) else [text[5:] for text in texts]
    label = f"{json.dumps(shown)}[indexof({json.dumps(places)}, datum.value)]"
    return alt.Axis(values=places, labelExpr=label, grid=False)
