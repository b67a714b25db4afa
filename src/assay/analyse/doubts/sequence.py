"""Doubts about the runs as a sequence: drift, dependence, two modes, an outlier.

They examine what the interval rests on: log-ratios of blocks if sides are paired, else each side's runs.
All four share `FALSE_ALARM`: at most this share of comparisons with independent normal runs raises any of
them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeVar

from assay.analyse.doubts.case_kinds import CaseDoubtKind, counted
from assay.analyse.points.case import Case
from assay.analyse.points.replication import LEVEL, Succession, drifts
from assay.analyse.statistics import trouble
from assay.analyse.statistics.intervals import constant, share_of
from assay.units import percent

MATTERS = 0.002  # an effect of less than a tenth of the usual margin does not matter
_FOUR = (
    "Drift, dependence, two modes and an outlier share a false-alarm rate of 5 %: at most 5 % of "
    "comparisons of independent normal runs raise any of them (1.25 % each; half of that on each of two "
    "unpaired sides). Two modes and the outlier treat values that differ by less than the step "
    "they were printed in as equal."
)
Figure = TypeVar("Figure")


def _within_sessions(
    sequence: Succession,
    test: Callable[[tuple[float, ...], tuple[float, ...]], tuple[Figure, float] | None],
    *,
    unrounded: bool = False,
) -> tuple[Figure, float, int] | None:
    """The most striking session's statistic, its probability over all sessions, and its runs."""
    tested_sessions = []
    by_session = sequence.unrounded_by_session if unrounded else sequence.by_session
    for logs, lengths in zip(by_session, sequence.lengths_by_session, strict=True):
        seen = test(logs, lengths)
        if seen is not None:
            tested_sessions.append((*seen, len(logs)))
    if not tested_sessions:
        return None
    figure, probability, length = min(tested_sessions, key=lambda seen: seen[1])
    return figure, min(1.0, probability * len(tested_sessions)), length


def _first_unlikely(
    successions: Sequence[Succession], test: Callable[[Succession], tuple[Figure, float, int] | None]
) -> tuple[Succession, Figure, float, int] | None:
    """The first one for which a test shows an effect that chance alone exceeds at rate `LEVEL`, over all."""
    for succession in successions:
        seen = test(succession)
        if seen is not None and seen[1] <= LEVEL / len(successions):
            return succession, *seen
    return None


def _lag1(logs: tuple[float, ...], _lengths: tuple[float, ...]) -> tuple[float, float] | None:
    return trouble.lag1(logs)


def drift(case: Case) -> str | None:
    """A trend over the runs of a session, or over its blocks' ratios."""
    trends = drifts(case.successions)
    if not trends:
        return None
    sequence, change, probability, runs = trends[0]
    return (
        f"{sequence.name} {'rose' if change > 0 else 'fell'} by {percent(abs(share_of(change)))} over "
        f"{counted(runs, 'block' if case.paired else 'run')} in a row (p {probability:.1g})"
    )


DRIFT = CaseDoubtKind(
    code="drift",
    subject="runs",
    severity="biased",
    means=(
        "The runs of a session, or the ratios of its blocks, rise or fall in the order in which they ran: "
        "a t test of the slope of their logarithms."
    ),
    effect=(
        "The runs don't scatter around one value. Unpaired sides are shifted relative to each other, "
        "depending on when they ran, so their interval is wider by the drift; for paired sides, the ratio "
        "itself is changing."
    ),
    remedy=(
        "Find what changes (temperature, a cache that fills up, a neighbor), let it settle before the first "
        "run, and run both sides shuffled within blocks."
    ),
    rates=(_FOUR),
    evidence=drift,
)


def dependence(case: Case) -> str | None:
    """Runs that resemble the previous one, if no drift explains it."""
    if drift(case) is not None:
        return None
    seen = _first_unlikely(case.successions, lambda s: _within_sessions(s, _lag1) if s.ordered else None)
    if seen is None:
        return None
    sequence, correlation, probability, runs = seen
    return (
        f"{sequence.name}: each of {runs} runs resembles the previous one (correlation {correlation:.2f}, p "
        f"{probability:.1g}), so they are worth fewer than {runs} independent runs"
    )


DEPENDENCE = CaseDoubtKind(
    code="dependence",
    subject="runs",
    severity="biased",
    means=(
        "Each run resembles the previous one (von Neumann's ratio, from seven runs on), and no drift "
        "explains it."
    ),
    effect=(
        "The runs are worth fewer independent ones. The interval of unpaired sides allows for the "
        "correlation as far as five runs or more per side show it: at a correlation of 0.5, it covers 85, "
        "87, 91 and 95 % with 3, 5, 10 and 40 runs per side, at 0.9, 48, 56, 77 and 95 %."
    ),
    remedy="Shuffle the sides within blocks, leave time between the runs, or judge by sessions.",
    rates=(_FOUR),
    evidence=dependence,
)


def two_modes(case: Case) -> str | None:
    """Two clusters of a session's runs with a gap between them.

    Sessions differ without any such cause. So do trainings of different lengths, and counts, which take only
    the values of their grid.
    """
    seen = _first_unlikely(
        () if case.is_count else case.successions,
        lambda s: None if constant(s.logs) else _within_sessions(s, trouble.modes, unrounded=True),
    )
    if seen is None:
        return None
    sequence, modes, _, _ = seen
    apart = share_of(modes.means[1] - modes.means[0])
    wide = f"{modes.gap:.1f} times" if math.isfinite(modes.gap) and modes.gap < 1000 else "over 1000 times"
    return (
        f"{sequence.name}: {modes.counts[0]} and {modes.counts[1]} runs {_of_session(sequence)}"
        f"form two groups {percent(apart)} apart, with a gap {wide} the spread within them"
    )


TWO_MODES = CaseDoubtKind(
    code="two-modes",
    subject="runs",
    severity="biased",
    means=(
        "The runs of a session fall into two groups, each at least a fifth of them, with a gap between them "
        "that uniform runs leave by chance in 1.25 % of sets, over all sessions. Groups that are sessions do "
        "not count. For trainings to a target, the residuals of a line over their lengths are tested, "
        "because times move in steps of the evaluations. Counts of epochs are not tested."
    ),
    effect=(
        "Something switches between two states. No run is near the mean, and a comparison depends "
        "on how often each side was in which state."
    ),
    remedy=(
        "Find what switches (clock boost, placement of ranks, node, choice of algorithm), pin it, and run "
        "again; until then, no run is near the mean."
    ),
    rates=(_FOUR + " For normal runs, fewer than 1 % raise two modes alone."),
    evidence=two_modes,
)


def one_far_off(case: Case) -> str | None:
    """One run that differs from all others by far more than they differ among themselves.

    A training that was longer than others explains its time; a count of epochs depends on the seed.
    """
    looked_at = () if case.is_count else case.successions
    for sequence in looked_at:
        if constant(sequence.logs):
            continue
        outlier = trouble.far_off(sequence.unrounded, sequence.lengths)
        if outlier is None or outlier.probability > LEVEL / len(looked_at):
            continue
        rest = len(sequence.logs) - 1
        shift = share_of(abs(outlier.log_ratio) / len(sequence.logs))
        if shift < MATTERS:
            continue
        of_rest = "what its length explains by" if trouble.varies(sequence.lengths) else "the mean of"
        return (
            f"{sequence.name}: {sequence.runs[outlier.index]} is {percent(abs(share_of(outlier.log_ratio)))} "
            f"{'above' if outlier.log_ratio > 0 else 'below'} {of_rest} the other {rest} "
            f"(p {outlier.probability:.1g}) and moves the mean of all by {percent(shift)}"
        )
    return None


ONE_FAR_OFF = CaseDoubtKind(
    code="one-far-off",
    subject="runs",
    severity="biased",
    means=(
        "One run is farther from all others than their scatter explains, and moves the mean by at least 0.2 "
        "%: Grubbs' test on the logarithms. For trainings to a target, relative to a line over their lengths."
    ),
    effect=(
        "It moves the mean and widens the interval; if it represents something that happens now and "
        "then, it is part of the truth."
    ),
    remedy=(
        "Look at that run (`assay show`) before anything else. Leave it out only if you found a cause, never "
        "because of its value."
    ),
    rates=(
        _FOUR
        + " Runs with heavy tails do have such outliers: 4, 11 and 41 % of sets of t3 runs raise it with "
        "5, 10 and 40 runs."
    ),
    evidence=one_far_off,
)


def order_unknown(case: Case) -> str | None:
    """Imported runs whose start times are unknown."""
    unknown = [
        s.name for s in case.successions if not s.ordered and max(s.sessions) >= trouble.FEWEST_FOR_DRIFT
    ]
    if not unknown:
        return None
    return (
        f"the order in which the runs of {' and '.join(unknown)} ran is unknown: "
        "drift and dependence are not tested"
    )


ORDER_UNKNOWN = CaseDoubtKind(
    code="order-unknown",
    subject="runs",
    severity="weak",
    means="Three runs of a session or more were imported, and the order in which they ran is unknown.",
    effect=(
        "Drift and dependence can't be tested. Runs that drift by 4 % on both sides then look like two equal "
        "systems with a wide spread, and runs that each resemble the previous one look like more runs than "
        "they are."
    ),
    remedy=(
        "Import logs that state their time, as those of MLPerf, fio and iperf3 do, or give each row of the "
        "spreadsheet a `started_at`, such as 2026-11-22T09:30:00."
    ),
    evidence=order_unknown,
)


def _of_session(sequence: Succession) -> str:
    return "of one session " if len(sequence.sessions) > 1 else ""
