"""A metric over sessions: where its level changed, by how much, and how certain both are.

Runs of a session share its conditions, so each session counts once, with the geometric mean of its runs.
`level_shifts` finds the changes in the logarithms of these means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean

from assay.analyse.points.groups import Group, Metrics, group
from assay.analyse.points.ratio import mean
from assay.analyse.statistics.level_shifts import LevelShift, Split, split
from assay.records import Better, Point, Result, Run

MOST_SESSIONS = 400  # the newest


@dataclass(frozen=True)
class SessionValue:
    """One session's value: the mean of its runs, in the point's unit.

    It is the geometric mean, or the arithmetic one for all sessions if any value is not above 0.

    at     when its first run was made, seconds since the epoch; if unknown, when it was imported
    dated  whether any of its runs states when it was made
    """

    session: str
    at: float
    dated: bool
    value: float
    results: tuple[Result, ...]


@dataclass(frozen=True)
class MetricHistory:
    """A metric of one system at one point over sessions, oldest first; undated ones in import order.

    steps    changes of its level, at once or gradual
    levels   of each stretch between them, and its number of sessions: the geometric mean; of a stretch that
             ends in a drift, where the drift begins
    spread   of a session about its level, as a share; None if unknown
    reason   why there are no changes, or why none could be looked for; "" if there are some
    dropped  older sessions that are not included
    """

    suite: str
    system: str
    point: Point
    entries: tuple[SessionValue, ...]
    steps: tuple[LevelShift, ...]
    levels: tuple[tuple[float, int], ...]
    spread: float | None
    reason: str
    dropped: int = 0

    @property
    def undated(self) -> tuple[str, ...]:
        """Sessions of unknown date: their place in the order is uncertain."""
        return tuple(entry.session for entry in self.entries if not entry.dated)


def histories(results: Iterable[Result], metric: str, *, metrics: Metrics) -> tuple[MetricHistory, ...]:
    """One history for each suite, system and point that has the metric."""
    by_system: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        by_system.setdefault((result.run.suite, result.run.trial.system), []).append(result)
    return tuple(
        _history(suite, system, point_group)
        for (suite, system), of_system in sorted(by_system.items())
        for key, point_group in group(of_system, metrics).items()
        if key.metric == metric
    )


def _history(suite: str, system: str, measured: Group) -> MetricHistory:
    entries = _entries(measured)
    dropped = max(len(entries) - MOST_SESSIONS, 0)
    entries = entries[dropped:]
    if min((entry.value for entry in entries), default=1) > 0:
        level_split = split([math.log(entry.value) for entry in entries])
    else:
        level_split = Split((), (), None, f"{measured.point.metric} is not above 0 in every session")
    edges = [0, *(step.before for step in level_split.steps), len(entries)]
    return MetricHistory(
        suite=suite,
        system=system,
        point=measured.point,
        entries=tuple(entries),
        steps=tuple(_directed(step, measured.point.better) for step in level_split.steps),
        levels=tuple(
            (math.exp(level), end - begin)
            for level, (begin, end) in zip(level_split.levels, pairwise(edges), strict=False)
        ),
        spread=level_split.spread,
        reason=level_split.reason,
        dropped=dropped,
    )


def _entries(measured: Group) -> list[SessionValue]:
    """Sessions by the time of their first run."""
    by_session: dict[str, list[tuple[Result, float]]] = {}
    for sample in measured.samples:
        by_session.setdefault(sample.result.run.session, []).append((sample.result, sample.value))
    kind = mean if min(measured.values, default=0) > 0 else fmean
    entries = [
        SessionValue(
            session=session,
            at=began_at([result.run for result, _ in runs]),
            dated=any(result.run.dated for result, _ in runs),
            value=kind([value for _, value in runs]),
            results=tuple(result for result, _ in runs),
        )
        for session, runs in by_session.items()
    ]
    return sorted(entries, key=lambda entry: (entry.at, entry.session))


def began_at(session: Sequence[Run]) -> float:
    """When the first of a session's runs was made, by the dated runs if there are any."""
    return min(run.made_at for run in [run for run in session if run.dated] or session)


def _directed(step: LevelShift, better: Better | None) -> LevelShift:
    """The step, with whether it is an improvement: only if its interval excludes no change."""
    if better is None or not step.certain:
        return step
    return replace(step, better=(step.ratio.value > 1) == (better == "higher"))
