"""How fast stacks are, what changes between them do, and how well one metric orders them like another."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal

from assay.analyse import doubts
from assay.analyse.comparison.verdict import decide, more_would_decide, runs_still_needed, surely_beyond
from assay.analyse.doubts.design import NOT_INTERLEAVED, ONE_SESSION
from assay.analyse.statistics import intervals
from assay.analyse.statistics.intervals import ROUNDING, Hidden, LogInterval, constant, ratio_end, t_quantile
from assay.analyse.statistics.rounding import hidden_by_rounding
from assay.records import Comparison, Doubt, Estimate, Point
from assay.stacks.stack import Observation
from assay.units import convert

if TYPE_CHECKING:
    import numpy as np

Pair = tuple[Observation, Observation]
"""Of one session: A's and B's values of the same metric, on the same hardware, of the same workload."""

Sides = tuple[Sequence[Observation], Sequence[Observation]]
"""The observations of A and of B."""

NEVER_TOGETHER = (
    "they were measured in different sessions, and one of them in one session only: how much a session "
    "shifts its figures is unknown"
)


@dataclass(frozen=True)
class Level:
    """Mean of a stack's values with its interval; over sessions if there are several, else over its runs."""

    estimate: Estimate
    sessions: int
    runs: int


def level(observed: Sequence[Observation]) -> Level:
    """How fast a stack is: of observations of one metric, at least one. Raises ValueError without a unit."""
    metric = observed[0].metric
    if metric is None:
        raise ValueError("a failure has no level")
    runs = _runs(observed)
    if not positive(observed):
        mean = math.fsum(value for observation in observed for _, value in observation.values) / runs
        return Level(Estimate(mean, None, None, runs, metric.unit), len(_by_session(observed)), runs)
    values = [math.exp(log) for observation in observed for log in _logs(observation, metric.unit)]
    means, rounding = session_means(observed), hidden_by_rounding(values)
    if len(means) > 1:
        interval = intervals.one_mean(means, hidden=rounding)
        return Level(interval.estimate(metric.unit), len(means), runs)
    confidence = max(observation.confidence for observation in observed)
    interval = intervals.one_mean([math.log(value) for value in values], confidence, rounding)
    return Level(interval.estimate(metric.unit, confidence), 1, runs)


def session_means(observed: Sequence[Observation], unit: str = "") -> list[float]:
    """Mean logarithm of each session's values, each session with the same weight, sorted by name."""
    return [
        math.fsum(logs) / len(logs)
        for _, session_observations in sorted(_by_session(observed).items())
        if (logs := [log for observation in session_observations for log in _logs(observation, unit)])
    ]


def within_sessions(pairs: Sequence[Pair], names: tuple[str, str], margin: float) -> Comparison:
    """B compared with A from sessions that measured both: at least one pair.

    Several pairs of a session are the same change in several surroundings, and count together once.
    """
    by_session: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_session.setdefault(session_name(pair[0]), []).append(pair)
    if len(by_session) > 1:
        means = [_pair_means(session_pairs) for _, session_pairs in sorted(by_session.items())]
        sides = _sides(pairs)
        interval = intervals.paired(means, hidden=_hidden(*sides))
        return comparison_of(sides, names, margin, interval, "paired", "sessions")
    a, b = max(pairs, key=lambda pair: len(pair[0].values) + len(pair[1].values))
    confidence, sides, unit = max(a.confidence, b.confidence), ((a,), (b,)), _unit(a)
    blocks, hidden = _blocks(a, b), _hidden((a,), (b,))
    if blocks is not None:
        interval = intervals.paired(blocks, confidence, hidden)
        return comparison_of(sides, names, margin, interval, "paired", "runs", confidence)
    interval = intervals.welch(_logs(a, unit), _logs(b, unit), confidence, hidden)
    return comparison_of(sides, names, margin, interval, "welch", "runs", confidence)


def _hidden(a: Sequence[Observation], b: Sequence[Observation]) -> Hidden:
    """What rounding hides of both; a session's mean is taken to be as coarse as one of its values."""
    unit = _unit(a[0])
    return hidden_by_rounding(
        *([math.exp(log) for observation in side for log in _logs(observation, unit)] for side in (a, b))
    )


def between_sessions(
    a: Sequence[Observation], b: Sequence[Observation], names: tuple[str, str], margin: float
) -> Comparison:
    """B compared with A from sessions that measured only one of them: an interval needs several of each."""
    unit = _unit(a[0])
    means_a, means_b = session_means(a, unit), session_means(b, unit)
    if min(len(means_a), len(means_b)) > 1:
        interval = intervals.welch(means_a, means_b, hidden=_hidden(a, b))
    else:
        centre = math.fsum(means_b) / len(means_b) - math.fsum(means_a) / len(means_a)
        interval = LogInterval(centre, None, len(means_a) + len(means_b), NEVER_TOGETHER)
    return comparison_of((a, b), names, margin, interval, "welch", "sessions")


def _sides(pairs: Sequence[Pair]) -> Sides:
    return tuple(pair[0] for pair in pairs), tuple(pair[1] for pair in pairs)


def judged(
    point: Point,
    names: tuple[str, str],
    means: tuple[float, float],
    interval: LogInterval,
    margin: float,
    *,
    method: str,
    confidence: float,
    lost: tuple[float, float],
    **more: Any,
) -> Comparison:
    """The verdict on B from the interval of its log-ratio to A.

    method  of the interval
    lost    shares of their time that the sides may have lost to others
    more    further fields, such as n
    """
    estimate = interval.estimate("", confidence)
    verdict, reason = decide(estimate, margin, point.better, lost, names)
    above = None if interval.half is None else ratio_end(interval.half)
    return Comparison(
        point=point,
        a=names[0],
        b=names[1],
        mean_a=means[0],
        mean_b=means[1],
        ratio=estimate,
        margin=margin,
        verdict=verdict,
        reason=f"{interval.why}: no interval" if interval.why else reason,
        smallest_visible=None if above is None else above - 1,
        error=interval.error,
        degrees=interval.degrees,
        by_margin=surely_beyond(estimate, margin, point.better, lost),
        lost_to_others=lost,
        method="" if interval.half is None else method,
        **more,
    )


def comparison_of(
    sides: Sides,
    names: tuple[str, str],
    margin: float,
    interval: LogInterval,
    method: Literal["paired", "welch", "linked"],
    replication: Literal["runs", "sessions"],
    confidence: float = 0.95,
    lost: tuple[float, float] | None = None,
) -> Comparison:
    """Two stacks compared by what was observed of them.

    lost  shares of their time that the sides may have lost to others; None: what their observations say
    """
    a, b = sides
    metric, workload = a[0].metric, a[0].workload
    if metric is None or workload is None:
        raise ValueError("a failure can't be compared")
    mean_a = _mean(a, metric.unit)
    ratio = interval.estimate("", confidence).value
    comparison = judged(
        Point(workload.workload, workload.shape, metric.name, metric.unit, metric.better, metric.labels),
        names,
        (mean_a, mean_a * ratio if method == "linked" else _mean(b, metric.unit)),
        interval,
        margin,
        confidence=confidence,
        lost=lost or (lost_by(a), lost_by(b)),
        n=(_runs(a), _runs(b)),
        method=method,
        doubts=_doubts(a, b, method, replication),
        replication=replication,
        sessions=(len(_by_session(a)), len(_by_session(b))),
    )
    would = more_would_decide(comparison.verdict, comparison.ratio, comparison.lost_to_others)
    if interval.error is None or not would:
        return comparison
    return replace(comparison, runs_needed=runs_still_needed(comparison, confidence))


def _doubts(
    a: Sequence[Observation], b: Sequence[Observation], method: str, replication: str
) -> tuple[Doubt, ...]:
    """Those of the observations, each once, and what the design leaves open."""
    raised = {(doubt.code, doubt.evidence): doubt for observation in (*a, *b) for doubt in observation.doubts}
    if replication == "runs":
        sessions = sorted({observation.session for observation in (*a, *b)})
        named = f"session{'s' * (len(sessions) > 1)} {', '.join(sessions)}"
        evidence = f"all runs are of {named}"
        raised[ONE_SESSION.code, evidence] = ONE_SESSION.doubt(evidence)
    apart = not all(observation.interleaved for observation in (*a, *b))
    if method == "welch" or (method == "linked" and apart):
        evidence = "the stacks did not run in the same shuffled blocks"
        raised[NOT_INTERLEAVED.code, evidence] = NOT_INTERLEAVED.doubt(evidence)
    return tuple(sorted(raised.values(), key=lambda doubt: doubts.rank(doubt.code)))


def rivals(sessions: Iterable[frozenset[str]], a: str, b: str) -> int:
    """How many stacks could have been compared with A instead of B, B included: at least 1.

    sessions  that the comparison rests on, as the stacks that each measured

    Whoever asks for B may do so because it looked best of all that a session measured, as after an
    exploration. So a verdict from these runs has to allow for as many comparisons.
    """
    return max((len(stacks | {a, b}) - 1 for stacks in sessions), default=1)


def positive(observed: Iterable[Observation]) -> bool:
    """Whether all values are above 0, so that ratios exist."""
    return all(value > 0 for observation in observed for _, value in observation.values)


def logs_by_block(observation: Observation, unit: str) -> list[tuple[int, float]]:
    """Block and logarithm of each value, in this unit."""
    return list(zip((block for block, _ in observation.values), _logs(observation, unit), strict=True))


def _blocks(a: Observation, b: Observation) -> list[tuple[float, float]] | None:
    """Logarithms of A and B in each block that has both; None if they did not run in the same blocks."""
    if not (a.interleaved and b.interleaved):
        return None
    of_a, of_b = (dict(logs_by_block(side, _unit(a))) for side in (a, b))
    both = sorted(of_a.keys() & of_b.keys())
    if len(of_a) < len(a.values) or len(of_b) < len(b.values) or not both:
        return None
    return [(of_a[block], of_b[block]) for block in both]


def _pair_means(pairs: Sequence[Pair]) -> tuple[float, float]:
    """Mean logarithms of A and B over one session's pairs; of the blocks that have both, if it has blocks."""
    means = []
    for a, b in pairs:
        unit = _unit(a)
        blocks = _blocks(a, b)
        of_a = [log for log, _ in blocks] if blocks else _logs(a, unit)
        of_b = [log for _, log in blocks] if blocks else _logs(b, unit)
        means.append((math.fsum(of_a) / len(of_a), math.fsum(of_b) / len(of_b)))
    return math.fsum(x for x, _ in means) / len(means), math.fsum(y for _, y in means) / len(means)


def _by_session(observed: Sequence[Observation]) -> dict[str, list[Observation]]:
    by_session: dict[str, list[Observation]] = {}
    for observation in observed:
        by_session.setdefault(session_name(observation), []).append(observation)
    return by_session


def session_name(observation: Observation) -> str:
    """Sessions of two parties may have the same name."""
    return f"{observation.origin} {observation.session}"


def _unit(observation: Observation) -> str:
    return "" if observation.metric is None else observation.metric.unit


def _logs(observation: Observation, unit: str) -> list[float]:
    own = _unit(observation)
    values = [value if unit in ("", own) else convert(value, own, unit) for _, value in observation.values]
    return [math.log(value) for value in values]


def _mean(observed: Sequence[Observation], unit: str) -> float:
    means = session_means(observed, unit)
    return math.exp(math.fsum(means) / len(means))


def lost_by(observed: Sequence[Observation]) -> float:
    """The mean share that the runs may have lost to others."""
    lost = math.fsum(observation.lost_to_others * len(observation.values) for observation in observed)
    return lost / _runs(observed)


def _runs(observed: Sequence[Observation]) -> int:
    return sum(len(observation.values) for observation in observed)


Cell = tuple[Hashable, Hashable, float]
"""A stack, the session or the block that shifts it, and the logarithm of its figure there."""


@dataclass(frozen=True)
class SessionFit:
    """The fit of one set of linked stacks.

    levels    stack → its level; only differences mean something
    squares   stack → the sum of the squares of what the fit leaves of its cells
    cells     stack → how many it has
    degrees   of freedom of what the fit leaves
    hidden    every stack gave the same value always: the spread is hidden by its resolution
    """

    levels: Mapping[Hashable, float]
    squares: Mapping[Hashable, float]
    cells: Mapping[Hashable, int]
    degrees: int
    hidden: bool
    _inverse: np.ndarray[Any, Any]
    _shifts: Sequence[np.ndarray[Any, Any]]

    def difference(
        self, a: Hashable, b: Hashable, confidence: float, scatter: Mapping[Hashable, float]
    ) -> LogInterval:
        """Level of B less that of A, with its t interval; no interval if nothing shows the spread.

        scatter  stack → the variance of its cells relative to that of all; 1 by default
        """
        import numpy as np

        centre, n = self.levels[b] - self.levels[a], self.cells[a] + self.cells[b]
        if self.degrees < 1:
            return LogInterval(centre, None, n, "each stack ran only once next to the others")
        if self.hidden:
            return LogInterval(centre, None, n, "all runs of each stack gave the same value")
        if math.fsum(self.squares.values()) < ROUNDING**2:
            why = "the stacks differ by the same in every session: the spread is hidden by its resolution"
            return LogInterval(centre, None, n, why)
        order = list(self.levels)
        direction = self._inverse[order.index(b)] - self._inverse[order.index(a)]
        relative = np.array([scatter.get(stack, 1.0) for stack in order])
        factor = 0.0  # of the variance of a cell, for that of the difference: a weighted sum of cells
        for rows in self._shifts:
            weights = direction[rows] - direction[rows].mean()
            factor += float(relative[rows] @ weights**2)
        error = math.sqrt(factor * math.fsum(self.squares.values()) / self.degrees)
        half = t_quantile((1 + confidence) / 2, self.degrees) * error
        return LogInterval(centre, half, n, error=error, degrees=self.degrees)


def session_fits(cells: Sequence[Cell]) -> list[SessionFit]:
    """The fit of each set of linked stacks."""
    return [_fit(linked_cells) for linked_cells in _linked(cells)]


def _fit(cells: Sequence[Cell]) -> SessionFit:
    import numpy as np

    stacks = {stack: index for index, stack in enumerate(dict.fromkeys(stack for stack, _, _ in cells))}
    by_shift: dict[Hashable, list[tuple[int, float]]] = {}
    for stack, shift, value in cells:
        by_shift.setdefault(shift, []).append((stacks[stack], value))
    shifts = [
        (np.array([row for row, _ in shift_cells]), np.array([y for _, y in shift_cells]))
        for shift_cells in by_shift.values()
    ]
    matrix, right = np.zeros((len(stacks), len(stacks))), np.zeros(len(stacks))
    for rows, values in shifts:
        np.add.at(matrix, (rows, rows), 1.0)
        np.subtract.at(matrix, np.ix_(rows, rows), 1.0 / len(rows))
        np.add.at(right, rows, values - values.mean())
    inverse = np.linalg.pinv(matrix, hermitian=True)
    levels = inverse @ right
    squares, counts = np.zeros(len(stacks)), np.zeros(len(stacks), dtype=int)
    for rows, values in shifts:
        left = values - levels[rows]
        np.add.at(squares, rows, (left - left.mean()) ** 2)
        np.add.at(counts, rows, 1)
    return SessionFit(
        levels={stack: float(levels[index]) for stack, index in stacks.items()},
        squares={stack: float(squares[index]) for stack, index in stacks.items()},
        cells={stack: int(counts[index]) for stack, index in stacks.items()},
        degrees=len(cells) - len(stacks) - len(shifts) + 1,
        hidden=float(squares.sum()) <= len(cells) * ROUNDING**2 and _all_constant(cells),
        _inverse=inverse,
        _shifts=[rows for rows, _ in shifts],
    )


def _all_constant(cells: Iterable[Cell]) -> bool:
    values: dict[Hashable, list[float]] = {}
    for stack, _, value in cells:
        values.setdefault(stack, []).append(value)
    return all(constant(stack_values) for stack_values in values.values())


def _linked(cells: Sequence[Cell]) -> Iterator[list[Cell]]:
    """The cells of each set of stacks that sessions link, directly or through others."""
    left = list(cells)
    while left:
        stacks, shifts = {left[0][0]}, {left[0][1]}
        before = 0
        while before < len(stacks) + len(shifts):
            before = len(stacks) + len(shifts)
            for stack, shift, _ in left:
                if stack in stacks or shift in shifts:
                    stacks.add(stack)
                    shifts.add(shift)
        yield [cell for cell in left if cell[0] in stacks]
        left = [cell for cell in left if cell[0] not in stacks]


_Run = tuple[str, tuple[str, int | None], float]
"""The cell of one run: its stack, its session and block, the logarithm of its value."""


@dataclass(frozen=True)
class LinkedComparison:
    """B compared with A.

    through  the stacks that link them, if no session measured both
    rivals   how many stacks could have been compared with A instead of B, B included
    """

    comparison: Comparison
    through: tuple[str, ...]
    rivals: int


class LinkedStacks:
    """Observations of one metric of one workload on one hardware class, of several stacks."""

    def __init__(self, observed: Mapping[str, Sequence[Observation]]) -> None:
        """Prepare comparisons.

        observed  stack → its observations; those with a value that is not above 0 can't be compared
        """
        self._observed = {
            name: tuple(observations)
            for name, observations in observed.items()
            if observations and positive(observations)
        }
        self._sessions = {
            name: frozenset(session_name(observation) for observation in observations)
            for name, observations in self._observed.items()
        }
        self._every_run = list(self._runs())
        by_session: dict[str, list[_Run]] = {}
        for run in self._every_run:
            by_session.setdefault(run[1][0], []).append(run)
        inside = [fit for session_runs in by_session.values() for fit in session_fits(session_runs)]
        self._scatter = _scatter(inside)
        cells = [
            (stack, session, level)
            for session, fit in enumerate(inside)
            for stack, level in fit.levels.items()
        ]
        self._by_sessions = session_fits(cells)

    def compare(self, a: str, b: str, names: tuple[str, str], margin: float) -> LinkedComparison | None:
        """B compared with A; None if either has a value that is not above 0.

        Stacks that nothing links are compared by the means of their sessions, if both have several.
        """
        if a not in self._observed or b not in self._observed:
            return None
        sides = self._observed[a], self._observed[b]
        fit = _with(self._by_sessions, a, b)
        if fit is None:
            return LinkedComparison(between_sessions(*sides, names, margin), (), self._rivals(a, b))
        through = self._through(a, b)
        replication: Literal["runs", "sessions"] = "sessions"
        confidence = 0.95
        if fit.degrees < 1:
            replication = "runs"
            confidence = max(observation.confidence for side in sides for observation in side)
            fit = _with(self._by_runs, a, b) or fit
        interval = fit.difference(a, b, confidence, self._scatter)
        lost = self._lost(a, b, through)
        comparison = comparison_of(sides, names, margin, interval, "linked", replication, confidence, lost)
        return LinkedComparison(comparison, through, self._rivals(a, b))

    @cached_property
    def _by_runs(self) -> list[SessionFit]:
        """The fits in which blocks are the unit: of no use where sessions can be."""
        return session_fits(self._every_run)

    def _runs(self) -> Iterator[_Run]:
        """Every run, shifted by its block; by its session, if not all of its stacks ran in each block."""
        every = [observation for observations in self._observed.values() for observation in observations]
        loose = {session_name(observation) for observation in every if not observation.interleaved}
        for name, observations in self._observed.items():
            unit = _unit(observations[0])
            for observation in observations:
                session = session_name(observation)
                for block, value in logs_by_block(observation, unit):
                    yield name, (session, None if session in loose else block), value

    def _through(self, a: str, b: str) -> tuple[str, ...]:
        """The stacks that share sessions with both; those that share any with one, if it takes several."""
        if self._sessions[a] & self._sessions[b]:
            return ()
        others = [name for name in self._observed if name not in (a, b)]
        common = [o for o in others if all(self._sessions[o] & self._sessions[side] for side in (a, b))]
        if not common:
            common = [o for o in others if any(self._sessions[o] & self._sessions[side] for side in (a, b))]
        return tuple(common)

    def _rivals(self, a: str, b: str) -> int:
        """By the sessions that measured both; by those of either, if none did."""
        shared = self._sessions[a] & self._sessions[b] or self._sessions[a] | self._sessions[b]
        return rivals((self._stacks[session] for session in shared), a, b)

    @cached_property
    def _stacks(self) -> dict[str, frozenset[str]]:
        """Session → the stacks that it measured."""
        stacks_of: dict[str, set[str]] = {}
        for name, sessions in self._sessions.items():
            for session in sessions:
                stacks_of.setdefault(session, set()).add(name)
        return {session: frozenset(stacks) for session, stacks in stacks_of.items()}

    def _lost(self, a: str, b: str, through: Sequence[str]) -> tuple[float, float]:
        """What both sides may have lost to others.

        A common stack that lost time next to B makes B look faster, as if A had lost it.
        """
        next_to_b, next_to_a = (
            max(
                (lost_by(seen) for name in through if (seen := self._in_sessions_of(name, side))), default=0.0
            )
            for side in (b, a)
        )
        own_a, own_b = lost_by(self._observed[a]), lost_by(self._observed[b])
        return 1 - (1 - own_a) * (1 - next_to_b), 1 - (1 - own_b) * (1 - next_to_a)

    def _in_sessions_of(self, name: str, side: str) -> list[Observation]:
        sessions = self._sessions[side]
        return [seen for seen in self._observed[name] if session_name(seen) in sessions]


def _with(fits: Sequence[SessionFit], a: str, b: str) -> SessionFit | None:
    return next((fit for fit in fits if a in fit.levels and b in fit.levels), None)


def _scatter(fits: Sequence[SessionFit]) -> dict[Hashable, float]:
    """Stack → the variance of its runs inside sessions over that of all, at least 1."""
    squares: dict[Hashable, float] = {}
    degrees: dict[Hashable, float] = {}
    for fit in fits:
        for stack, value in fit.squares.items():
            share = fit.cells[stack] / sum(fit.cells.values())
            squares[stack] = squares.get(stack, 0.0) + value
            degrees[stack] = degrees.get(stack, 0.0) + share * fit.degrees
    whole = math.fsum(squares.values()) / (math.fsum(degrees.values()) or 1.0)
    return {
        stack: max(1.0, value / degrees[stack] / whole)
        for stack, value in squares.items()
        if whole and degrees[stack]
    }


FEWEST: Final = 6  # steps that allow an interval
_VARIANCE: Final = 0.437
_SHARED: Final = 1.5  # by which steps that share versions raise the variance, at most


def rank_correlation(steps: Sequence[tuple[float, float]], confidence: float = 0.95) -> Estimate | None:
    """Kendall's correlation of steps in two figures; None of fewer than 2, no interval of fewer than 6."""
    signs = [_sign(a[0] - b[0]) * _sign(a[1] - b[1]) for a, b in itertools.combinations(steps, 2)]
    if not signs:
        return None
    n, value = len(steps), sum(signs) / len(signs)
    if n < FEWEST:
        return Estimate(value, None, None, n, "", confidence)
    most = 1 - 2 / (n * (n - 1))
    centre = math.atanh(max(-most, min(most, value)))
    half = t_quantile((1 + confidence) / 2, n - 2) * math.sqrt(_SHARED * _VARIANCE / (n - 4))
    low = -1.0 if value <= -most else math.tanh(centre - half)
    high = 1.0 if value >= most else math.tanh(centre + half)
    return Estimate(value, low, high, n, "", confidence)


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def agreement(correlation: float) -> float:
    """The chance that two steps are ordered alike.

    >>> agreement(0.8)
    0.9
    """
    return (1 + correlation) / 2
