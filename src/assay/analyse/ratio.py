"""The ratio of two groups' geometric means with its interval, by the method that the design fixes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from assay.analyse import intervals
from assay.analyse.groups import Group
from assay.analyse.intervals import LogInterval
from assay.analyse.pairing import pairing
from assay.records import Estimate


@dataclass(frozen=True)
class Ratio:
    """B over A on the log scale, and what it rests on.

    a, b     the runs that count: where the sides are paired, those of blocks that hold both
    method   `paired` or `welch`; "" without an interval
    paired   the sides were run in the same shuffled blocks, whether or not an interval came of it
    dropped  blocks left out because they lack a side
    """

    a: Group
    b: Group
    interval: LogInterval
    method: str
    paired: bool
    dropped: int

    @property
    def estimate(self) -> Estimate:
        """The ratio with its interval."""
        return self.interval.estimate("")


def has_ratio(a: Group, b: Group) -> bool:
    """Whether both means are above 0."""
    return mean(a.values) > 0 and mean(b.values) > 0


def ratio(a: Group, b: Group) -> Ratio:
    """B over A, in the same unit.

    Which method is used depends on how the sides were run and never on what either would give.
    Raises ValueError where `has_ratio` is false.
    """
    design = pairing(a.samples, b.samples)
    if design is not None and design.pairs:
        a = replace(a, samples=tuple(pair[0] for pair in design.pairs))
        b = replace(b, samples=tuple(pair[1] for pair in design.pairs))
    if min(*a.values, *b.values) <= 0:
        interval = _without(a, b, f"{a.point.metric} is not above 0 in every run")
    elif design is None:
        interval = intervals.welch(logs(a), logs(b))
    elif design.pairs:
        interval = intervals.paired(list(zip(logs(a), logs(b), strict=True)))
    else:
        interval = _without(a, b, "no block holds a run of both sides")
    method = "" if interval.half is None else "welch" if design is None else "paired"
    return Ratio(a, b, interval, method, design is not None, 0 if design is None else design.dropped)


def _without(a: Group, b: Group, why: str) -> LogInterval:
    return LogInterval(math.log(mean(b.values) / mean(a.values)), None, len(a.samples) + len(b.samples), why)


def logs(found: Group) -> list[float]:
    """Logarithms of the values, all above 0."""
    return [math.log(value) for value in found.values]


def mean(values: Sequence[float]) -> float:
    """Geometric; arithmetic where a value is not above 0."""
    if min(values) <= 0:
        return math.fsum(values) / len(values)
    return math.exp(math.fsum(map(math.log, values)) / len(values))
