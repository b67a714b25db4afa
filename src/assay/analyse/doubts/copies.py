"""Doubts about figures that can hardly be what two sides measured: copies, other units, shares of a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise

from assay.analyse.doubts.case import Case, CaseDoubtKind, Side, percent
from assay.analyse.statistics.ratio import mean
from assay.records import Shape
from assay.units import factor, significant

BY_CHANCE = 1e-5  # figures measured apart that agree as often as these are rarer than this
COARSE = 5e-4  # of a figure: a millisecond in two seconds
_WHOLE = {"%": 100.0, "percent": 100.0, "pct": 100.0, "fraction": 1.0, "ratio": 1.0, "share": 1.0}
"""Units of shares, in lower case, and what the whole is in each."""
_DIGITS = 12  # a conversion of units leaves its rounding behind these


def copied_values(case: Case) -> str | None:
    """Times or rates of which so many are the same to their last digit that they were not all measured."""
    if not _is_time_or_rate(case.sides[0].group.point.unit):
        return None
    for side in case.sides:
        if found := _repeated(side.group.values):
            return _agreeing(f"{len(side.group.values)} runs of {side.name}", found)
    if len(case.sides) < 2:
        return None
    a, b = case.sides
    if found := _repeated([*a.group.values, *b.group.values]):
        whole = len(a.group.values) + len(b.group.values)
        return _agreeing(f"{whole} runs of {a.name} and {b.name} together", found)
    return None


COPIED_VALUES = CaseDoubtKind(
    code="copied-values",
    subject="sides",
    severity="invalid",
    means=(
        "Of the times or rates of one side, or of both together, at most half are distinct, so few "
        "that runs measured apart would agree like that in fewer than 1 of 100,000 cases."
    ),
    effect=(
        "A side compared with itself is as fast, whatever the systems are, and a run that counts twice "
        "makes the interval too narrow."
    ),
    remedy="Look for files or rows that were copied or taken in twice, and count each run once.",
    rates=(
        "The chance is a bound for values spread evenly over the steps of their resolution, or of a timer "
        "that they are all multiples of. Of the 202 sets of MLPerf Training v4.0 it is raised in the two "
        "that hold every run twice."
    ),
    evidence=copied_values,
)


def _agreeing(runs: str, distinct: int) -> str:
    return f"the {runs} hold {distinct} different values, equal to their last digit"


def _repeated(values: Sequence[float]) -> int:
    """How many distinct values there are, where that is at most half and too few for chance; else 0.

    Bound on n values that fall evenly on k steps of their resolution and meet only d of them:
    C(n, d) (d / k)^(n − d). One value alone is a figure without spread, not a copy.
    """
    exact = [float(f"{value:.{_DIGITS}g}") for value in values]
    n, distinct = len(exact), sorted(set(exact))
    d = len(distinct)
    if not 1 < d <= n / 2:
        return 0
    steps = (distinct[-1] - distinct[0]) / max(_decimal_place(distinct), _grid(distinct))
    chance = math.comb(n, d) * (d / steps) ** (n - d) if steps > d else 1.0
    return d if chance < BY_CHANCE else 0


def _decimal_place(values: Sequence[float]) -> float:
    """The one that all of them are written to."""
    places = (Decimal(repr(value)).normalize().as_tuple().exponent for value in values if value)
    return float(10.0 ** min((place for place in places if isinstance(place, int)), default=0))


def _grid(distinct: Sequence[float]) -> float:
    """The step of a timer or of evaluations that all values are multiples apart by; 0 where they are not.

    A rate from a coarse timer has many decimals all the same. Two values show no grid: then a coarse one.
    """
    if len(distinct) == 2:
        return COARSE * abs(distinct[1])
    gaps = [after - before for before, after in pairwise(distinct)]
    step = min(gaps)
    return step if all(abs(gap / step - round(gap / step)) < 0.02 for gap in gaps) else 0.0


def suspect_unit(case: Case) -> str | None:
    """Means about a thousand, a million or a billion times apart at one size: one may lack a prefix."""
    if len(case.sides) < 2 or not _equally_many(case.sides) or not case.estimate.value > 0:
        return None
    apart = math.log10(case.estimate.value) / 3
    nearest = round(apart)
    if not nearest or abs(nearest) > 3 or abs(apart - nearest) * 3 > math.log10(2):
        return None
    a, b = (significant(mean(side.group.values), 4) for side in case.sides)
    figures = f"{a} against {b} {case.sides[0].group.point.unit}".rstrip()
    return f"{figures}: about {1000 ** abs(nearest):,} times apart"


SUSPECT_UNIT = CaseDoubtKind(
    code="suspect-unit",
    subject="sides",
    severity="invalid",
    means=(
        "At one size, the sides' means are a thousand, a million or a billion times apart, within a factor "
        "of 2."
    ),
    effect="One side's values may be in another unit than it says: the ratio would be that of the units.",
    remedy=(
        "Check the units of both sides, where one may lack a prefix such as k or M, and import the wrong "
        "side again."
    ),
    evidence=suspect_unit,
)


def share_of_whole(case: Case) -> str | None:
    """Shares that are equal as a ratio while what they lack to the whole is not."""
    whole = _WHOLE.get(case.sides[0].group.point.unit.casefold())
    if len(case.sides) < 2 or case.margin is None or whole is None:
        return None
    low, high = case.estimate.low, case.estimate.high
    if low is None or high is None or low < 1 / (1 + case.margin) or high > 1 + case.margin:
        return None
    if any(not 0 < value < whole for side in case.sides for value in side.group.values):
        return None
    a, b = ((whole - mean(side.group.values)) * 100 / whole for side in case.sides)
    if 1 / (1 + case.margin) <= b / a <= 1 + case.margin:
        return None
    return (
        f"what is missing to 100 % is {significant(a, 3)} against {significant(b, 3)} %, "
        f"{significant(b / a, 3)} times as much, where the margin is ±{percent(case.margin)}"
    )


SHARE_OF_WHOLE = CaseDoubtKind(
    code="share-of-whole",
    subject="sides",
    severity="invalid",
    means=(
        "The ratio of two shares lies within the margin; that of what they lack to 100 % does not. Shares "
        "are in %, percent, pct, fraction, ratio or share."
    ),
    effect=(
        "An availability of 98 % instead of 99.5 % is 1.5 % less and four times the downtime; an error rate "
        "is hidden in the same way by an accuracy."
    ),
    remedy=(
        "Judge what is missing to 100 %: import 100 % less the value as a separate metric, where less is "
        "better."
    ),
    evidence=share_of_whole,
)


def _is_time_or_rate(unit: str) -> bool:
    return unit.endswith("/s") or factor(unit)[1] == "s"


def _equally_many(sides: Sequence[Side]) -> bool:
    return len({Shape.parse(side.group.point.shape).ranks for side in sides}) == 1
