"""The ratio of two groups' geometric means with its interval, by the method that the design determines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, variance
from typing import Literal

from assay.analyse.points.groups import Group, Sample
from assay.analyse.points.replication import (
    block_of,
    deviations,
    drifts,
    excess,
    of_side,
    pairing,
    replicated,
    session_means,
    sessions,
    shared,
    shift_in_one_order,
    worth,
)
from assay.analyse.statistics import intervals
from assay.analyse.statistics.intervals import NOTHING_HIDDEN, Hidden, LogInterval
from assay.analyse.statistics.rounding import hidden_by_rounding
from assay.analyse.statistics.sequential import looks, nominal_p
from assay.errors import InputError
from assay.records import Estimate, Result

LARGEST_LOG = 690.0  # of a ratio: exp of 700 and more exceeds the range in which a float is accurate


@dataclass(frozen=True)
class Allowance:
    """What an interval of two sides allows for beyond the spread of their runs.

    Values on the grid of a coarse timer can agree although the systems differ, runs that drift shift one side
    relative to the other, and runs that each resemble the previous one are worth fewer independent ones. For
    the rates with and without, see docs/explanation/statistics.md.

    hidden  steps, shift and worth, as the interval takes them
    step    of the values, on the log scale, if it widens the interval; else 0
    drifts  of A and of B from the first run to the last, on the log scale, where one was found
    drifted part of the shift that they cause
    """

    hidden: Hidden
    step: float = 0.0
    drifts: tuple[float, float] = (0.0, 0.0)
    drifted: float = 0.0


@dataclass(frozen=True)
class Ratio:
    """B/A on the log scale, and what it rests on.

    a, b         the runs that count: if the sides are paired, those of blocks that contain both
    replicates   logarithms of A and B that the interval was computed from: one per run, or one per session;
                 pairs if they are paired; empty if a value is not above 0
    replication  which of the two
    method       `paired` or `welch`; "" without an interval
    paired       the replicates are pairs, whether or not they gave an interval: of shuffled blocks, or of
                 sessions in which both sides were measured
    interleaved  the sides were run in the same shuffled blocks
    dropped      blocks left out because they lack a side
    sessions     the number on each side
    allowance    for what the spread of the replicates doesn't show
    confidence   of the interval
    """

    a: Group
    b: Group
    replicates: tuple[list[float], list[float]]
    replication: Literal["runs", "sessions"]
    interval: LogInterval
    method: str
    paired: bool
    interleaved: bool
    dropped: int
    sessions: tuple[int, int]
    allowance: Allowance
    confidence: float = 0.95

    @property
    def estimate(self) -> Estimate:
        """The ratio with its interval."""
        return self.interval.estimate("", self.confidence)

    @property
    def apart(self) -> bool:
        """Whether each side was measured in one session, and not in the same."""
        return self.sessions == (1, 1) and not shared(self.a.samples, self.b.samples)

    @property
    def new_session(self) -> Estimate | None:
        """Where the ratio of one more session will be, in 95 % of cases; None if runs are replicated."""
        if self.replication == "runs" or self.interval.half is None:
            return None
        a, b = self.replicates
        if self.paired:
            spread = variance([y - x for x, y in zip(a, b, strict=True)])
        else:
            seen = [variance(side) for side in (a, b) if len(side) > 1]
            spread = 2 * math.fsum(seen) / len(seen)
        return intervals.new_replicate(self.interval, spread, self.confidence).estimate("", self.confidence)

    @property
    def blocks(self) -> list[tuple[Result, Result]]:
        """A run of each side per shuffled block; [] if they ran in none."""
        pairs = zip(self.a.samples, self.b.samples, strict=False) if self.interleaved else ()
        return [(a.result, b.result) for a, b in pairs if block_of(a) == block_of(b)]

    @property
    def means(self) -> tuple[float, float]:
        """Means of A and B over the replicates: geometric, or arithmetic if a value is not above 0."""
        a, b = self.replicates
        if not a or not b:
            return alike(self.a.values, self.b.values)
        return math.exp(math.fsum(a) / len(a)), math.exp(math.fsum(b) / len(b))


def why_no_ratio(a: Group, b: Group) -> str:
    """Why B/A is not a number; "" if it is."""
    if not all(min(side.values) > 0 or math.fsum(side.values) > 0 for side in (a, b)):
        return "a mean that is not above 0 has no ratio"
    means = alike(a.values, b.values)
    if abs(math.log(means[1]) - math.log(means[0])) > LARGEST_LOG:
        return f"means of {means[0]:.3g} and {means[1]:.3g} are too far apart for a ratio; look at the units"
    return ""


def ratio(a: Group, b: Group, confidence: float = 0.95) -> Ratio:
    """B/A, in the same unit.

    For runs with interim looks, the confidence of the interval is higher accordingly.
    Which method is used, and whether runs or sessions are the replicates, depends on how the sides were run
    and never on the results. Raises InputError if there is no ratio (`why_no_ratio`).
    """
    if why := why_no_ratio(a, b):
        raise InputError(f"{a.point.metric}: {why}")
    design = pairing(a.samples, b.samples)
    if design is not None and design.pairs:
        a = replace(a, samples=tuple(pair[0] for pair in design.pairs))
        b = replace(b, samples=tuple(pair[1] for pair in design.pairs))
    counts = len(sessions(a.samples)), len(sessions(b.samples))
    by_session = replicated(*counts)
    paired = design is not None or (by_session and shared(a.samples, b.samples))
    if not by_session:  # the number of sessions was not determined by looking
        confidence = max(confidence, looked_at((a.samples, b.samples), paired=design is not None))
    positive = min(*a.values, *b.values) > 0
    replicates = (_replicates(a, by_session), _replicates(b, by_session)) if positive else ([], [])
    allowance = Allowance(NOTHING_HIDDEN)
    if not positive:
        why = f"{a.point.metric} is not above 0 in every run, so the means and their ratio are arithmetic"
        interval = _without(a, b, why)
    elif design is not None and not design.pairs:
        interval = _without(a, b, "no block contains a run of both sides")
    else:
        allowance = _allowance(a, b, by_session=by_session, paired=paired)
        more = excess(a.samples, b.samples, logs(a), logs(b)) if by_session and min(counts) == 1 else None
        interval = _interval(replicates, paired, confidence, allowance.hidden, more)
        unrounded = replace(allowance.hidden, steps=(0.0, 0.0), shift=allowance.drifted)
        if interval.half != _interval(replicates, paired, confidence, unrounded, more).half:
            allowance = replace(allowance, step=max(allowance.hidden.steps))
    return Ratio(
        a=a,
        b=b,
        replicates=replicates,
        replication="sessions" if by_session else "runs",
        interval=interval,
        method="" if interval.half is None else "paired" if paired else "welch",
        paired=paired,
        interleaved=design is not None,
        dropped=0 if design is None else design.dropped,
        sessions=counts,
        allowance=allowance,
        confidence=confidence,
    )


def _interval(
    replicates: tuple[list[float], list[float]],
    paired: bool,
    confidence: float,
    unseen: Hidden,
    more: float | None,
) -> LogInterval:
    """By the method; `more` is the excess variance of a side's only session, None if sides have several."""
    if paired:
        return intervals.paired(list(zip(*replicates, strict=True)), confidence, unseen)
    if more is not None:
        return intervals.one_against(*replicates, confidence, unseen, more)
    return intervals.welch(*replicates, confidence, unseen)


def _allowance(a: Group, b: Group, *, by_session: bool, paired: bool) -> Allowance:
    """What two sides hide whose values are all above 0.

    by_session  the means of sessions count, not runs
    paired      the sides ran together, so that drift and dependence affect both alike
    """
    rounded = hidden_by_rounding(a.values, b.values)
    if by_session:
        of_a, of_b = rounded.steps
        rounded = replace(rounded, steps=(_step_of_means(a, of_a), _step_of_means(b, of_b)))
    if paired or by_session:
        return Allowance(rounded)
    sides = of_side("A", a.samples), of_side("B", b.samples)
    drift_by_side = {succession.name: change for succession, change, *_ in drifts(sides)}
    drift = drift_by_side.get("A", 0.0), drift_by_side.get("B", 0.0)
    drifted = 0.0
    if any(drift):
        interleaved = shift_in_one_order(a.samples, b.samples)
        drifted = max(map(abs, drift)) if interleaved is None else interleaved
    unseen = replace(rounded, shift=rounded.shift + drifted, worth=worth(sides))
    return Allowance(unseen, drifts=drift, drifted=drifted)


def _step_of_means(group: Group, step: float) -> float:
    """The step of a session's mean: a fraction if its runs spread over the step, else a whole one."""
    counts = len(sessions(group.samples))
    off = deviations(group.samples, [math.log(value) for value in group.values])
    within = math.sqrt(math.fsum(x * x for x in off) / max(len(off) - counts, 1))
    return step / math.sqrt(len(off) / counts) if within >= step / 2 else step


def one_side(group: Group, confidence: float = 0.95) -> Estimate:
    """Mean of one group with its interval; its confidence is higher if there were interim looks.

    Geometric; arithmetic and without an interval if a value is not above 0.
    """
    if min(group.values) <= 0:
        return Estimate(mean(group.values), None, None, len(group.values), group.point.unit, confidence)
    confidence = max(confidence, looked_at((group.samples,), paired=True))
    interval = intervals.one_mean(logs(group), confidence, hidden_by_rounding(group.values))
    return interval.estimate(group.point.unit, confidence)


def looks_of(samples: Iterable[Sample]) -> tuple[int, ...]:
    """The numbers of runs at the looks, from the plan with the most looks; () if there was only one look."""
    looks = max({sample.result.run.looks for sample in samples}, key=len, default=())
    return looks if len(looks) > 1 else ()


def looked_at(sides: Sequence[Sequence[Sample]], *, paired: bool) -> float:
    """The confidence that intervals need for 95 % to hold at all looks jointly; 0 for a single look.

    paired  by block; also for the mean of one side alone
    Raises InputError if no Assay plan has a run's looks.
    """
    looked = [sample.result.run for side in sides for sample in side if sample.result.run.looks]
    if not looked:
        return 0.0
    most = max(run.looks[-1] for run in looked)
    equal_n = len({len(side) for side in sides}) == 1
    try:
        return 1 - nominal_p(most, paired, equal_n=equal_n) if len(looks(most)) > 1 else 0.0
    except ValueError as error:
        raise InputError(f"{looked[0].id}: its looks are not ones that Assay plans ({error})") from error


def _replicates(group: Group, by_session: bool) -> list[float]:
    return session_means(group.samples, logs(group)) if by_session else logs(group)


def _without(a: Group, b: Group, why: str) -> LogInterval:
    of_a, of_b = alike(a.values, b.values)
    return LogInterval(math.log(of_b / of_a), None, len(a.samples) + len(b.samples), why)


def alike(a: Sequence[float], b: Sequence[float]) -> tuple[float, float]:
    """Means of one kind: geometric; arithmetic if a value of either is not above 0."""
    if min(*a, *b) > 0:
        return mean(a), mean(b)
    return fmean(a), fmean(b)


def scaled(estimate: Estimate, factor: float, unit: str) -> Estimate:
    """The estimate and its interval times a factor above 0, in another unit."""
    low, high = (None if end is None else end * factor for end in (estimate.low, estimate.high))
    return replace(estimate, value=estimate.value * factor, low=low, high=high, unit=unit)


def logs(group: Group) -> list[float]:
    """Logarithms of the values, all above 0."""
    return [math.log(value) for value in group.values]


def mean(values: Sequence[float]) -> float:
    """Geometric; arithmetic if a value is not above 0."""
    if min(values) <= 0:
        return math.fsum(values) / len(values)
    return math.exp(math.fsum(map(math.log, values)) / len(values))
