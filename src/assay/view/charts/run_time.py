"""Single runs over their time: phases, figures, what nodes and GPUs did, and stalls, as panels and tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from assay.errors import InputError
from assay.formats.run_timeline import RunTimeline, run_timeline
from assay.records import Result
from assay.telemetry.profile import profile
from assay.telemetry.stalls import explained, slow_windows
from assay.units import counted, human_seconds, significant
from assay.view import figures
from assay.view.blocks import Chart, Table, TableBody, TableRow
from assay.view.charts.chart import INK, axis_title, listed, plain, tooltip
from assay.view.contents import RunTime

MOST_LINES = 16  # in one panel: GPUs of a large job
_FIGURES = ("throughput", "loss", "step_time", "accuracy", "eval_accuracy")
_PHASES = ("start", "run", "training", "epoch", "evaluation", "checkpoint")
_LEFT = 86  # pixels for an axis, so that all panels begin at the same place
_HEIGHT = 84
MOST_SIDES = 4  # of which a run is drawn
_LOG = "rank-0.log"


def run_times(
    sides: Mapping[str, Sequence[Result]], shown: Collection[str], directory_of: Callable[[Result], Path]
) -> tuple[RunTime, ...]:
    """For each side its median run, and the other runs that had a stall.

    shown         the runs that are drawn
    directory_of  the directory of a run's last attempt
    """
    times = []
    for side, results in list(sides.items())[:MOST_SIDES]:
        for result in results:
            if not result.counts or result.run.started_at is None or result.run.ended_at is None:
                continue
            time = _run_time(side, result, directory_of(result), drawn=result.run.id in shown)
            if time.stalls or time.problem or (time.drawn and (time.telemetry or time.timeline.phases)):
                times.append(time)
    return tuple(times)


def _run_time(side: str, result: Result, directory: Path, *, drawn: bool) -> RunTime:
    run = result.run
    timeline, telemetry, stalls = RunTimeline((), {}), None, []
    problem = ""
    try:
        log = directory / "logs" / _LOG
        timeline = run_timeline(log) if log.is_file() else timeline
        stalls = slow_windows(timeline.curves.get("throughput", ()))
        telemetry = profile(directory, run.ended_at) if drawn else None
        stalls = explained(stalls, directory)
    except InputError as error:
        problem = str(error)
    return RunTime(
        side,
        run.id,
        run.trial.id,
        run.started_at or 0.0,
        run.ended_at or 0.0,
        timeline,
        telemetry,
        tuple(stalls),
        drawn,
        problem,
    )


def run_panels(time: RunTime) -> list[Chart]:
    """The panels of a run, from top to bottom; empty if it is not drawn."""
    if not time.drawn:
        return []
    name = f"{time.side}, {time.trial}"
    charts = [_phases(time, name)] if time.timeline.phases else []
    for figure in _FIGURES:
        if figure in time.timeline.curves:
            points = [(moment - time.begin_at, value) for moment, value in time.timeline.curves[figure]]
            charts.append(_panel(time, name, figure, "", [("", points)], dots=True))
    if time.telemetry is not None:
        offset_s = time.telemetry.begin_at - time.begin_at
        for panel in time.telemetry.panels:
            lines = [
                (line.name, [(x + offset_s, y) for x, y in line.points])
                for line in panel.lines
                if len(line.points) > 1  # one sample of a short run is no line
            ]
            if lines:
                charts.append(
                    _panel(time, name, panel.title, panel.unit, lines[:MOST_LINES], cut=_cut(len(lines)))
                )
    return charts


def _cut(lines: int) -> str:
    return f", the first {MOST_LINES} of {counted(lines, 'line')}" if lines > MOST_LINES else ""


def _x(time: RunTime, title: str | None) -> Any:
    import altair as alt

    scale = alt.Scale(domain=[0, max(time.end_at - time.begin_at, 1e-3)], nice=False, clamp=True)
    return alt.X("x:Q", title=title, scale=scale)


def _phases(time: RunTime, name: str) -> Chart:
    import altair as alt

    duration_s = time.end_at - time.begin_at
    rows = []
    for phase in time.timeline.phases:
        begin_s = phase.begin_at - time.begin_at
        end_s = duration_s if phase.end_at is None else phase.end_at - time.begin_at
        took = "not ended" if phase.end_at is None else human_seconds(end_s - begin_s)
        rows.append({"phase": phase.name, "x": begin_s, "end": end_s, "took": took})
    present = [phase for phase in _PHASES if any(row["phase"] == phase for row in rows)]
    chart = (
        alt.Chart(alt.NamedData("rows"))
        .mark_bar(height=10, stroke="var(--paper)", strokeWidth=0.6, color="var(--series-2)")
        .encode(
            x=_x(time, None),
            x2="end:Q",
            y=alt.Y("phase:N", sort=present, title=None, axis=alt.Axis(minExtent=_LEFT, labelLimit=_LEFT)),
            tooltip=[alt.Tooltip(f"{field}:N") for field in ("phase", "took")],
        )
    )
    spec = plain(_shaded(time, chart), rows=rows, height=18 * len(present), stalls=_stall_rows(time))
    summary = listed(
        f"{phase}: {counted(sum(row['phase'] == phase for row in rows), 'time')}" for phase in present
    )
    return Chart(
        "run time", f"Phases of {name}; seconds since its start{_shading(time)}", summary, spec, wide=True
    )


def _panel(
    time: RunTime,
    name: str,
    title: str,
    unit: str,
    lines: Sequence[tuple[str, Sequence[tuple[float, float]]]],
    *,
    dots: bool = False,
    cut: str = "",
) -> Chart:
    import altair as alt

    scale = figures.scale_of([y for _, points in lines for _, y in points], unit)
    rows = [{"line": line, "x": x, "value": y * scale.per_unit} for line, points in lines for x, y in points]
    several = len(lines) > 1
    names = [line for line, _ in lines]
    colors = [f"var(--series-{index % 6 + 1})" for index in range(len(names))]
    color = (
        alt.Color(
            "line:N",
            scale=alt.Scale(domain=names, range=colors),
            legend=alt.Legend(symbolOpacity=1, columns=min(len(names), 8)),
        )
        if several
        else alt.value(INK)
    )
    mark = alt.Chart(alt.NamedData("rows")).mark_line(
        strokeWidth=1.3, point={"filled": True, "size": 12} if dots else False
    )
    chart = mark.encode(
        x=_x(time, "seconds since the start"),
        y=alt.Y("value:Q", title=scale.unit or None, axis=alt.Axis(minExtent=_LEFT, tickCount=3)),
        color=color,
        tooltip=tooltip(*(["line"] if several else []), "x", "value"),
    )
    spec = plain(_shaded(time, chart), rows=rows, height=_HEIGHT, stalls=_stall_rows(time))
    caption = f"{axis_title(title, scale.unit)}: {name}{cut}"
    return Chart(
        "run time", caption, listed(_describe_lines(lines, scale.per_unit, scale.unit)), spec, wide=True
    )


def _shaded(time: RunTime, chart: Any) -> Any:
    """The chart above the stalls, if there are any."""
    import altair as alt

    if not time.stalls:
        return chart
    shade = (
        alt.Chart(alt.NamedData("stalls"))
        .mark_rect(color="var(--fails)", opacity=0.18)
        .encode(
            x=_x(time, None),
            x2="end:Q",
            tooltip=[alt.Tooltip(f"{field}:N") for field in ("stall", "cause", "evidence")],
        )
    )
    return shade + chart


def _stall_rows(time: RunTime) -> list[dict[str, Any]]:
    return [
        {
            "x": stall.begin_at - time.begin_at,
            "end": stall.end_at - time.begin_at,
            "stall": f"{human_seconds(stall.lost_s)} lost",
            "cause": stall.cause or "unknown",
            "evidence": stall.evidence or "nothing in the telemetry shows a cause",
        }
        for stall in time.stalls
    ]


def _shading(time: RunTime) -> str:
    return "; stalls are shaded" if time.stalls else ""


def _describe_lines(
    lines: Sequence[tuple[str, Sequence[tuple[float, float]]]], per_unit: float, unit: str
) -> Iterator[str]:
    for line, points in lines:
        values = [y * per_unit for _, y in points]
        if values:
            ends = f"{significant(min(values), 3)} to {significant(max(values), 3)} {unit}".rstrip()
            yield f"{line}: {ends}" if line else ends


MOST_ROWS = 40  # of one table
UNEXPLAINED = "unknown"


def run_time_tables(times: Sequence[RunTime]) -> tuple[Table, ...]:
    """The stalls with their likely causes, and what is missing or happened in the telemetry."""
    sections = (
        ("Stalls", ("system", "run", "at", "lost", "likely cause", "evidence"), [*_rows_of_stalls(times)]),
        ("Events and gaps in the telemetry", ("system", "run", "at", "what"), [*_rows_of_events(times)]),
    )
    return tuple(
        Table(
            _title(title, rows),
            columns,
            (TableBody("", tuple(rows[:MOST_ROWS])),),
            frozenset(range(len(columns))),
        )
        for title, columns, rows in sections
        if rows
    )


def _title(title: str, rows: Sequence[TableRow]) -> str:
    return title if len(rows) <= MOST_ROWS else f"{title}, the first {MOST_ROWS} of {len(rows)}"


def _rows_of_stalls(times: Sequence[RunTime]) -> Iterator[TableRow]:
    for time in times:
        for stall in time.stalls:
            yield TableRow(
                (
                    time.side,
                    time.trial,
                    human_seconds(stall.begin_at - time.begin_at),
                    human_seconds(stall.lost_s),
                    stall.cause or UNEXPLAINED,
                    stall.evidence or "nothing in the telemetry shows a cause",
                )
            )


def _rows_of_events(times: Sequence[RunTime]) -> Iterator[TableRow]:
    for time in times:
        if time.problem:
            yield TableRow((time.side, time.trial, "", time.problem))
        if time.telemetry is None:
            continue
        for moment, node, event in time.telemetry.events:
            place = f"node {node}" if event.gpu is None else f"node {node}, GPU {event.gpu}"
            yield TableRow(
                (time.side, time.trial, human_seconds(moment - time.begin_at), f"{place}: {event.words}")
            )
        for gap in time.telemetry.gaps:
            place = f"node {gap.node}" if gap.gpu is None else f"node {gap.node}, GPU {gap.gpu}"
            missing = human_seconds(gap.end_at - gap.begin_at)
            begin = human_seconds(gap.begin_at - time.begin_at)
            yield TableRow((time.side, time.trial, begin, f"{place}: no sample for {missing}"))
