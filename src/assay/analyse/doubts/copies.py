"""Doubts about values that two sides can hardly have measured: copies, other units, shares of a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from itertools import pairwise
from statistics import fmean

from assay.analyse.doubts.case_kinds import MOST_SHOWN, CaseDoubtKind
from assay.analyse.points.case import Case, Side
from assay.analyse.points.ratio import mean
from assay.analyse.statistics.intervals import ROUNDING
from assay.analyse.statistics.rounding import step
from assay.records import Run
from assay.units import factor, percent, significant

BY_CHANCE = 1e-5  # values measured independently agree this often by chance; rarer agreement is doubted
FEWEST_COPIED = 5  # values that were altered a little; fewer are this close by chance
CLOSER = 100.0  # times, than neighboring values of different runs are
_OFF_TICK = 0.02  # of a tick, by which a gap between values may be off
_WHOLE = {"%": 100.0, "percent": 100.0, "pct": 100.0, "fraction": 1.0, "ratio": 1.0, "share": 1.0}
"""Units of shares, in lower case, and the whole in each unit."""
_DIGITS = 12  # a unit conversion leaves its rounding error beyond these digits


def copied_values(case: Case) -> str | None:
    """Runs of one log, or so many identical times or rates that they can't all have been measured."""
    if copies := _copies(case):
        return copies
    if not _is_time_or_rate(case.sides[0].group.point.unit):
        return None
    for side in case.sides:
        if repeats := _repeated(side.group.values):
            return _agreeing(f"{len(side.group.values)} runs of {side.name}", repeats)
    if len(case.sides) < 2:
        return None
    a, b = case.sides
    if repeats := _repeated(a.group.values, b.group.values):
        whole = len(a.group.values) + len(b.group.values)
        return _agreeing(f"{whole} runs of {a.name} and {b.name} together", repeats)
    return None


COPIED_VALUES = CaseDoubtKind(
    code="copied-values",
    subject="sides",
    severity="invalid",
    means=(
        "Imported logs have the same bytes; or at most half of the times or rates of one side, or of both "
        "sides together, are distinct: so few that independent measurements would agree like that in fewer "
        "than 1 of 100,000 cases."
    ),
    effect=(
        "A side compared with itself is as fast, whatever the systems are, and a run counted twice "
        "makes the interval too narrow."
    ),
    remedy="Look for files or rows that were copied or imported twice, and count each run once.",
    rates=(
        "The chance is a bound for values spread evenly over the steps of their resolution, or of a timer "
        "that all differences of the values, or of the times behind rates, are multiples of. In simulated "
        "sets of such a timer, with and without an offset, it is raised in at most 1 %. Of the 202 sets of "
        "MLPerf Training v4.0, it is raised for the two that contain every run twice."
    ),
    evidence=copied_values,
)


def _copies(case: Case) -> str | None:
    """Imported runs whose logs have the same bytes, with their sides."""
    runs = {s.result.run.id: (side.name, s.result.run) for side in case.sides for s in side.group.samples}
    first: dict[str, tuple[str, Run]] = {}
    copies = []
    for side, run in runs.values():
        original_side, original = first.setdefault(run.log_digest or run.id, (side, run))
        if original is not run:
            copies.append(f"{run.trial.id} of {side} is {original.trial.id} of {original_side}")
    if not copies:
        return None
    more = f" and {len(copies) - MOST_SHOWN} more" if len(copies) > MOST_SHOWN else ""
    return f"logs with the same bytes: {', '.join(copies[:MOST_SHOWN])}{more}"


def _agreeing(runs: str, distinct: int) -> str:
    return f"the {runs} have {distinct} distinct values, identical to the last digit"


def _repeated(*sides: Sequence[float]) -> int:
    """The number of distinct values, if it is at most half and too low to be chance; else 0.

    Bound for n values that fall evenly on k steps of their resolution and take only d distinct values:
    C(n, d) (d / k)^(n − d). A single distinct value means a metric without spread, not a copy; two can be
    neighboring ticks of any timer. Each side may have its own timer.
    """
    exact = [[float(f"{value:.{_DIGITS}g}") for value in side] for side in sides]
    values = [value for side in exact for value in side]
    n, d = len(values), len(set(values))
    if not 1 < d <= n / 2:
        return 0
    steps = min(_steps(values), math.fsum(_steps(side) + 1 for side in exact))
    if steps <= d or math.isinf(steps):
        return 0
    log_chance = math.log(math.comb(n, d)) + (n - d) * math.log(d / steps)  # C(n, d) may exceed any float
    return d if log_chance < math.log(BY_CHANCE) else 0


def _steps(values: Sequence[float]) -> float:
    """How many steps of their resolution the values span: of their decimals, a timer's tick, or evaluations.

    A rate from a coarse timer still has many decimals, so the times behind rates are tried, too.
    """
    distinct = sorted(set(values))
    place = _decimal_place(distinct)
    spans = [(distinct[-1] - distinct[0]) / place, _ticks(distinct, place)]
    if distinct[0] > 0 and math.isfinite(1 / distinct[0]):
        times = sorted({1 / value for value in distinct})
        spans.append(_ticks(times, place / distinct[0] / distinct[0]))
    return min(spans)


def _decimal_place(values: Sequence[float]) -> float:
    """The resolution to which all of them are written."""
    places = (Decimal(repr(value)).normalize().as_tuple().exponent for value in values if value)
    return float(10.0 ** min((place for place in places if isinstance(place, int)), default=0))


def _ticks(ordered: Sequence[float], printed: float) -> float:
    """The number of ticks that values span whose gaps are all multiples of one; infinite if they aren't.

    The smallest gap is one tick or two; the tick is a mean, from the smallest gap on. Each gap may be off by
    `printed`, the values' resolution, and so may those that gave the tick.
    """
    gaps = sorted(after - before for before, after in pairwise(ordered))
    return min((_ticks_of(gaps, first, printed) for first in (1, 2) if gaps), default=0)


def _ticks_of(gaps: Sequence[float], first: int, printed: float) -> float:
    """The same, from the gaps in rising order, the first of which is this many ticks."""
    span, ticks = gaps[0], first
    for gap in gaps[1:]:
        tick = span / ticks
        if not math.isfinite(gap / tick):
            return math.inf
        multiple = round(gap / tick)
        if abs(gap - multiple * tick) > _OFF_TICK * tick + printed * (1 + multiple / ticks):
            return math.inf
        span, ticks = span + gap, ticks + multiple
    return ticks


def near_copies(case: Case) -> str | None:
    """Imported times or rates of B that each lie next to one of A, far closer than runs are to one another.

    In the order of all values, the gaps within these pairs are compared with those between them, by their
    geometric means. No gap counts as less than the step that the values were printed in.
    """
    if len(case.sides) < 2 or not _is_time_or_rate(case.sides[0].group.point.unit):
        return None
    a, b = case.sides
    values = [*a.group.values, *b.group.values]
    if len(values) != 2 * len(a.group.values) or len(a.group.values) < FEWEST_COPIED or min(values) <= 0:
        return None
    if all(s.result.run.source is None for s in b.group.samples) or _repeated(a.group.values, b.group.values):
        return None
    ordered = sorted((value, index < len(a.group.values)) for index, value in enumerate(values))
    if any(ordered[index][1] == ordered[index + 1][1] for index in range(0, len(ordered), 2)):
        return None
    least = max(step(values) / max(values), ROUNDING)
    gaps = [math.log(max(math.log(y) - math.log(x), least)) for (x, _), (y, _) in pairwise(ordered)]
    closer = math.exp(fmean(gaps[1::2]) - fmean(gaps[::2]))
    if closer < CLOSER:
        return None
    return (
        f"each of the {len(b.group.values)} values of {b.name} is next to one of {a.name}, "
        f"{significant(closer, 2)} times as close as the values of different runs are"
    )


NEAR_COPIES = CaseDoubtKind(
    code="near-copies",
    subject="sides",
    severity="invalid",
    means=(
        "Each imported time or rate of one side lies next to one of the other, 100 times as close as "
        "neighboring values of different runs are: one side is the other with a little noise or rounding."
    ),
    effect="A side compared with an altered copy of itself is as fast, whatever the systems are.",
    remedy="Look where the figures of both sides are from, and import those that were measured.",
    rates=(
        "From five runs a side. Of 200,000 simulated pairs of independent sides (normal, t3, exponential, "
        "a tenth slow), none raised it; of those with two modes a thousand spreads apart, 3 of 100,000. Of "
        "copies with noise of 1/5,000 of the spread, 100, 100 and 96 % are seen with 5, 10 and 40 runs; at "
        "1/500, 94, 86 and 0 %. Copies in another order are seen alike, copies times a factor are not."
    ),
    evidence=near_copies,
)


def suspect_unit(case: Case) -> str | None:
    """Means that differ by about a factor of a thousand, a million or a billion: one may lack a prefix."""
    if len(case.sides) < 2 or not _equally_many(case.sides) or not case.estimate.value > 0:
        return None
    apart = math.log10(case.estimate.value) / 3
    nearest = round(apart)
    if not nearest or abs(nearest) > 3 or abs(apart - nearest) * 3 > math.log10(2):
        return None
    a, b = (significant(mean(side.group.values), 4) for side in case.sides)
    figures = f"{a} and {b} {case.sides[0].group.point.unit}".rstrip()
    return f"{figures}: a factor of about {1000 ** abs(nearest):,} apart"


SUSPECT_UNIT = CaseDoubtKind(
    code="suspect-unit",
    subject="sides",
    severity="invalid",
    means=(
        "At one size, the sides' means differ by a factor of a thousand, a million or a billion, give or "
        "take a factor of 2."
    ),
    effect="One side's values may be in a unit other than stated: the ratio would be that of the units.",
    remedy=(
        "Check the units of both sides, where one may lack a prefix such as k or M, and import the wrong "
        "side again."
    ),
    evidence=suspect_unit,
)


def share_of_whole(case: Case) -> str | None:
    """Shares whose ratio is within the margin while that of their complements is not."""
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
        f"the difference to 100 % is {significant(a, 3)} % and {significant(b, 3)} %, "
        f"{significant(b / a, 3)} times as much, with a margin of ±{percent(case.margin)}"
    )


SHARE_OF_WHOLE = CaseDoubtKind(
    code="share-of-whole",
    subject="sides",
    severity="invalid",
    means=(
        "The ratio of two shares is within the margin; the ratio of their differences to 100 % is not. "
        "Shares are values in %, percent, pct, fraction, ratio or share."
    ),
    effect=(
        "An availability of 98 % instead of 99.5 % is 1.5 % lower but four times the downtime; an accuracy "
        "hides an error rate in the same way."
    ),
    remedy=(
        "Judge the difference to 100 %: import 100 % minus the value as a separate metric, where lower is "
        "better."
    ),
    evidence=share_of_whole,
)


def _is_time_or_rate(unit: str) -> bool:
    return unit.endswith("/s") or factor(unit)[1] == "s"


def _equally_many(sides: Sequence[Side]) -> bool:
    return len({side.group.ranks for side in sides}) == 1
