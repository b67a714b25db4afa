"""What the spread of a comparison's values doesn't show: the step they were rounded to, drift, dependence.

Values on the grid of a coarse timer can agree although the systems differ, runs that drift shift one side
relative to the other, and runs that each resemble the previous one are worth fewer independent ones. The
interval allows for all three. For the rates with and without, see docs/explanation/statistics.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import stdev

from assay.analyse.comparison.groups import Group
from assay.analyse.comparison.sessions import deviations, sessions
from assay.analyse.comparison.succession import Succession, drifts, of_side, shift_in_one_order
from assay.analyse.statistics.intervals import Hidden, constant
from assay.analyse.statistics.rounding import log_steps

FEWEST_FOR_WORTH = 5  # runs of a side; with fewer, their correlation is next to unknown
LEAST_DEGREES = 2  # of freedom that a correlation leaves to a side


def of_values(a: Sequence[float], b: Sequence[float] = ()) -> Hidden:
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


@dataclass(frozen=True)
class Allowance:
    """What an interval of two sides allows for beyond the spread of their runs.

    step    of the values, on the log scale, if it widens the interval; else 0
    drifts  of A and of B from the first run to the last, on the log scale, where one was found
    drifted part of the shift that they cause
    """

    hidden: Hidden
    step: float = 0.0
    drifts: tuple[float, float] = (0.0, 0.0)
    drifted: float = 0.0


def of_groups(a: Group, b: Group, *, by_session: bool, paired: bool) -> Allowance:
    """What two sides hide whose values are all above 0.

    by_session  the means of sessions count, not runs
    paired      the sides ran together, so that drift and dependence affect both alike
    """
    rounded = of_values(a.values, b.values)
    if by_session:
        of_a, of_b = rounded.steps
        rounded = replace(rounded, steps=(_of_means(a, of_a), _of_means(b, of_b)))
    if paired or by_session:
        return Allowance(rounded)
    sides = of_side("A", a.samples), of_side("B", b.samples)
    found = {succession.name: change for succession, change, *_ in drifts(sides)}
    drift = found.get("A", 0.0), found.get("B", 0.0)
    drifted = 0.0
    if any(drift):
        interleaved = shift_in_one_order(a.samples, b.samples)
        drifted = max(map(abs, drift)) if interleaved is None else interleaved
    unseen = replace(rounded, shift=rounded.shift + drifted, worth=worth(sides))
    return Allowance(unseen, drifts=drift, drifted=drifted)


def _of_means(group: Group, step: float) -> float:
    """The step of a session's mean: a fraction if its runs spread over the step, else a whole one."""
    counts = len(sessions(group.samples))
    off = deviations(group.samples, [math.log(value) for value in group.values])
    within = math.sqrt(math.fsum(x * x for x in off) / max(len(off) - counts, 1))
    return step / math.sqrt(len(off) / counts) if within >= step / 2 else step


def worth(sides: Sequence[Succession]) -> float:
    """The share of the runs that count as independent, by the correlation of each with the next one.

    (1 − r) / (1 + r) for the correlation r over both sides, corrected for its bias in few runs; 1 if the
    order is unknown. Sources: Bartlett, JRSS 8 (1946) 27-41; Kendall, Biometrika 41 (1954) 403-404.
    """
    rows = [row for side in sides for row in side.by_session]
    runs = [len(side.logs) for side in sides]
    if not all(side.ordered for side in sides) or min(runs) < FEWEST_FOR_WORTH:
        return 1.0
    centred = [[x - math.fsum(row) / len(row) for x in row] for row in rows]
    squares = math.fsum(x * x for row in centred for x in row)
    if squares == 0:
        return 1.0
    r = math.fsum(x * y for row in centred for x, y in pairwise(row)) / squares
    r = min(max(r + (1 + 3 * r) * len(rows) / sum(runs), 0.0), 0.95)
    return max((1 - r) / (1 + r), LEAST_DEGREES / (min(runs) - 1))
