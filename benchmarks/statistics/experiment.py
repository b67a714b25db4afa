"""An experiment: a rate for each number of runs, and the target that it must meet."""

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
    "back to back": methods.in_order,
}
NAMES: dict[Design, str] = {"interleaved": "paired", "back to back": "unpaired"}
Rate = Callable[[np.random.Generator, int, int], float]  # (random, sets, runs per side) → rate


@dataclass(frozen=True)
class Target:
    """What a rate must meet, allowing for the simulation's own error, from this many runs on."""

    low: float
    high: float
    words: str
    least_runs: int = 3

    def met(self, rate: float, n: int) -> bool:
        """Whether it is met, or does not apply to so few runs."""
        return n < self.least_runs or self.low <= rate <= self.high


COVERS = Target(0.94, 0.985, "94–98.5 %")
AT_LEAST_80 = Target(0.8, 1.0, "≥ 80 % from 5", least_runs=5)
AT_LEAST_94 = Target(0.94, 1.0, "≥ 94 %")
AT_LEAST_95 = Target(0.945, 1.0, "≥ 95 %")
AT_MOST_2_5 = Target(0.0, 0.0275, "≤ 2.5 %")
AT_MOST_5 = Target(0.0, 0.055, "≤ 5 %")
FAILS = Target(0.08, 1.0, "shown failing", least_runs=5)
FACTOR = Target(1.0, 1.3, "≤ 1.3 from 10", least_runs=10)
# n pairs give n − 1 degrees of freedom for the spread, n runs per side 2(n − 1); 1.3 needs 14 of them
FACTOR_OF_PAIRS = Target(1.0, 1.3, "≤ 1.3 from 15", least_runs=15)


@dataclass(frozen=True)
class Experiment:
    """One row of the table: its subject, what is counted, and the rate for a number of runs."""

    group: str
    name: str
    rate: Rate
    target: Target | None = None
    factor: bool = False  # a factor, not a share


def in_reach(n: int) -> float:
    """A spread at which this many runs can barely show equivalence."""
    return EDGE * min(0.5, 0.15 * math.sqrt(n))
