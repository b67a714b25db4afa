"""Doubts about how the runs were arranged: their number, order and sessions, and lost runs."""

from __future__ import annotations

import math
from collections import Counter
from itertools import groupby
from statistics import NormalDist, stdev

from assay.analyse.doubts.case_kinds import CaseDoubtKind, counted
from assay.analyse.doubts.rates import COVERED_UNDER_DRIFT, shown_at
from assay.analyse.points.case import Case
from assay.analyse.points.encounters import lost_to_others
from assay.analyse.points.groups import Group, cause
from assay.analyse.points.replication import pairing, session_of
from assay.analyse.statistics.intervals import constant
from assay.records import DEFAULT_MARGIN
from assay.units import all_of, listed, percent, significant

FEW_RUNS = 5  # with fewer per side, equivalence shows in 14 % of cases at a spread of 1 % and a margin of 2 %
MOST_RUNS = 60  # in one session, that are plausible without the start of each

WIDEST_PERCENTAGE = 0.5  # of an interval's half; a wider one is far from symmetric around the ratio


def too_few_runs(case: Case) -> str | None:
    """Fewer than five runs per side: valid intervals, but wide, and an outlier can't be recognized."""
    few = [side for side in case.sides if len(side.group.samples) < FEW_RUNS]
    if not few:
        return None
    evidence = " and ".join(f"{side.name} has {counted(len(side.group.samples), 'run')}" for side in few)
    return f"{evidence}: too few to recognize an outlier"


_SET_REPEATS = (
    "Set `repeats` to five or more and run the suite again: with another number of repeats, a new session "
    "starts."
)
_UNTIL_DECIDED = (
    "`--until decided` chooses the number of runs, whatever `repeats` says: if something is still undecided, "
    "the same command resumes an unfinished session."
)


def _chosen_by_looks(case: Case) -> list[tuple[str, str]]:
    """For runs until decided, whose number `repeats` does not determine."""
    few = (side for side in case.sides if len(side.group.samples) < FEW_RUNS)
    looked = all(sample.result.run.looks for side in few for sample in side.group.samples)
    return [(_SET_REPEATS.removesuffix("."), _UNTIL_DECIDED.removesuffix("."))] if looked else []


TOO_FEW_RUNS = CaseDoubtKind(
    code="too-few-runs",
    subject="runs",
    severity="weak",
    means="A side has fewer than five runs that count.",
    effect=(
        "The interval is valid but wide: with three runs per side, a spread of 1 % and a margin of 2 %, "
        "equal systems are shown to be equal in only 14 % of cases. An outlier can't be recognized."
    ),
    remedy=_SET_REPEATS,
    evidence=too_few_runs,
    reworded=_chosen_by_looks,
)


def wider_than_margin(case: Case) -> str | None:
    """An interval so wide that it can't fit within the margin, unless it is entirely outside it."""
    low, high = case.estimate.low, case.estimate.high
    if case.margin is None or low is None or high is None:
        return None
    half = math.log(high / low) / 2
    if half <= math.log1p(case.margin) or low > 1 + case.margin or high < 1 / (1 + case.margin):
        return None
    unknown = "that the sides are equal" if low <= 1 <= high else "whether a difference exceeds the margin"
    return f"{_width(half)}, the margin is ±{percent(case.margin)}: these runs can't show {unknown}"


def _width(half: float) -> str:
    """The width of an interval by half of it on the log scale; a wide one as a factor: no ratio is −294 %."""
    away = math.expm1(half)
    if away <= WIDEST_PERCENTAGE:
        return f"the interval is ±{percent(away)} wide"
    return f"the ratio is known only within a factor of {significant(1 + away, 2)}"


_ADD_RUNS = (
    "Decide from new runs, with `assay run SUITE --until decided`, make them quieter (longer trials, nothing "
    "else on the machine), or accept a wider margin"
)


def _load_first(case: Case) -> list[tuple[str, str]]:
    """If a side may have lost time to others, which more runs of the same kind don't undo."""
    loaded = any(lost_to_others(side.group.results, case.margin or DEFAULT_MARGIN) for side in case.sides)
    return [(_ADD_RUNS, "Run again on an idle machine before you make more runs")] if loaded else []


WIDER_THAN_MARGIN = CaseDoubtKind(
    code="wider-than-margin",
    subject="runs",
    severity="weak",
    means="The interval of the ratio is wider than the margin on both sides of 1, and overlaps it.",
    effect=(
        "With this many runs and this spread, the sides can't be shown to be equal, even if they are. If the "
        "interval excludes 1, it remains open whether they differ by more than the margin."
    ),
    remedy=f"{_ADD_RUNS}.",
    evidence=wider_than_margin,
    reworded=_load_first,
)


def not_interleaved(case: Case) -> str | None:
    """Sides that were not run in the same shuffled blocks: any change in between affects one side."""
    if len(case.sides) < 2 or case.paired or _paired_but_for_later_runs(case):
        return None
    a, b = case.sides
    evidence = (
        f"{a.name} ran in {listed(a.sessions)}, {b.name} in {listed(b.sessions)}"
        if a.sessions != b.sessions
        else "the sides were not shuffled together within blocks"
    )
    runs = shown_at(min(len(side.group.samples) for side in case.sides))
    order = "known" if case.successions and all(s.ordered for s in case.successions) else "unknown"
    return (
        f"{evidence}: a drift of the machine in between looks like a difference (a drift of ±1 spread "
        f"reduces coverage to {percent(COVERED_UNDER_DRIFT[order][runs])} with {runs} runs per side)"
    )


NOT_INTERLEAVED = CaseDoubtKind(
    code="not-interleaved",
    subject="runs",
    severity="biased",
    means="The two sides did not run in the same shuffled blocks.",
    effect=(
        "Any change in between (temperature, neighbors, a file cache, the day) affects only one side and "
        "looks like a difference. Under a drift of one spread in either direction, the 95 % interval covers "
        "the truth in 87, 80, 59 and 31 % of cases with 3, 5, 10 and 40 runs per side; if their order is "
        "unknown, in 87, 72, 44 and 1 %; with blocks, in 95 %."
    ),
    remedy="Run one suite that names both systems: every block then contains both, in random order.",
    evidence=not_interleaved,
)


def outside_block(case: Case) -> str | None:
    """Runs that were repeated, or first started, after their block: at another time, with other neighbors."""
    later = [(side, sum(s.result.run.outside_block for s in side.group.samples)) for side in case.sides]
    parts = [
        f"{number} of {counted(len(side.group.samples), 'run')} of {side.name}"
        for side, number in later
        if number
    ]
    if len(case.sides) < 2 or not parts:
        return None
    return f"{' and '.join(parts)} ran outside the blocks after a failure, so no blocks are paired"


OUTSIDE_BLOCK = CaseDoubtKind(
    code="outside-block",
    subject="runs",
    severity="weak",
    means=(
        "Runs of a side were repeated with `--failed`, or started only after a later block had begun "
        "because a failure had held them up."
    ),
    effect=(
        "They ran at another time than their block, perhaps with other neighbors. They can't be paired with "
        "its runs, so the sides are compared unpaired and the interval is often wider. What changed in "
        "between affects the side that has more of them."
    ),
    remedy=(
        "If that matters, run the suite again in a new session (`assay run SUITE --new`): its blocks are "
        "complete and paired."
    ),
    evidence=outside_block,
)


def _paired_but_for_later_runs(case: Case) -> bool:
    """Whether some blocks contain both sides, and only runs outside their block prevent pairs."""
    a, b = ([s for s in side.group.samples if not s.result.run.outside_block] for side in case.sides)
    design = pairing(a, b) if a and b else None
    return design is not None and bool(design.pairs)


def one_session(case: Case) -> str | None:
    """One side has a single session, and the other several: how much its sessions differ is unknown."""
    alone = [side for side in case.sides if len(side.sessions) == 1]
    if not 0 < len(alone) < len(case.sides):
        return None
    [other] = (side for side in case.sides if len(side.sessions) > 1)
    return (
        f"all runs of {alone[0].name} come from one session ({listed(alone[0].sessions)}): it is taken "
        f"to differ from its others as the {len(other.sessions)} sessions of {other.name} do from each other"
    )


ONE_SESSION = CaseDoubtKind(
    code="one-session",
    subject="runs",
    severity="weak",
    means=(
        "All runs of a side come from one session: one allocation, one temperature, one day. Those of the "
        "other come from several."
    ),
    effect=(
        "Runs within a session are more alike than runs of different sessions. In published ResNet-50 "
        "results the spread within a session is 0.05 %, so that 0.5 % between two sessions looks certain. "
        "The claim holds for this session."
    ),
    remedy=(
        "Repeat the suite on other days or nodes, and compare sessions; until then the claim holds for this "
        "session, not for the system."
    ),
    evidence=one_session,
)


def pooled_sessions(case: Case) -> str | None:
    """Runs of several sessions treated as independent, in figures of one side alone.

    In comparisons, sessions are the replicates then, each with the mean of its runs.
    """
    pooled = [side for side in case.sides if len(side.sessions) > 1]
    if not pooled or len(case.sides) == 2:
        return None
    evidence = "; ".join(f"{side.name}: {listed(side.sessions)}" for side in pooled)
    return f"runs of several sessions count as independent ({evidence}), but runs of one session are alike"


POOLED_SESSIONS = CaseDoubtKind(
    code="pooled-sessions",
    subject="runs",
    severity="weak",
    means="Runs of several sessions are counted as if they were independent.",
    effect=(
        "Runs of one session are alike, so there are fewer independent runs than counted and the "
        "interval is too narrow."
    ),
    remedy="Judge the sessions one by one, too (`suite/session:system`).",
    evidence=pooled_sessions,
)


def steps_as_runs(case: Case) -> str | None:
    """More imported values in one session than runs are made, without the time of each."""
    for side in case.sides:
        for (_, session), samples in groupby(sorted(side.group.samples, key=session_of), key=session_of):
            runs = [sample.result.run for sample in samples]
            starts = {run.started_at for run in runs}
            stated = len(starts) == len(runs) and None not in starts
            if len(runs) > MOST_RUNS and not stated and all(run.source is not None for run in runs):
                return f"{side.name}: {len(runs)} runs in session {session}, and not the start of each"
    return None


STEPS_AS_RUNS = CaseDoubtKind(
    code="steps-as-runs",
    subject="runs",
    severity="biased",
    means=f"One imported session has more than {MOST_RUNS} runs of a side, and no `started_at` for each.",
    effect=(
        "Probably these are steps or requests of one run. They share its placement and its luck, and say "
        "nothing about the next run: the interval may be 10 times too narrow."
    ),
    remedy=(
        "Import one value per run, such as the mean of its steps. If these are runs, state `started_at` for "
        "each."
    ),
    rates=(
        f"Every such session raises it, also one of real runs. Up to {MOST_RUNS} steps imported as runs are "
        "not seen: nothing in their values tells them from runs."
    ),
    evidence=steps_as_runs,
    looks_at="runs",
)


def looked_before(case: Case) -> str | None:
    """A decision from sessions that were added one after another, with a chance to look before each."""
    low, high, most = case.estimate.low, case.estimate.high, 1 + (case.margin or 0.0)
    sessions = max(len(side.sessions) for side in case.sides)
    if len(case.sides) < 2 or case.margin is None or low is None or high is None or sessions < 3:
        return None
    if low <= 1 <= high and not 1 / most <= low <= high <= most:
        return None
    return f"the runs are from {sessions} sessions, and no plan says after which of them to compare"


LOOKED_BEFORE = CaseDoubtKind(
    code="looked-before",
    subject="runs",
    severity="note",
    means=(
        "A comparison of three sessions or more decides something. Assay keeps no record of comparisons, so "
        "it can't tell whether there was one after an earlier session."
    ),
    effect=(
        "None if the number of sessions was fixed in advance. If there was a comparison after each session, "
        "and more were added while it was undecided, equal systems are called faster or slower in 9, 13 and "
        "18 % of cases by 3, 5 and 8 sessions."
    ),
    remedy=(
        "If you looked before, decide from new runs: `assay run SUITE --until decided` allows for its looks. "
        "Otherwise no action needed."
    ),
    rates="Raised for every such comparison, whether or not anyone looked.",
    evidence=looked_before,
)


def failed_runs_left_out(case: Case) -> str | None:
    """Runs at this point without a result: the runs with a result may be the lucky ones."""
    parts = []
    for side in case.sides:
        lost = len(side.group.left_out) + side.group.lacking
        if lost:
            tried = lost + len(side.group.samples)
            parts.append(
                f"{side.name}: {lost} of {counted(tried, 'run')} gave no result"
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
        "The successful runs may be the lucky ones: a system that fails under load looks faster than it is."
    ),
    remedy=(
        "Read the causes with `assay show` and fix them. Then `assay run SUITE --failed`, with the same "
        "options, repeats what failed in its newest session; finished trials and earlier attempts are kept."
    ),
    evidence=failed_runs_left_out,
)


def _had_they_been_slowest(group: Group, lost: float) -> str:
    """By how much the mean of all runs would be worse if the lost runs were the worst of a normal spread."""
    if len(group.samples) < 2 or min(group.values) <= 0:
        return ""
    normal = NormalDist()
    cut = normal.inv_cdf(lost)
    mean = normal.pdf(cut) / (1 - lost)  # of the part above the cut, in spreads of the whole
    left = math.sqrt(1 + cut * mean - mean**2)
    seen = stdev(map(math.log, group.values))
    worse = math.expm1(seen * mean / left)
    return f"; if these were its worst, its mean would be {percent(worse)} worse" if worse > 0 else ""


def dropped_blocks(case: Case) -> str | None:
    """Blocks that lack a side and are left out of the pairs."""
    if not case.dropped:
        return None
    return f"{counted(case.dropped, 'block')} without one of the sides left out of the pairs"


DROPPED_BLOCKS = CaseDoubtKind(
    code="dropped-blocks",
    subject="runs",
    severity="weak",
    means="Blocks that lack a run of one side are left out of the pairs.",
    effect=(
        "There are fewer pairs, and if it is always the same side that fails, the other blocks are a biased "
        "sample."
    ),
    remedy=(
        "Complete the blocks: `assay run SUITE` resumes an unfinished session, and `assay run SUITE "
        "--failed` repeats what failed in the newest one."
    ),
    evidence=dropped_blocks,
)


def identical_values(case: Case) -> str | None:
    """Several runs with the same value: the metric's resolution hides their spread.

    A count of epochs naturally takes few values.
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
    return f"{evidence}: zero spread is more likely the coarse step of a timer, a rounded print or a search"


IDENTICAL_VALUES = CaseDoubtKind(
    code="identical-values",
    subject="runs",
    severity="weak",
    means="All runs of a side gave the same value, and it is not a count of epochs.",
    effect=(
        "A coarse step of a timer, a rounded print or a search hides their spread, so there is no "
        "honest interval."
    ),
    remedy=(
        "Print more digits, search in finer steps, or measure for longer. A count that can't vary needs no "
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
