"""Doubts about the runs as a sequence: drift, dependence, two modes, one run far off.

They look at what the interval rests on: log-ratios of blocks where sides are paired, else each side's runs.
All four together hold `FALSE_ALARM`: of comparisons whose runs are independent and normal, at most so many
raise any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from assay.analyse import trouble
from assay.analyse.doubts.case import Case, counted, percent
from assay.analyse.doubts.detection import POWER, shown_at
from assay.analyse.doubts.succession import Succession
from assay.records import Doubt

FALSE_ALARM = 0.05
LEVEL = FALSE_ALARM / 4  # of each of the four
MATTERS = 0.002  # what moves a figure by less than a tenth of the usual margin is no matter
Figure = TypeVar("Figure")


def _within_sessions(
    sequence: Succession,
    test: Callable[[tuple[float, ...], tuple[float, ...]], tuple[Figure, float] | None],
) -> tuple[Figure, float, int] | None:
    """The most striking session's figure, its probability among all sessions, and its runs."""
    found = []
    for logs, lengths in zip(sequence.by_session, sequence.lengths_by_session, strict=True):
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


def drift(case: Case) -> Doubt | None:
    """A trend over the runs of a session, or over its blocks' ratios."""
    looked_at = case.successions
    for sequence in looked_at:
        seen = _within_sessions(sequence, _drift) if sequence.ordered else None
        if seen is None or seen[1] > LEVEL / len(looked_at):
            continue
        change, probability, runs = seen
        return Doubt(
            "drift",
            f"{sequence.name} {'rose' if change > 0 else 'fell'} by {percent(abs(math.expm1(change)))} over "
            f"{counted(runs, 'block' if case.paired else 'run')} in a row (p {probability:.1g})",
            "Find what changes (temperature, a cache that fills, a neighbour), let it settle before the "
            "first run, and run both sides shuffled within blocks",
        )
    return None


def dependence(case: Case) -> Doubt | None:
    """Runs that resemble the one before, where no drift explains it."""
    if drift(case) is not None:
        return None
    looked_at = case.successions
    for sequence in looked_at:
        seen = _within_sessions(sequence, _lag1) if sequence.ordered else None
        if seen is None or seen[1] > LEVEL / len(looked_at):
            continue
        correlation, probability, runs = seen
        return Doubt(
            "dependence",
            f"{sequence.name}: each of {runs} runs resembles the one before (correlation {correlation:.2f}, "
            f"p {probability:.1g}), so they tell less than {runs} independent ones and the interval is too "
            "narrow",
            "Shuffle the sides within blocks, or leave time between the runs; judge by sessions",
        )
    return None


def two_modes(case: Case) -> Doubt | None:
    """Two clusters of a session's runs with a gap between them: sessions differ without any switch.

    So do trainings of different lengths, and counts, which only take the values of their grid.
    """
    looked_at = () if case.is_count else case.successions
    for sequence in looked_at:
        seen = _within_sessions(sequence, trouble.modes)
        if seen is None or seen[1] > LEVEL / len(looked_at):
            continue
        found, _, _ = seen
        apart = math.expm1(found.means[1] - found.means[0])
        wide = (
            f"{found.gap:.1f} times" if math.isfinite(found.gap) and found.gap < 1000 else "over 1000 times"
        )
        return Doubt(
            "two-modes",
            f"{sequence.name}: {found.counts[0]} and {found.counts[1]} runs {_of_session(sequence)}"
            f"form two groups {percent(apart)} apart, with a gap {wide} the spread within them",
            "Find what switches (clock boost, placement of ranks, which node, which algorithm was chosen) "
            "and pin it; the mean lies where no run does",
        )
    return None


def one_far_off(case: Case) -> Doubt | None:
    """One run away from all others by far more than they differ among themselves.

    That a training was longer than others explains its time; a count of epochs is the seed's.
    """
    looked_at = () if case.is_count else case.successions
    for sequence in looked_at:
        found = trouble.far_off(sequence.logs, sequence.lengths)
        if found is None or found.probability > LEVEL / len(looked_at):
            continue
        rest = len(sequence.logs) - 1
        shift = math.expm1(abs(found.log_ratio) / len(sequence.logs))
        if shift < MATTERS:
            continue
        of_rest = "what its length explains by" if trouble.varies(sequence.lengths) else "the mean of"
        return Doubt(
            "one-far-off",
            f"{sequence.name}: {sequence.runs[found.index]} is {percent(abs(math.expm1(found.log_ratio)))} "
            f"{'above' if found.log_ratio > 0 else 'below'} {of_rest} the other {rest} "
            f"(p {found.probability:.1g}) and moves the mean of all by {percent(shift)}",
            "Look at that run (`assay show`) before anything else; leave it out only for a cause found, "
            "never for its value",
        )
    return None


def order_unknown(case: Case) -> Doubt | None:
    """Runs that others made and of which nobody says when they ran."""
    unknown = [
        s.name for s in case.successions if not s.ordered and max(s.sessions) >= trouble.FEWEST_FOR_DRIFT
    ]
    if not unknown:
        return None
    return Doubt(
        "order-unknown",
        f"nothing says when the runs of {' and '.join(unknown)} ran, one after the other: "
        "drift and dependence are not tested",
        "Import logs that state their time, or give the spreadsheet a column `started_at`",
    )


def cannot_tell(case: Case) -> Doubt | None:
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
        and not (case.paired and code == "dependence")
        and (ordered or code not in ("drift", "dependence"))  # then `order-unknown` names them
    ]
    if not hidden:
        return None
    of = next(filter(None, map(_of_session, looked_at)), "")
    return Doubt(
        "cannot-tell",
        f"{counted(n, 'block' if case.paired else 'run')} {of}would show {', '.join(hidden)} of cases",
        "No action needed: where such trouble would matter, more runs can tell",
    )


def _of_session(sequence: Succession) -> str:
    return "of one session " if len(sequence.sessions) > 1 else ""
