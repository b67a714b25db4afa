"""What an experiment is: a rate for each number of runs, and what it has to meet."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import methods
import numpy as np
from drawn_runs import Design, Floats
from methods import Ratios

MARGIN = 0.02
EDGE = float(np.log1p(MARGIN))
TWICE = float(np.log1p(2 * MARGIN))
RUNS = (3, 5, 10, 40)
BY_METHOD: dict[Design, Callable[[Floats, Floats], Ratios]] = {
    "interleaved": methods.paired,
    "back to back": methods.welch,
}
NAMES: dict[Design, str] = {"interleaved": "paired", "back to back": "unpaired"}
Rate = Callable[[np.random.Generator, int, int], float]  # (random, sets, runs a side) → rate


@dataclass(frozen=True)
class Target:
    """What a rate has to meet, the simulation's own error allowed for, from so many runs on."""

    low: float
    high: float
    words: str
    least_runs: int = 3

    def met(self, rate: float, n: int) -> bool:
        """Whether it is met, or not asked for at so few runs."""
        return n < self.least_runs or self.low <= rate <= self.high


COVERS = Target(0.94, 0.985, "94–98.5 %")
AT_LEAST_94 = Target(0.94, 1.0, "≥ 94 %")
AT_LEAST_95 = Target(0.945, 1.0, "≥ 95 %")
AT_MOST_5 = Target(0.0, 0.055, "≤ 5 %")
FAILS = Target(0.08, 1.0, "shown failing", least_runs=5)
FACTOR = Target(1.0, 1.3, "≤ 1.3 from 10", least_runs=10)
# n pairs know the spread with n − 1 degrees of freedom, n runs a side with 2(n − 1); 1.3 takes 14 of them
FACTOR_OF_PAIRS = Target(1.0, 1.3, "≤ 1.3 from 15", least_runs=15)


@dataclass(frozen=True)
class Experiment:
    """One row of the table: what it is about, what is counted, and the rate for a number of runs."""

    group: str
    name: str
    rate: Rate
    target: Target | None = None
    factor: bool = False  # a factor and no share


def in_reach(n: int) -> float:
    """A spread at which so many runs can just show equivalence."""
    return EDGE * min(0.5, 0.15 * math.sqrt(n))
