"""What people do today, if nothing differs."""

from __future__ import annotations

from collections.abc import Iterator

import methods
import numpy as np
from drawn_runs import NORMAL
from experiment import RUNS, Experiment, Rate
from methods import Ratios


def common_practice() -> Iterator[Experiment]:
    """How often three habits call a difference."""

    def one_deviation(rng: np.random.Generator, sets: int, n: int) -> float:
        return float(methods.differ_by_one_deviation(*NORMAL.draw(rng, sets, n, "back to back")).mean())

    def best(rng: np.random.Generator, sets: int, n: int) -> float:
        return float(methods.best_beats_the_mean(*NORMAL.draw(rng, sets, n, "back to back")).mean())

    group = "today, where nothing differs"
    yield Experiment(group, "means one deviation apart", one_deviation)
    yield Experiment(group, "t test after every run to n", _peeking(None))
    yield Experiment(group, "t test after every run to 20", _peeking(20))
    yield Experiment(group, "best of n against the mean", best)


def _peeking(last: int | None) -> Rate:
    def rate(rng: np.random.Generator, sets: int, n: int) -> float:
        most = n if last is None else last
        if last is not None and n != RUNS[-1]:
            return float("nan")
        a, b = NORMAL.draw(rng, sets, most, "interleaved")
        return float(_ever(methods.paired(a[:, :k], b[:, :k]) for k in range(3, most + 1)))

    return rate


def _ever(found: Iterator[Ratios]) -> float:
    hit = next(found).excludes(0.0)
    for ratios in found:
        hit = hit | ratios.excludes(0.0)
    return float(hit.mean())
