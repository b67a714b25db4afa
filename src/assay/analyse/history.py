"""A metric over sessions: where it stepped, by how much, and how certain both are.

Runs of a session share its conditions, so each session counts once, with the geometric mean of its runs. The
logarithms of these means are split into stretches of constant mean: least squares over all ways to split,
found by dynamic programming, with a penalty per step. The penalty is set by simulation so that a history
without a step shows one in 5 % of cases, whatever its length.

Sources: Auger and Lawrence, Bulletin of Mathematical Biology 51 (1989) 39-54, for the search; Hansen,
Econometrica 68 (2000) 575-603, for the set of possible places of a step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import TYPE_CHECKING

from assay.analyse.comparison.groups import Group, Metrics, group
from assay.analyse.statistics.intervals import ROUNDING, ratio_end, t_quantile
from assay.analyse.statistics.ratio import mean
from assay.records import Better, Estimate, Point, Result, Run
from assay.units import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FALSE_ALARM = 0.05  # share of histories without a step that show one; independent normal session means
FEWEST_SESSIONS = 6
MOST_SESSIONS = 400  # the newest; the penalty is tabulated up to this number
SHORTEST_STRETCH = 2  # sessions: a single outlier is not a step
MOST_STEPS = 8

# Sessions → penalty of a step, in units of n·ln(residual sum of squares), interpolated by the logarithm of n.
# benchmarks/history.py generates the table.
_PRICES = {6: 9.6, 20: 9.4, 50: 9.7, 100: 10.0, 200: 10.5, 400: 11.1}
# Nominal confidence of a step's size: stretches chosen for being far apart look quieter than they are.
_SIZE_CONFIDENCE = 0.975
_PLACE = 7.35  # in the same unit: 95 % for the place of a step (Hansen 2000, table 1)


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
class LevelShift:
    """A change of level between two adjacent sessions.

    after, before    indices of the last entry of the old level and of the first of the new one: most likely
    earliest, latest bounds of the first entry of the new level (95 %)
    ratio            new level relative to the old one; its interval covers all these places together
    better           whether the change is an improvement; None if the metric has no direction
    """

    after: int
    before: int
    earliest: int
    latest: int
    ratio: Estimate
    better: bool | None


@dataclass(frozen=True)
class History:
    """A metric of one system at one point over sessions, oldest first; undated ones in import order.

    levels   geometric mean of each stretch between steps, and its number of sessions
    spread   from a session to the next within a stretch, as a share; None if unknown
    reason   why there are no steps, or why none could be looked for; "" if there are steps
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


def histories(results: Iterable[Result], metric: str, *, metrics: Metrics) -> tuple[History, ...]:
    """One history for each suite, system and point that has the metric."""
    by_system: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        by_system.setdefault((result.run.suite, result.run.trial.system), []).append(result)
    return tuple(
        _history(suite, system, found)
        for (suite, system), of_system in sorted(by_system.items())
        for key, found in group(of_system, metrics).items()
        if key.metric == metric
    )


def _history(suite: str, system: str, found: Group) -> History:
    entries = _entries(found)
    dropped = max(len(entries) - MOST_SESSIONS, 0)
    entries = entries[dropped:]
    logs = [math.log(entry.value) for entry in entries if entry.value > 0]
    if len(logs) < len(entries):
        made = Split((), None, f"{found.point.metric} is not above 0 in every session")
        logs = []
    else:
        made = split(logs)
    edges = [0, *(step.before for step in made.steps), len(entries)]
    levels = [(logs[a:b], b - a) for a, b in pairwise(edges)] if logs else []
    return History(
        suite=suite,
        system=system,
        point=found.point,
        entries=tuple(entries),
        steps=tuple(_directed(step, found.point.better) for step in made.steps),
        levels=tuple((math.exp(math.fsum(part) / count), count) for part, count in levels),
        spread=made.spread,
        reason=made.reason,
        dropped=dropped,
    )


def _entries(found: Group) -> list[SessionValue]:
    """Sessions by the time of their first run."""
    by_session: dict[str, list[tuple[Result, float]]] = {}
    for sample in found.samples:
        by_session.setdefault(sample.result.run.session, []).append((sample.result, sample.value))
    kind = mean if min(found.values, default=0) > 0 else fmean
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
    return step if better is None else replace(step, better=(step.ratio.value > 1) == (better == "higher"))


@dataclass(frozen=True)
class Split:
    """Steps in a series of logarithms; `spread` and `reason` as in `History`."""

    steps: tuple[LevelShift, ...]
    spread: float | None
    reason: str


def split(logs: Sequence[float]) -> Split:
    """Where the mean of these values steps, oldest first; `LevelShift.better` is left open.

    False alarms, simulated: 5 % of histories of independent normal values without a step, and the same share
    of those with a true step shows an extra one. With heavy tails (Student's t with 3 degrees of freedom): 4
    % with 6 sessions, 8 % with 20, 12 % with 40 and 31 % with 100. If each session resembles the previous one
    (correlation 0.5): 15 % with 6 and 42 % with 20, because a wandering level is reported as steps. A step of
    3 spreads is found in 65 % of cases with 8 sessions, 88 % with 12 and 97 % with 20; the intervals of place
    and size then contain the true values in 94 to 99 %.
    """
    n = len(logs)
    if n < FEWEST_SESSIONS:
        return Split((), None, f"{counted(n, 'session')}; steps can be detected from {FEWEST_SESSIONS} on")
    if max(logs) - min(logs) < ROUNDING:
        return Split((), None, "all sessions have the same value")
    costs = _costs(logs)
    firsts = _best(costs, _price(n))
    rss = _rss(costs, firsts)
    variance = rss / (n - len(firsts) - 1)
    steps = tuple(_step(costs, logs, firsts, at, variance) for at in range(len(firsts)))
    reason = "" if steps else f"no step (false alarms occur in {100 * FALSE_ALARM:.0f} % of histories)"
    return Split(steps, math.expm1(math.sqrt(variance)), reason)


def _price(n: int) -> float:
    import numpy as np

    return float(np.interp(math.log(n), [math.log(at) for at in _PRICES], list(_PRICES.values())))


def most_steps(n: int) -> int:
    """The maximum number of steps in a history of n sessions."""
    return min(MOST_STEPS, n // 4)


def _costs(logs: Sequence[float]) -> NDArray[np.float64]:
    """Residual sum of squares of each stretch [i, j) about its mean, as `costs[i, j]`; j > i."""
    import numpy as np

    x = np.asarray(logs, dtype=np.float64) - math.fsum(logs) / len(logs)
    sums, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (x, x * x))
    length = np.arange(len(x) + 1)[None, :] - np.arange(len(x) + 1)[:, None]
    totals = sums[None, :] - sums[:, None]
    found: NDArray[np.float64] = np.maximum(
        squares[None, :] - squares[:, None] - totals**2 / np.maximum(length, 1), 0.0
    )
    return found


def _best(costs: NDArray[np.float64], price: float) -> list[int]:
    """First index of each new level, for the split that minimizes n·ln(RSS) + penalty · steps."""
    import numpy as np

    n = len(costs) - 1
    most, least = most_steps(n), SHORTEST_STRETCH
    best = np.full((most + 1, n + 1), np.inf)
    chosen = np.zeros((most + 1, n + 1), dtype=np.int64)
    best[0, least:] = costs[0, least:]
    for steps in range(1, most + 1):
        for end in range(least * (steps + 1), n + 1):
            totals = best[steps - 1, : end - least + 1] + costs[: end - least + 1, end]
            chosen[steps, end] = int(np.argmin(totals))
            best[steps, end] = totals[chosen[steps, end]]
    floor = n * ROUNDING**2  # for values without any noise, the residual is rounding error
    weighed = [n * math.log(max(float(best[k, n]), floor)) + price * k for k in range(most + 1)]
    found, end = [], n
    for steps in range(weighed.index(min(weighed)), 0, -1):
        end = int(chosen[steps, end])
        found.append(end)
    return found[::-1]


def _rss(costs: NDArray[np.float64], firsts: Sequence[int]) -> float:
    edges = [0, *firsts, len(costs) - 1]
    return math.fsum(float(costs[a, b]) for a, b in pairwise(edges))


def _step(
    costs: NDArray[np.float64], logs: Sequence[float], firsts: Sequence[int], at: int, variance: float
) -> LevelShift:
    """One of the steps, with the others fixed."""
    n = len(logs)
    edges = [0, *firsts, n]
    left, first, right = edges[at : at + 3]
    others = _rss(costs, firsts) - float(costs[left, first] + costs[first, right])
    floor = n * ROUNDING**2
    least = max(others + float(costs[left, first] + costs[first, right]), floor)
    places = [
        place
        for place in range(left + 1, right)
        if n * math.log(max(others + float(costs[left, place] + costs[place, right]), floor) / least)
        <= _PLACE
    ]
    reach = t_quantile((1 + _SIZE_CONFIDENCE) / 2, n - len(firsts) - 1) * math.sqrt(variance)
    lows, highs = zip(*(_span(logs, left, place, right, reach) for place in places), strict=True)
    jump = _mean(logs[first:right]) - _mean(logs[left:first])
    ratio = Estimate(math.exp(jump), ratio_end(min(lows)), ratio_end(max(highs)), right - left, "")
    return LevelShift(first - 1, first, min(places), max(places), ratio, None)


def _span(logs: Sequence[float], left: int, place: int, right: int, reach: float) -> tuple[float, float]:
    jump = _mean(logs[place:right]) - _mean(logs[left:place])
    half = reach * math.sqrt(1 / (place - left) + 1 / (right - place))
    return jump - half, jump + half


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
