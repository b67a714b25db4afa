"""Runs summarized: one side's at one point of the sweep, and what happened while single runs ran.

Phases, figures, telemetry and stalls of a run are on one time axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median_low

from assay.analyse.points.groups import Group, Key
from assay.analyse.points.ratio import one_side
from assay.errors import InputError
from assay.formats.run_timeline import RunTimeline, run_timeline
from assay.records import Estimate, Point, Result
from assay.telemetry.profile import TelemetryProfile, profile
from assay.telemetry.stalls import Stall, explained, slow_windows


@dataclass(frozen=True)
class Summary:
    """One side's runs at one point: geometric mean with its 95 % interval, and each run's value."""

    side: str
    point: Point
    estimate: Estimate
    values: tuple[float, ...]
    runs: tuple[str, ...]


def summaries_of(side: str, groups: Mapping[Key, Group]) -> list[Summary]:
    """A summary of each point at which the side has results."""
    return [
        Summary(side, g.point, one_side(g), tuple(g.values), tuple(s.result.run.id for s in g.samples))
        for g in groups.values()
        if g.samples
    ]


MOST_SIDES = 4  # of which a run is drawn
_LOG = "rank-0.log"


@dataclass(frozen=True)
class RunTime:
    """One run over its time.

    run_id    of the run; trial: the name within its session
    drawn     the run whose primary result is its side's median is drawn, the others are only searched for
              stalls
    problem   why a part of it can't be read, "" if all can
    """

    side: str
    run_id: str
    trial: str
    begin_at: float
    end_at: float
    timeline: RunTimeline
    telemetry: TelemetryProfile | None
    stalls: tuple[Stall, ...]
    drawn: bool
    problem: str = ""


def run_times(
    sides: Mapping[str, Sequence[Result]],
    summaries: Sequence[Summary],
    primary: Mapping[str, str],
    directory_of: Callable[[Result], Path],
) -> tuple[RunTime, ...]:
    """For each side its median run, and the other runs that had a stall.

    directory_of  the directory of a run's last attempt
    """
    shown = set(_median_runs(summaries, primary))
    times = []
    for side, results in list(sides.items())[:MOST_SIDES]:
        for result in results:
            if not result.counts or result.run.started_at is None or result.run.ended_at is None:
                continue
            time = _run_time(side, result, directory_of(result), drawn=result.run.id in shown)
            if time.stalls or time.problem or (time.drawn and (time.telemetry or time.timeline.phases)):
                times.append(time)
    return tuple(times)


def _median_runs(summaries: Sequence[Summary], primary: Mapping[str, str]) -> list[str]:
    """The run of each side's median, at its first point of each primary metric."""
    run_of_side: dict[str, str] = {}
    for summary in summaries:
        if primary.get(summary.point.benchmark) == summary.point.metric:
            middle = median_low(summary.values)
            run_of_side.setdefault(summary.side, summary.runs[summary.values.index(middle)])
    return list(run_of_side.values())


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
