"""Sessions compared with the runs of one session, and how well the needed number of runs is known."""

from __future__ import annotations

from collections.abc import Iterator

import methods
import numpy as np
from experiment import AT_MOST_5, FACTOR, FACTOR_OF_PAIRS, MARGIN, Experiment, Rate
from scipy.special import chdtri

from assay.analyse.statistics.power import Spread, of_pairs, of_sides, runs_needed


def sessions() -> Iterator[Experiment]:
    """No difference between the systems, although their sessions differ."""
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
    """The recommended number of runs compared with the one that the true spread requires."""
    group = "runs needed, from n runs, worst of spreads of 1, 2, 4 %"
    yield Experiment(group, "median factor error, unpaired", _factor_error(paired=False), FACTOR, factor=True)
    yield Experiment(
        group, "median factor error, paired", _factor_error(paired=True), FACTOR_OF_PAIRS, factor=True
    )
    group = "variance, the best possible estimate from n runs"
    yield Experiment(group, "median factor error, unpaired", _least_error(2), factor=True)
    yield Experiment(group, "median factor error, paired", _least_error(1), factor=True)


def _factor_error(*, paired: bool) -> Rate:
    """Error of the number that would show equivalence, relative to the one from the true spread."""

    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        worst = 1.0
        for size in (0.01, 0.02, 0.04):
            truth = runs_needed(Spread(2 * size**2, 100, paired), MARGIN).if_equal.about or 0
            estimates: list[int | None] = []
            for a, b in (size * rng.normal(size=(max(100, sets // 100), 2, n))).tolist():
                spread = of_pairs(a, b) if paired else of_sides(a, b)
                estimates.append(runs_needed(spread, MARGIN).if_equal.about)
            errors = [max(e / truth, truth / e) if e else np.inf for e in estimates]
            worst = max(worst, float(np.median(errors)))
        return worst

    return rate


def _least_error(sides: int) -> Rate:
    """Smallest possible median factor of error of any estimate of the variance; computed, not drawn.

    For normal runs, every estimate that does not depend on the unit is a multiple of the usual one, which has
    all their information on the spread. The best multiple centers on 0 the shortest interval of its logarithm
    that has half of the cases. The number of runs grows with the variance.
    """

    def rate(_rng: np.random.Generator, _sets: int, n: int) -> float:
        upper_tails = (np.arange(100_000) + 0.5) / 100_000
        logs = np.sort(np.log(chdtri(sides * (n - 1), upper_tails)))
        half = len(logs) // 2
        return float(np.exp((logs[half:] - logs[:-half]).min() / 2))

    return rate
