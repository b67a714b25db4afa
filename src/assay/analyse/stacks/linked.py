"""Stacks compared by all sessions that link them: directly, or through stacks that both share sessions with.

Each session gives one figure of each of its stacks, with the shifts of its blocks taken out, and the sessions
are the unit of replication (`session_fit.py`). Where no stack ran in a second session that links it to the
others, nothing shows how sessions differ: then the blocks are the unit, and the claim is about these sessions
only. Which of these it is depends on how the stacks were measured, never on the figures.

For what simulation found about these intervals, see tests/analyse/stacks/test_linked.py.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from assay.analyse.stacks.effects import (
    between_sessions,
    comparison_of,
    logs_by_block,
    lost_by,
    positive,
    rivals,
    session_name,
)
from assay.analyse.stacks.session_fit import SessionFit, session_fits
from assay.records import Comparison, Observation

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
        inside = [fit for session_runs in _by_session(self._every_run) for fit in session_fits(session_runs)]
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
            replication, confidence = (
                "runs",
                max(observation.confidence for side in sides for observation in side),
            )
            fit = _with(self._by_runs, a, b) or fit
        interval = fit.difference(a, b, confidence, self._scatter)
        return LinkedComparison(
            comparison_of(
                sides, names, margin, interval, "linked", replication, confidence, self._lost(a, b, through)
            ),
            through,
            self._rivals(a, b),
        )

    @cached_property
    def _by_runs(self) -> list[SessionFit]:
        """The fits in which blocks are the unit: of no use where sessions can be."""
        return session_fits(self._every_run)

    def _runs(self) -> Iterator[_Run]:
        """Every run, shifted by its block; by its session, if not all of its stacks ran in each block."""
        every = [observation for observations in self._observed.values() for observation in observations]
        loose = {session_name(observation) for observation in every if not observation.interleaved}
        for name, observations in self._observed.items():
            unit = observations[0].metric.unit if observations[0].metric is not None else ""
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
        next_to = [
            max(
                (
                    lost_by(observations)
                    for name in through
                    if (observations := self._in_sessions_of(name, side))
                ),
                default=0.0,
            )
            for side in (b, a)
        ]
        own = lost_by(self._observed[a]), lost_by(self._observed[b])
        return 1 - (1 - own[0]) * (1 - next_to[0]), 1 - (1 - own[1]) * (1 - next_to[1])

    def _in_sessions_of(self, name: str, side: str) -> list[Observation]:
        return [
            observation
            for observation in self._observed[name]
            if session_name(observation) in self._sessions[side]
        ]


def _with(fits: Sequence[SessionFit], a: str, b: str) -> SessionFit | None:
    return next((fit for fit in fits if a in fit.levels and b in fit.levels), None)


def _by_session(runs: Sequence[_Run]) -> Iterator[list[_Run]]:
    runs_by_session: dict[str, list[_Run]] = {}
    for run in runs:
        runs_by_session.setdefault(run[1][0], []).append(run)
    yield from runs_by_session.values()


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
