"""Values printed with few digits: what their step hides, restored as evenly as possible.

Two of three runs that print the same value differ by less than its step, not by nothing. A test that treats
them as equal finds every third run to be an outlier. docs/explanation/statistics.md has the rates with and
without this.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

_FEWEST_DIGITS, _MOST_DIGITS = 2, 10  # of the largest value that a printing step leaves
_OFF_GRID = 1e-6  # of a step: the error that a unit conversion leaves


def step(values: Sequence[float]) -> float:
    """The step that values above 0 were printed in, in their unit.

    The largest power of ten that divides all of them; otherwise, as for a timer's ticks, their smallest
    difference; 0 if they don't differ.
    """
    top = math.floor(math.log10(max(values)))
    for power in range(top + 1 - _FEWEST_DIGITS, top - _MOST_DIGITS, -1):
        size = 10.0**power
        if all(abs(value / size - round(value / size)) < _OFF_GRID for value in values):
            return size
    differences = (b - a for a, b in pairwise(sorted(set(values))))
    return min(differences, default=0.0)


def unrounded(values: Sequence[float], *, falling: bool = False) -> list[float]:
    """Values above 0, with equal ones spread evenly over the step that they were printed in.

    falling  equal ones in falling order, so that the two sides of a ratio don't cancel

    A unique value is unchanged.
    """
    size = min(step(values), min(values))  # so that all stay above 0
    equal, met = Counter(values), Counter[float]()
    found = []
    for value in values:
        share = (met[value] + 0.5) / equal[value] - 0.5
        met[value] += 1
        found.append(value + size * (-share if falling else share))
    return found
