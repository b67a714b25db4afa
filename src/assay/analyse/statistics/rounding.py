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
from statistics import stdev

from assay.analyse.statistics.intervals import Hidden, constant

_FEWEST_DIGITS, _MOST_DIGITS = 2, 10  # of the largest value that a printing step leaves
_OFF_GRID = 1e-6  # of a step: the error that a unit conversion leaves
_OFF_TICK = 0.02  # of a tick: the error of its printed digits


def step(values: Sequence[float]) -> float:
    """The step that values above 0 were printed in, in their unit.

    The largest power of ten that divides all of them; otherwise, as for a timer's ticks, their smallest
    difference; 0 if they don't differ.
    """
    differences = (b - a for a, b in pairwise(sorted(set(values))))
    return _printed(values) or min(differences, default=0.0)


def _printed(values: Sequence[float]) -> float:
    """The largest power of ten that divides all values, to two digits at least; 0 if none does."""
    top = math.floor(math.log10(max(values)))
    for power in range(top + 1 - _FEWEST_DIGITS, top - _MOST_DIGITS, -1):
        size = 10.0**power
        if 0 < size <= min(values) and all(is_multiple(value, size, _OFF_GRID) for value in values):
            return size
    return 0.0


def log_steps(*sides: Sequence[float]) -> list[float]:
    """The step of each side's values, all above 0, on the log scale at the side's mean; 0 if none shows.

    At least that of all values together: of their printed digits or, if values repeat, a larger one that all
    differences are multiples of, the tick of a timer. A side whose own values repeat may have a coarser tick
    than the other one. The times behind rates are tried, too.
    """
    together = [value for side in sides for value in side]
    printed = max(_printed(together), _tick(together))
    of_times = _tick([1 / value for value in together])
    steps = []
    for side in sides:
        center = math.exp(math.fsum(map(math.log, side)) / len(side))
        tick, of_own_times = _tick(side), _tick([1 / value for value in side])
        steps.append(max(max(printed, tick) / center, max(of_times, of_own_times) * center))
    return steps


def _tick(values: Sequence[float]) -> float:
    """The smallest difference if values repeat and all differences are its multiples; else 0."""
    distinct = sorted({float(f"{value:.{_MOST_DIGITS}g}") for value in values})
    if len(distinct) == len(values) or math.isinf(distinct[-1]):
        return 0.0
    gaps = [after - before for before, after in pairwise(distinct)]
    size = min(gaps, default=0.0)
    on_ticks = all(is_multiple(gap, size, _OFF_TICK) for gap in gaps)
    return min(size, distinct[0]) if on_ticks else 0.0


def is_multiple(value: float, size: float, error: float) -> bool:
    """Whether a value is a whole number of steps of this size, up to this share of one."""
    return abs(math.remainder(value, size)) < error * size


def unrounded(values: Sequence[float], *, falling: bool = False) -> list[float]:
    """Values above 0, with equal ones spread evenly over the step that they were printed in.

    falling  equal ones in falling order, so that the two sides of a ratio don't cancel

    A unique value is unchanged.
    """
    size = min(step(values), min(values))  # so that all stay above 0
    equal, met = Counter(values), Counter[float]()
    spread = []
    for value in values:
        share = (met[value] + 0.5) / equal[value] - 0.5
        met[value] += 1
        spread.append(value + size * (-share if falling else share))
    return spread


def hidden_by_rounding(a: Sequence[float], b: Sequence[float] = ()) -> Hidden:
    """What rounding hides of values above 0, each of which counts once.

    Values that spread over half a step or more are rounded up as often as down. Those of a side that spread
    over less may all be off in the same direction. How far off a side is that gave one value in all its runs
    is unknown: its timer's tick may exceed its printed digits.
    """
    sides = [side for side in (a, b) if side]
    steps = log_steps(*sides)
    shift = math.fsum(
        step / 2
        for values, step in zip(sides, steps, strict=True)
        if len(values) > 1 and stdev(map(math.log, values)) < step / 2
    )
    return Hidden((steps[0], steps[-1]), shift, why=_one_value(a, b))


def _one_value(a: Sequence[float], b: Sequence[float]) -> str:
    """Which side gave one value in several runs, as text; "" if none did."""
    for name, side in (("A", a), ("B", b)):
        if len(side) > 1 and constant([math.log(value) for value in side]):
            return f"all runs of {name} gave the same value: the spread is hidden by its resolution"
    return ""
