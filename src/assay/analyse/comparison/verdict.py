"""The verdict on B from the interval of its ratio to A, what leaves it open, and what would decide it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from assay.analyse.comparison import lost_time
from assay.analyse.comparison.lost_time import NOTHING_LOST, Lost, allowing_for, too_much
from assay.analyse.statistics import power
from assay.records import Better, Comparison, Estimate, RunsNeeded, Verdict
from assay.units import percent

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
    if lost_time.too_much(lost):
        limit = f"above {percent(lost_time.MOST_LOST)} there is no verdict, however many runs"
        return "undecided", f"{lost_time.words(lost, names)}; {limit}: run again on an idle machine"
    least, most = 1 / (1 + margin), 1 + margin
    reach, remedy = f"the interval {_written(low)} to {_written(high)}", lost_time.what_decides(lost, shift)
    if lost != NOTHING_LOST:
        reach += f", stretched because {lost_time.words(lost, names)},"
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
    return not lost_time.too_much(lost) and beyond(allowing_for(lost, estimate, better), margin)


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
