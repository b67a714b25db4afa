"""Doubts about the runs as a sequence: drift, dependence, two modes, one run far off.

They look at what the interval rests on: log-ratios of blocks where sides are paired, else each side's runs.
All four together hold `FALSE_ALARM`: of comparisons whose runs are independent and normal, at most so many
raise any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from assay.analyse.doubts.case import Case, CaseDoubtKind, counted, percent
from assay.analyse.doubts.detection import POWER, shown_at
from assay.analyse.doubts.succession import Succession
from assay.analyse.statistics import trouble
from assay.analyse.statistics.intervals import constant

FALSE_ALARM = 0.05
LEVEL = FALSE_ALARM / 4  # of each of the four
MATTERS = 0.002  # what moves a figure by less than a tenth of the usual margin is no matter
_FOUR = (
    "Drift, dependence, two modes and one run far off share a false-alarm rate of 5 %: at most so many "
    "comparisons of independent normal runs raise any of them (1.25 % each; half of that on each of two "
    "unpaired sides). Two modes and one run far off take equal values for ones that differ within the step "
    "they were printed in."
)
Figure = TypeVar("Figure")


def _within_sessions(
    sequence: Succession,
    test: Callable[[tuple[float, ...], tuple[float, ...]], tuple[Figure, float] | None],
    *,
    unrounded: bool = False,
) -> tuple[Figure, float, int] | None:
    """The most striking session's figure, its probability among all sessions, and its runs."""
    found = []
    by_session = sequence.unrounded_by_session if unrounded else sequence.by_session
    for logs, lengths in zip(by_session, sequence.lengths_by_session, strict=True):
        seen = test(logs, lengths)
        if seen is not None:
            found.append((*seen, len(logs)))
    if not found:
        return None
    figure, probability, length = min(found, key=lambda seen: seen[1])
    return figure, min(1.0, probability * len(found)), length


def _drift(logs: tuple[float, ...], _lengths: tuple[float, ...]) -> tuple[float, float] | None:
    return trouble.drift(logs)


def _lag1(logs: tuple[float, ...], _lengths: tuple[float, ...]) -> tuple[float, float] | None:
    return trouble.lag1(logs)


def drift(case: Case) -> str | None:
    """A trend over the runs of a session, or over its blocks' ratios."""
    looked_at = case.successions
    for sequence in looked_at:
        seen = _within_sessions(sequence, _drift) if sequence.ordered else None
        if seen is None or seen[1] > LEVEL / len(looked_at):
            continue
        change, probability, runs = seen
        return (
            f"{sequence.name} {'rose' if change > 0 else 'fell'} by {percent(abs(math.expm1(change)))} over "
            f"{counted(runs, 'block' if case.paired else 'run')} in a row (p {probability:.1g})"
        )
    return None


DRIFT = CaseDoubtKind(
    code="drift",
    subject="runs",
    severity="biased",
    means=(
        "The runs of a session, or the ratios of its blocks, rise or fall in the order in which they ran: "
        "t test of the slope of their logarithms."
    ),
    effect=(
        "The runs don't scatter around one value. Unpaired sides are shifted against each other by when they "
        "ran; of paired ones the ratio itself is changing."
    ),
    remedy=(
        "Find what changes (temperature, a cache that fills, a neighbour), let it settle before the first "
        "run, and run both sides shuffled within blocks."
    ),
    rates=(_FOUR),
    evidence=drift,
)


def dependence(case: Case) -> str | None:
    """Runs that resemble the one before, where no drift explains it."""
    if drift(case) is not None:
        return None
    looked_at = case.successions
    for sequence in looked_at:
        seen = _within_sessions(sequence, _lag1) if sequence.ordered else None
        if seen is None or seen[1] > LEVEL / len(looked_at):
            continue
        correlation, probability, runs = seen
        return (
            f"{sequence.name}: each of {runs} runs resembles the one before (correlation {correlation:.2f}, "
            f"p {probability:.1g}), so they tell less than {runs} independent ones and the interval is too "
            "narrow"
        )
    return None


DEPENDENCE = CaseDoubtKind(
    code="dependence",
    subject="runs",
    severity="biased",
    means=(
        "Each run resembles the one before it (von Neumann's ratio, from seven runs on), and no drift "
        "explains it."
    ),
    effect=(
        "The runs tell less than so many independent ones: the interval is too narrow. At a correlation of "
        "0.5, a back-to-back 95 % interval covers 90, 82 and 76 % at 3, 5 and 10 runs a side."
    ),
    remedy="Shuffle the sides within blocks, leave time between the runs, or judge by sessions.",
    rates=(_FOUR),
    evidence=dependence,
)


def two_modes(case: Case) -> str | None:
    """Two clusters of a session's runs with a gap between them: sessions differ without any switch.

    So do trainings of different lengths, and counts, which only take the values of their grid.
    """
    looked_at = () if case.is_count else case.successions
    for sequence in looked_at:
        if constant(sequence.logs):
            continue
        seen = _within_sessions(sequence, trouble.modes, unrounded=True)
        if seen is None or seen[1] > LEVEL / len(looked_at):
            continue
        found, _, _ = seen
        apart = math.expm1(found.means[1] - found.means[0])
        wide = (
            f"{found.gap:.1f} times" if math.isfinite(found.gap) and found.gap < 1000 else "over 1000 times"
        )
        return (
            f"{sequence.name}: {found.counts[0]} and {found.counts[1]} runs {_of_session(sequence)}"
            f"form two groups {percent(apart)} apart, with a gap {wide} the spread within them"
        )
    return None


TWO_MODES = CaseDoubtKind(
    code="two-modes",
    subject="runs",
    severity="biased",
    means=(
        "The runs of a session fall into two groups, each at least a fifth of them, with a gap between that "
        "uniform runs leave by chance in 1.25 % of sets, all sessions together. Groups that are sessions are "
        "no switch. Of trainings to a target, what is left beside a line over their lengths is tested: times "
        "move in steps of the evaluations. Counts of epochs are not."
    ),
    effect=(
        "Something switches between two states. The mean lies where no run does, and a comparison depends "
        "on how often each side met which state."
    ),
    remedy=(
        "Find what switches (clock boost, placement of ranks, node, choice of algorithm), pin it, and run "
        "again; until then the mean lies where no run does."
    ),
    rates=(_FOUR + " Of normal runs, two modes alone are raised in under 1 %."),
    evidence=two_modes,
)


def one_far_off(case: Case) -> str | None:
    """One run away from all others by far more than they differ among themselves.

    That a training was longer than others explains its time; a count of epochs is the seed's.
    """
    looked_at = () if case.is_count else case.successions
    for sequence in looked_at:
        if constant(sequence.logs):
            continue
        found = trouble.far_off(sequence.unrounded, sequence.lengths)
        if found is None or found.probability > LEVEL / len(looked_at):
            continue
        rest = len(sequence.logs) - 1
        shift = math.expm1(abs(found.log_ratio) / len(sequence.logs))
        if shift < MATTERS:
            continue
        of_rest = "what its length explains by" if trouble.varies(sequence.lengths) else "the mean of"
        return (
            f"{sequence.name}: {sequence.runs[found.index]} is {percent(abs(math.expm1(found.log_ratio)))} "
            f"{'above' if found.log_ratio > 0 else 'below'} {of_rest} the other {rest} "
            f"(p {found.probability:.1g}) and moves the mean of all by {percent(shift)}"
        )
    return None


ONE_FAR_OFF = CaseDoubtKind(
    code="one-far-off",
    subject="runs",
    severity="biased",
    means=(
        "One run is farther from all others than they explain, and moves the mean by at least 0.2 %: Grubbs' "
        "test on the logarithms. Of trainings to a target, beside a line over their lengths."
    ),
    effect=(
        "It moves the mean and widens the interval; where it stands for something that happens now and "
        "then, it is part of the truth."
    ),
    remedy=(
        "Look at that run (`assay show`) before anything else. Leave it out only for a cause found, never "
        "for its value."
    ),
    rates=(
        _FOUR
        + " Runs with heavy tails do have such runs: of sets of t3 runs it is raised in 4, 11 and 41 % at "
        "5, 10 and 40 runs."
    ),
    evidence=one_far_off,
)


def order_unknown(case: Case) -> str | None:
    """Runs that others made and of which nobody says when they ran."""
    unknown = [
        s.name for s in case.successions if not s.ordered and max(s.sessions) >= trouble.FEWEST_FOR_DRIFT
    ]
    if not unknown:
        return None
    return (
        f"nothing says when the runs of {' and '.join(unknown)} ran, one after the other: "
        "drift and dependence are not tested"
    )


ORDER_UNKNOWN = CaseDoubtKind(
    code="order-unknown",
    subject="runs",
    severity="weak",
    means="Three runs of a session or more were made by others, and nothing says in which order they ran.",
    effect=(
        "Drift and dependence can't be tested. Runs that drift by 4 % on both sides then look like two equal "
        "systems with a wide spread, and runs of which each resembles the one before like more runs than "
        "they are."
    ),
    remedy=(
        "Import logs that state their time, as MLPerf's do, or give each row of the spreadsheet a "
        "`started_at`, like 2026-11-22T09:30:00."
    ),
    evidence=order_unknown,
)


def cannot_tell(case: Case) -> str | None:
    """What so few runs would not show in most cases, were it there.

    Dependence is left out where sides are paired: shuffled blocks prevent it from reaching the ratio.
    """
    looked_at = case.successions
    if not looked_at:
        return None
    n = min(max(sequence.sessions) for sequence in looked_at)
    at = shown_at(n)
    ordered = all(sequence.ordered for sequence in looked_at)
    hidden = [
        f"{found.trouble} in {percent(found.power[at]) if n >= at and found.power[at] else 'none'}"
        for code, found in POWER.items()
        if found.power[at] < 0.5
        and not (case.paired and code == DEPENDENCE.code)
        and (ordered or code not in (DRIFT.code, DEPENDENCE.code))  # then `order-unknown` names them
    ]
    if not hidden:
        return None
    of = next(filter(None, map(_of_session, looked_at)), "")
    return f"{counted(n, 'block' if case.paired else 'run')} {of}would show {', '.join(hidden)} of cases"


CANNOT_TELL = CaseDoubtKind(
    code="cannot-tell",
    subject="runs",
    severity="note",
    means="There are too few runs for a test to see the named trouble in most cases, were it there.",
    effect="None by itself. That no such doubt is raised does not show that there is no such trouble.",
    remedy=(
        "No action needed. Where such trouble would matter, blocks that hold both sides prevent it, and "
        "more runs can tell."
    ),
    evidence=cannot_tell,
)


def _of_session(sequence: Succession) -> str:
    return "of one session " if len(sequence.sessions) > 1 else ""
