"""Doubts about how the runs were arranged: how many, in which order, of how many sessions, how many lost."""

from __future__ import annotations

import math
from collections import Counter
from statistics import NormalDist, stdev

from assay.analyse.doubts.case import Case, counted, listed, percent
from assay.analyse.doubts.detection import COVERED_UNDER_DRIFT, shown_at
from assay.analyse.groups import Group, cause
from assay.analyse.intervals import constant
from assay.analyse.pairing import pairing
from assay.records import Doubt
from assay.units import all_of, significant

FEW_RUNS = 5  # with fewer a side, equivalence shows in 14 % of cases at a spread of 1 % and a margin of 2 %


def too_few_runs(case: Case) -> Doubt | None:
    """Fewer than five runs a side: valid intervals, but wide, and one odd run can't be told from the rest."""
    few = [side for side in case.sides if len(side.group.samples) < FEW_RUNS]
    if not few:
        return None
    evidence = " and ".join(f"{side.name} has {counted(len(side.group.samples), 'run')}" for side in few)
    return Doubt(
        "too-few-runs",
        f"{evidence}: too few to see whether one of them is off",
        f"Raise `repeats` to {FEW_RUNS} or more and run the suite again",
    )


def wider_than_margin(case: Case) -> Doubt | None:
    """An interval so wide that it could not lie within the margin; no matter where it lies outside."""
    low, high = case.estimate.low, case.estimate.high
    if case.margin is None or low is None or high is None:
        return None
    half = math.log(high / low) / 2
    if half <= math.log1p(case.margin) or low > 1 + case.margin or high < 1 / (1 + case.margin):
        return None
    return Doubt(
        "wider-than-margin",
        f"the interval is ±{percent(math.expm1(half))} wide, the margin ±{percent(case.margin)}: "
        "so many runs can't show that the sides are equal",
        "More runs, quieter ones (longer trials, nothing else on the machine), or a wider margin",
    )


def not_interleaved(case: Case) -> Doubt | None:
    """Sides that were not run in the same shuffled blocks: whatever changed in between falls on one side."""
    if len(case.sides) < 2 or case.paired or _paired_but_for_later_runs(case):
        return None
    a, b = case.sides
    evidence = (
        f"{a.name} ran in {listed(a.sessions)}, {b.name} in {listed(b.sessions)}"
        if a.sessions != b.sessions
        else "the sides were not shuffled together within blocks"
    )
    runs = shown_at(min(len(side.group.samples) for side in case.sides))
    return Doubt(
        "not-interleaved",
        f"{evidence}: a drift of the machine in between looks like a difference "
        f"(one of ±1 spread leaves {percent(COVERED_UNDER_DRIFT[runs])} coverage at {runs} runs a side)",
        "One suite with both, so that each block holds both",
    )


def outside_block(case: Case) -> Doubt | None:
    """Runs that were repeated, or first begun, after their block: at another time, beside others."""
    later = [(side, sum(s.result.run.outside_block for s in side.group.samples)) for side in case.sides]
    parts = [
        f"{number} of {counted(len(side.group.samples), 'run')} of {side.name}"
        for side, number in later
        if number
    ]
    if len(case.sides) < 2 or not parts:
        return None
    return Doubt(
        "outside-block",
        f"{' and '.join(parts)} ran outside the blocks, after a failure, so that no blocks are paired",
        "Run the suite again in a new session: its blocks are whole, and paired",
    )


def _paired_but_for_later_runs(case: Case) -> bool:
    """Whether some blocks hold both sides, and only runs outside their block prevent pairs."""
    a, b = ([s for s in side.group.samples if not s.result.run.outside_block] for side in case.sides)
    design = pairing(a, b) if a and b else None
    return design is not None and bool(design.pairs)


def one_session(case: Case) -> Doubt | None:
    """All runs of a side share one session's luck: allocation, temperature, day."""
    if any(len(side.sessions) != 1 for side in case.sides):
        return None
    sessions = sorted({session for side in case.sides for session in side.sessions})
    return Doubt(
        "one-session",
        f"all runs {'of each side ' if len(sessions) > 1 else ''}come from one session ({listed(sessions)})",
        "The claim holds for that session; to claim it of the system, repeat the suite on other days",
    )


def pooled_sessions(case: Case) -> Doubt | None:
    """Runs of several sessions treated as if they were independent.

    Not where both sides have several: then sessions are replicated, each with the mean of its runs.
    """
    pooled = [side for side in case.sides if len(side.sessions) > 1]
    if not pooled or len(pooled) == 2:
        return None
    evidence = "; ".join(f"{side.name}: {listed(side.sessions)}" for side in pooled)
    return Doubt(
        "pooled-sessions",
        f"runs of several sessions count as independent ({evidence}), though those of a session are alike",
        "Compare session by session too, as suite/session:system",
    )


def failed_runs_left_out(case: Case) -> Doubt | None:
    """Runs at this point that gave no result: the ones that did may be the lucky ones."""
    parts = []
    for side in case.sides:
        lost = len(side.group.left_out) + side.group.lacking
        if lost:
            tried = lost + len(side.group.samples)
            parts.append(
                f"{side.name}: {lost} of {counted(tried, 'run')} gave none"
                f"{_why(side.group)}{_had_they_been_slowest(side.group, lost / tried)}"
            )
    if not parts:
        return None
    return Doubt(
        "failed-runs-left-out",
        "; ".join(parts),
        "Fix the cause (`assay show`), then repeat what failed: `assay run SUITE --failed`",
    )


def _had_they_been_slowest(group: Group, lost: float) -> str:
    """By how much the mean of all runs would be worse, were the lost ones a normal spread's worst."""
    if len(group.samples) < 2 or min(group.values) <= 0:
        return ""
    normal = NormalDist()
    cut = normal.inv_cdf(lost)
    mean = normal.pdf(cut) / (1 - lost)  # of what is left above the cut, in spreads of all
    left = math.sqrt(1 + cut * mean - mean**2)
    seen = stdev(map(math.log, group.values))
    worse = math.expm1(seen * mean / left)
    return f"; had these been its worst, its mean would be {percent(worse)} worse" if worse > 0 else ""


def dropped_blocks(case: Case) -> Doubt | None:
    """Blocks that lack a side, left out of the pairs."""
    if not case.dropped:
        return None
    return Doubt(
        "dropped-blocks",
        f"{counted(case.dropped, 'block')} without one of the sides left out of the pairs",
        "Complete the blocks: `assay run SUITE` resumes an unfinished session, --failed repeats what failed",
    )


def identical_values(case: Case) -> Doubt | None:
    """Several runs with one and the same value: the figure's resolution hides their spread.

    A count of epochs takes few values by its nature.
    """
    if case.is_count:
        return None
    alike = [
        side
        for side in case.sides
        if len(side.group.samples) > 1
        and min(side.group.values) > 0
        and constant([math.log(value) for value in side.group.values])
    ]
    if not alike:
        return None
    evidence = "; ".join(
        f"{all_of(len(side.group.samples), 'run')} of {side.name} gave "
        f"{significant(side.group.values[0], 6)} {side.group.point.unit}".rstrip()
        for side in alike
    )
    return Doubt(
        "identical-values",
        f"{evidence}: a spread of zero is more likely a coarse step, of a timer, a rounded print or a search",
        "Print more digits, search in finer steps or measure for longer; a count that can't vary needs no "
        "interval",
    )


def _why(group: Group) -> str:
    causes = Counter(cause(result) or "no cause stated" for result in group.left_out)
    if group.lacking:
        causes[f"{group.point.metric} not reported"] += group.lacking
    listed = "; ".join(f"{times} × {why}" for why, times in causes.most_common(2))
    return f" ({listed})" if listed else ""
