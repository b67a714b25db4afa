"""Doubts about how the runs were arranged: how many, in which order, of how many sessions, how many lost."""

from __future__ import annotations

import math
from collections import Counter
from statistics import NormalDist, stdev

from assay.analyse.comparison.groups import Group, cause
from assay.analyse.comparison.pairing import pairing
from assay.analyse.doubts.case import Case, CaseDoubtKind, counted, listed, percent
from assay.analyse.doubts.detection import COVERED_UNDER_DRIFT, shown_at
from assay.analyse.statistics.intervals import constant
from assay.units import all_of, significant

FEW_RUNS = 5  # with fewer a side, equivalence shows in 14 % of cases at a spread of 1 % and a margin of 2 %


def too_few_runs(case: Case) -> str | None:
    """Fewer than five runs a side: valid intervals, but wide, and one odd run can't be told from the rest."""
    few = [side for side in case.sides if len(side.group.samples) < FEW_RUNS]
    if not few:
        return None
    evidence = " and ".join(f"{side.name} has {counted(len(side.group.samples), 'run')}" for side in few)
    return f"{evidence}: too few to see whether one of them is off"


TOO_FEW_RUNS = CaseDoubtKind(
    code="too-few-runs",
    subject="runs",
    severity="weak",
    means="A side has fewer than five runs that count.",
    effect=(
        "The interval is valid but wide: with three runs a side, a spread of 1 % and a margin of 2 %, equal "
        "systems are shown to be equal in 14 % of cases only. One odd run can't be told from the rest."
    ),
    remedy="Raise `repeats` to five or more and run the suite again; it resumes where it was.",
    evidence=too_few_runs,
)


def wider_than_margin(case: Case) -> str | None:
    """An interval so wide that it could not lie within the margin; no matter where it lies outside."""
    low, high = case.estimate.low, case.estimate.high
    if case.margin is None or low is None or high is None:
        return None
    half = math.log(high / low) / 2
    if half <= math.log1p(case.margin) or low > 1 + case.margin or high < 1 / (1 + case.margin):
        return None
    return (
        f"the interval is ±{percent(math.expm1(half))} wide, the margin ±{percent(case.margin)}: "
        "so many runs can't show that the sides are equal"
    )


WIDER_THAN_MARGIN = CaseDoubtKind(
    code="wider-than-margin",
    subject="runs",
    severity="weak",
    means="The interval of the ratio is wider than the margin on both sides of 1, and reaches into it.",
    effect="So many runs of such a spread can't show that the sides are equal, whatever the truth is.",
    remedy=(
        "Make more runs or quieter ones (longer trials, nothing else on the machine), or accept a wider "
        "margin."
    ),
    evidence=wider_than_margin,
)


def not_interleaved(case: Case) -> str | None:
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
    return (
        f"{evidence}: a drift of the machine in between looks like a difference "
        f"(one of ±1 spread leaves {percent(COVERED_UNDER_DRIFT[runs])} coverage at {runs} runs a side)"
    )


NOT_INTERLEAVED = CaseDoubtKind(
    code="not-interleaved",
    subject="runs",
    severity="biased",
    means="The two sides did not run in the same shuffled blocks.",
    effect=(
        "Whatever changed in between (temperature, neighbours, a file cache, the day) falls on one side "
        "and looks like a difference. Under a drift of one spread either way the 95 % interval covers the "
        "truth in 87, 72, 44 and 1 % of cases at 3, 5, 10 and 40 runs a side; with blocks in 95 %."
    ),
    remedy="Run one suite that names both systems: every block then holds both, in random order.",
    evidence=not_interleaved,
)


def outside_block(case: Case) -> str | None:
    """Runs that were repeated, or first begun, after their block: at another time, beside others."""
    later = [(side, sum(s.result.run.outside_block for s in side.group.samples)) for side in case.sides]
    parts = [
        f"{number} of {counted(len(side.group.samples), 'run')} of {side.name}"
        for side, number in later
        if number
    ]
    if len(case.sides) < 2 or not parts:
        return None
    return f"{' and '.join(parts)} ran outside the blocks, after a failure, so that no blocks are paired"


OUTSIDE_BLOCK = CaseDoubtKind(
    code="outside-block",
    subject="runs",
    severity="weak",
    means=(
        "Runs of a side were repeated with `--failed`, or were first begun when a later block had begun "
        "because a failure had held them up."
    ),
    effect=(
        "They ran at another time than their block, perhaps beside other neighbours. They are no pairs with "
        "its runs, so the sides are compared unpaired and the interval is often wider. What changed in "
        "between falls on the side that has more of them."
    ),
    remedy=(
        "Where that matters, run the suite again in a new session (`assay run SUITE --new`): its blocks are "
        "whole, and paired."
    ),
    evidence=outside_block,
)


def _paired_but_for_later_runs(case: Case) -> bool:
    """Whether some blocks hold both sides, and only runs outside their block prevent pairs."""
    a, b = ([s for s in side.group.samples if not s.result.run.outside_block] for side in case.sides)
    design = pairing(a, b) if a and b else None
    return design is not None and bool(design.pairs)


def one_session(case: Case) -> str | None:
    """All runs of a side share one session's luck: allocation, temperature, day."""
    if any(len(side.sessions) != 1 for side in case.sides):
        return None
    sessions = sorted({session for side in case.sides for session in side.sessions})
    return (
        f"all runs {'of each side ' if len(sessions) > 1 else ''}come from one session ({listed(sessions)})"
    )


ONE_SESSION = CaseDoubtKind(
    code="one-session",
    subject="runs",
    severity="weak",
    means="All runs of a side come from one session: one allocation, one temperature, one day.",
    effect=(
        "Runs of a session are more alike than sessions are. In published ResNet-50 results the spread "
        "within a session is 0.05 %, so that 0.5 % between two sessions looks certain. The claim holds for "
        "this session."
    ),
    remedy=(
        "Repeat the suite on other days or nodes, and compare sessions; until then the claim holds for this "
        "session, not for the system."
    ),
    evidence=one_session,
)


def pooled_sessions(case: Case) -> str | None:
    """Runs of several sessions treated as if they were independent.

    Not where both sides have several: then sessions are replicated, each with the mean of its runs.
    """
    pooled = [side for side in case.sides if len(side.sessions) > 1]
    if not pooled or len(pooled) == 2:
        return None
    evidence = "; ".join(f"{side.name}: {listed(side.sessions)}" for side in pooled)
    return f"runs of several sessions count as independent ({evidence}), though those of a session are alike"


POOLED_SESSIONS = CaseDoubtKind(
    code="pooled-sessions",
    subject="runs",
    severity="weak",
    means="Runs of several sessions count as if they were independent.",
    effect=(
        "Those of one session are alike, so there are fewer independent runs than are counted and the "
        "interval is too narrow."
    ),
    remedy="Give both sides several sessions, or compare session by session too (`suite/session:system`).",
    evidence=pooled_sessions,
)


def failed_runs_left_out(case: Case) -> str | None:
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
    return "; ".join(parts)


FAILED_RUNS_LEFT_OUT = CaseDoubtKind(
    code="failed-runs-left-out",
    subject="runs",
    severity="biased",
    means="Some runs at this point failed, or did not report the metric, and are left out.",
    effect=(
        "The runs that went well may be the lucky ones: a system that fails under load looks faster than "
        "it is."
    ),
    remedy=(
        "Read the causes with `assay show` and fix them. `assay run SUITE --failed`, with the same options, "
        "then repeats what failed in its newest session; finished trials and earlier attempts are kept."
    ),
    evidence=failed_runs_left_out,
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


def dropped_blocks(case: Case) -> str | None:
    """Blocks that lack a side, left out of the pairs."""
    if not case.dropped:
        return None
    return f"{counted(case.dropped, 'block')} without one of the sides left out of the pairs"


DROPPED_BLOCKS = CaseDoubtKind(
    code="dropped-blocks",
    subject="runs",
    severity="weak",
    means="Blocks that lack a run of one side are left out of the pairs.",
    effect="Fewer pairs; and if it is always the same side that fails, the blocks that remain are chosen.",
    remedy=(
        "Complete the blocks: `assay run SUITE` resumes an unfinished session, `assay run SUITE --failed` "
        "repeats what failed in the newest one."
    ),
    evidence=dropped_blocks,
)


def identical_values(case: Case) -> str | None:
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
    return (
        f"{evidence}: a spread of zero is more likely a coarse step, of a timer, a rounded print or a search"
    )


IDENTICAL_VALUES = CaseDoubtKind(
    code="identical-values",
    subject="runs",
    severity="weak",
    means="All runs of a side gave one and the same value, which is no count of epochs.",
    effect=(
        "Their spread is hidden by a coarse step, of a timer, a rounded print or a search, so there is no "
        "honest interval."
    ),
    remedy=(
        "Print more digits, search in finer steps or measure for longer. A count that can't vary needs no "
        "interval."
    ),
    evidence=identical_values,
)


def _why(group: Group) -> str:
    causes = Counter(cause(result) or "no cause stated" for result in group.left_out)
    if group.lacking:
        causes[f"{group.point.metric} not reported"] += group.lacking
    listed = "; ".join(f"{times} × {why}" for why, times in causes.most_common(2))
    return f" ({listed})" if listed else ""
