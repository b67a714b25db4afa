"""The verdict on B from the interval of its ratio to A, what leaves it open or would decide it, and the gate.

A run that lost a share of its time to others would have been faster by up to 1 / (1 - share), but the exact
factor is unknown: more threads, and threads that wait for each other, lose more to the same neighbors. So a
verdict has to hold for every ratio in between. If a side may have lost more than `MOST_LOST`, there is no
verdict: caches, memory bandwidth and clock speed, which nobody counted, then matter as well.

For the error rates of such verdicts, see docs/explanation/statistics.md.

The answer comes from one side of the intervals that `compare` computes: a candidate may be better by any
amount. "All hold" needs no correction, because each has to hold by itself; "one is worse" is picked out of
several and rests on the interval that allows for that (Holm).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from assay.analyse.points import encounters
from assay.analyse.statistics import power
from assay.records import Better, Comparison, Estimate, Result, RunsNeeded, Verdict
from assay.units import counted, percent, significant

MOST_LOST = 0.2

Lost = tuple[float, float]
"""Shares of their time that A and B may have lost; 0 if it does not matter."""

NOTHING_LOST: Lost = (0.0, 0.0)


def lost_by_sides(
    a: Sequence[Result], b: Sequence[Result], margin: float, blocks: Sequence[tuple[Result, Result]] = ()
) -> Lost:
    """What two sides may have lost; 0 for a side that lost less than matters.

    blocks  a run of each, if both ran in the same shuffled blocks: only a difference between them matters
    """
    lost = encounters.lost_to_others(a, margin), encounters.lost_to_others(b, margin)
    if not any(lost) or (beyond := encounters.lost_beyond_each_other(blocks)) is None:
        return lost
    return min(lost[0], beyond[0]), min(lost[1], beyond[1])


def too_much(lost: Lost) -> bool:
    """Whether no verdict is possible, whatever the interval."""
    return max(lost) > MOST_LOST


def allowing_for(lost: Lost, estimate: Estimate, better: Better | None) -> Estimate:
    """The interval of B/A, stretched by what each side may have lost, up to `MOST_LOST`.

    For a metric without a direction, a loss may move it either way.
    """
    low, high = estimate.low, estimate.high
    if lost == NOTHING_LOST or low is None or high is None:
        return estimate
    a, b = (1 - min(share, MOST_LOST) for share in lost)
    less, more = {"higher": (a, b), "lower": (b, a), None: (min(a, b), min(a, b))}[better]
    return replace(estimate, low=low * less, high=high / more)


def lost_as_text(lost: Lost, names: tuple[str, str] = ("A", "B")) -> str:
    """`others on its CPUs may have held A back by 41 %, and B by 38 %`; "" if nothing.

    The share is that of the run, not of the measurement: which part of the run was measured is unknown.
    """
    known = [(name, percent(share)) for name, share in zip(names, lost, strict=True) if share]
    if not known:
        return ""
    (first, share), *second = known
    also = "".join(f", and {name} by {of_it}" for name, of_it in second)
    return f"others on its CPUs may have held {first} back by {share}{also}"


def what_decides(lost: Lost, shift: float) -> str:
    """What could decide a comparison whose interval is too wide.

    shift  part of the interval that more runs don't narrow
    """
    if any(lost):
        return "run again on an idle machine"
    return "more runs alone don't change that" if shift else "new runs"


Obstacle = Literal["no interval", "lost time", "no direction", "too wide"]


def decide(
    estimate: Estimate,
    margin: float,
    better: Better | None,
    lost: Lost = NOTHING_LOST,
    names: tuple[str, str] = ("A", "B"),
    shift: float = 0.0,
) -> tuple[Verdict, str]:
    """The verdict on B from the interval, and the reason as text.

    lost   shares of their time that A and B may have lost to others, by which the interval is stretched
    shift  part of the interval that more runs don't narrow

    Inside [1/(1 + margin), 1 + margin] the verdict is `equivalent`; otherwise, if the interval excludes 1,
    `faster` or `slower`; otherwise, or if there is no interval or too much may be lost, `undecided`.
    """
    stretched = allowing_for(lost, estimate, better)
    low, high = stretched.low, stretched.high
    if low is None or high is None:
        return "undecided", "an end of the interval exceeds any number: new runs"
    if too_much(lost):
        limit = f"above {percent(MOST_LOST)} there is no verdict"
        return "undecided", f"{lost_as_text(lost, names)}; {limit}: run again on an idle machine"
    least, most = 1 / (1 + margin), 1 + margin
    reach, remedy = f"the interval {_written(low)} to {_written(high)}", what_decides(lost, shift)
    if lost != NOTHING_LOST:
        reach += f", stretched because {lost_as_text(lost, names)},"
    if least <= low and high <= most:
        return "equivalent", f"{reach} is within the margin of ±{percent(margin)}"
    if low <= 1 <= high:
        if high / low > most / least:
            return "undecided", f"{reach} is wider than the margin of ±{percent(margin)}: {remedy}"
        beyond_it = f"contains 1 and extends beyond the margin of ±{percent(margin)}"
        return "undecided", f"{reach} {beyond_it}: {remedy}"
    if better is None:
        return "undecided", f"{reach} excludes 1, but the metric has no declared direction"
    verdict: Verdict = "faster" if (low > 1) == (better == "higher") else "slower"
    by_margin = beyond(estimate, margin)
    by = (
        f"by more than the margin of ±{percent(margin)}" if by_margin else "though possibly within the margin"
    )
    return verdict, f"{reach} excludes 1, {by}"


def more_would_decide(
    verdict: Verdict, estimate: Estimate, lost: Lost = NOTHING_LOST, shift: float = 0.0
) -> bool:
    """Whether the interval is too wide for a verdict: it contains 1, and more runs make it narrower.

    More runs with the same neighbors do not, nor do more with the same coarse timer or drift (`shift`).
    """
    low, high = estimate.low, estimate.high
    if lost != NOTHING_LOST or shift:
        return False
    return verdict == "undecided" and low is not None and high is not None and low <= 1 <= high


def beyond(estimate: Estimate, margin: float) -> bool:
    """Whether the whole interval is outside the margin."""
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and (low > 1 + margin or high < 1 / (1 + margin))


def surely_beyond(estimate: Estimate, margin: float, better: Better | None, lost: Lost) -> bool:
    """Whether it is outside the margin whatever the sides may have lost to others."""
    return not too_much(lost) and beyond(allowing_for(lost, estimate, better), margin)


def obstacle(c: Comparison) -> Obstacle | None:
    """What leaves it undecided; None if it is decided."""
    if c.verdict != "undecided":
        return None
    stretched = allowing_for(c.lost_to_others, c.deciding, c.point.better)
    if stretched.low is None or stretched.high is None:
        return "no interval"
    if too_much(c.lost_to_others):
        return "lost time"
    if not stretched.low <= 1 <= stretched.high:
        return "no direction"
    return "lost time" if any(c.lost_to_others) else "too wide"


def more_runs_may_decide(c: Comparison) -> bool:
    """Whether some ratio within the interval would give a verdict if it were known exactly.

    Neighbors that may have cost more than the difference prevent that, and so does a metric without a
    direction that moved by more than the margin.
    """
    lost, better, low, high = c.lost_to_others, c.point.better, c.deciding.low, c.deciding.high
    if too_much(lost):
        return False
    exact = allowing_for(lost, replace(c.deciding, low=1.0, high=1.0), better)
    less, more = exact.low, exact.high
    if low is None or high is None or less is None or more is None:
        return True
    within = max(low, 1 / (1 + c.margin) / less) < min(high, (1 + c.margin) / more)
    return within or (better is not None and (high * less > 1 or low * more < 1))


def runs_still_needed(c: Comparison, confidence: float) -> RunsNeeded:
    """Replicates per side that would decide a comparison with an interval: runs or sessions, as it counts.

    confidence  that is left to this claim
    """
    a, b = c.sessions if c.replication == "sessions" else c.n
    replicates = 2 / (1 / a + 1 / b)
    spread = power.Spread((c.error or 0.0) ** 2 * replicates, c.degrees or 0.0, c.method == "paired")
    return power.runs_needed(spread, c.margin, confidence, replication=c.replication)


def _written(value: float) -> str:
    return f"{value:.3f}" if abs(value - 1) >= 0.002 else f"{value:.4f}"


GateAnswer = Literal["holds", "worse", "undecided"]


@dataclass(frozen=True)
class GateVerdict:
    """One comparison, with the candidate as B, and whether it is worse by more than the margin."""

    comparison: Comparison
    answer: GateAnswer
    reason: str


def gate_verdict(comparison: Comparison) -> GateVerdict:
    """`holds`: the interval excludes a loss above the margin; `worse`: it excludes any smaller loss.

    A metric without a direction holds if it moved by no more than the margin either way, and is
    otherwise undecided, because neither way is known to be worse.
    """
    c = comparison
    alone, together = (
        _span(allowing_for(c.lost_to_others, ratio, c.point.better))
        for ratio in (c.ratio, c.family.ratio if c.family else c.ratio)
    )
    least, most = 1 / (1 + c.margin), 1 + c.margin
    width = f"the margin of {percent(c.margin)}"
    remedy = what_decides(c.lost_to_others, c.shift)
    if any(c.lost_to_others):
        remedy = f"{lost_as_text(c.lost_to_others, (c.a, c.b))}: {remedy}"
    if alone is None or too_much(c.lost_to_others):
        return GateVerdict(c, "undecided", c.reason)
    own = f"the interval{_beside_printed(c, alone)}"
    if c.family is not None:
        own = f"the interval taken alone{_stretched(c)} ({_as_text(alone)})"
    below, above = c.point.better in ("higher", None), c.point.better in ("lower", None)
    if (not below or alone[0] >= least) and (not above or alone[1] <= most):
        return GateVerdict(c, "holds", f"{own} is not worse by more than {width}")
    if c.point.better is None:
        unknown = "the metric has no declared direction: declare `better:`"
        return GateVerdict(c, "undecided", f"{own} is not within {width}, and {unknown}")
    if together is not None and ((below and together[1] < least) or (above and together[0] > most)):
        whole = f"the whole interval{_beside_printed(c, together)}"
        return GateVerdict(c, "worse", f"{whole} is worse by more than {width}")
    if c.family is not None and ((below and alone[1] < least) or (above and alone[0] > most)):
        others = counted(c.family.size - 1, "other")
        less = f"{own} is worse by more than {width}, but jointly with {others} it may be worse by less"
        return GateVerdict(c, "undecided", f"{less}: {remedy}")
    return GateVerdict(c, "undecided", f"{own} extends beyond {width}: {remedy}")


def overall(judged: Sequence[GateVerdict], missing: int) -> GateAnswer:
    """One answer for all: `worse` if any is, else `undecided` if any is or could not be compared."""
    answers = {verdict.answer for verdict in judged}
    if "worse" in answers:
        return "worse"
    return "undecided" if missing or "undecided" in answers or not answers else "holds"


def _span(ratio: Estimate) -> tuple[float, float] | None:
    return None if ratio.low is None or ratio.high is None else (ratio.low, ratio.high)


def _beside_printed(c: Comparison, span: tuple[float, float]) -> str:
    """Which interval it is, unless it is the one printed next to the ratio."""
    return f"{_stretched(c)} ({_as_text(span)})" if any(c.lost_to_others) else ""


def _stretched(c: Comparison) -> str:
    return ", stretched by the CPU time that others may have used" if any(c.lost_to_others) else ""


def _as_text(span: tuple[float, float]) -> str:
    return f"{significant(span[0], 4)} to {significant(span[1], 4)}"
