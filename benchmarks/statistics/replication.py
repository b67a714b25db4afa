"""Sessions against the runs of one session, and how well the number of runs needed is known."""

from __future__ import annotations

from collections.abc import Iterator

import methods
import numpy as np
from experiment import AT_MOST_5, FACTOR, FACTOR_OF_PAIRS, MARGIN, Experiment, Rate

from assay.analyse.power import Spread, of_pairs, of_sides, runs_needed


def sessions() -> Iterator[Experiment]:
    """No difference between the systems, though their sessions differ."""
    group = "spread 0.05 % within a session, 0.5 % between"
    yield Experiment(group, "false: n runs of one session", _session_luck(by_session=False))
    yield Experiment(group, "false: n sessions of 4 runs", _session_luck(by_session=True), AT_MOST_5)


def _session_luck(*, by_session: bool) -> Rate:
    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        sessions, runs = (n, 4) if by_session else (1, n)
        sides = [
            0.005 * rng.normal(size=(sets, sessions, 1)) + 0.0005 * rng.normal(size=(sets, sessions, runs))
            for _ in range(2)
        ]
        a, b = (side.mean(-1) if by_session else side[:, 0] for side in sides)
        return float(methods.welch(a, b).excludes(0.0).mean())

    return rate


def needed() -> Iterator[Experiment]:
    """The number of runs named against the one that the true spread asks for."""
    group = "runs needed, from n runs at a spread of 2 %"
    yield Experiment(group, "median factor error, unpaired", _factor_error(paired=False), FACTOR, factor=True)
    yield Experiment(
        group, "median factor error, paired", _factor_error(paired=True), FACTOR_OF_PAIRS, factor=True
    )


def _factor_error(*, paired: bool) -> Rate:
    """Of the number that would show equivalence, against the one from the true spread."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        truth = runs_needed(Spread(2 * 0.02**2, 100, paired), MARGIN).if_equal.about or 0
        estimates: list[int | None] = []
        for a, b in (0.02 * rng.normal(size=(max(100, sets // 100), 2, n))).tolist():
            spread = of_pairs(a, b) if paired else of_sides(a, b)
            estimates.append(runs_needed(spread, MARGIN).if_equal.about)
        errors = [max(e / truth, truth / e) if e else np.inf for e in estimates]
        return float(np.median(errors))

    return rate
