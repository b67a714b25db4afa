"""What leaves a comparison undecided, and whether more runs of the same kind could decide it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from assay.analyse.comparison.lost_time import allowing_for, too_much
from assay.records import Comparison

Obstacle = Literal["no interval", "lost time", "no direction", "too wide"]


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
