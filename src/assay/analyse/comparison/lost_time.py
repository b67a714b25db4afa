"""What a verdict has to allow for where others used a side's CPUs.

A run that lost a share of its time to others would have been faster by up to 1 / (1 - share), and nobody
knows by how much: more threads, and threads that wait for each other, lose more to the same neighbours. So a
verdict has to hold for every ratio in between. Where a side may have lost more than `MOST_LOST` there is
none: caches, memory bandwidth and clock, which nobody counted, then matter as well.

How often such verdicts err: docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.analyse.doubts import kernel_counts, percent
from assay.records import Better, Doubt, Estimate, Result

MOST_LOST = 0.2

Lost = tuple[float, float]
"""Shares of their time that A and B may have lost; 0 where it does not matter."""

NOTHING_LOST: Lost = (0.0, 0.0)
_CODES = {kernel_counts.BUSY_NEIGHBOURS.code, kernel_counts.STOLEN_TIME.code}


def lost_to_others(a: Sequence[Result], b: Sequence[Result], margin: float, doubts: Sequence[Doubt]) -> Lost:
    """What two sides may have lost; looked at only where their doubts say that others were there."""
    if _CODES.isdisjoint(doubt.code for doubt in doubts):
        return NOTHING_LOST
    return kernel_counts.lost_to_others(a, margin), kernel_counts.lost_to_others(b, margin)


def too_much(lost: Lost) -> bool:
    """Whether no verdict can be drawn, whatever the interval."""
    return max(lost) > MOST_LOST


def allowing_for(lost: Lost, estimate: Estimate, better: Better | None) -> Estimate:
    """The interval of B over A, stretched by what each side may have lost, up to `MOST_LOST`.

    Of a metric without a better direction nobody knows which way a loss moves it: it may be either.
    """
    low, high = estimate.low, estimate.high
    if lost == NOTHING_LOST or low is None or high is None:
        return estimate
    a, b = (1 - min(share, MOST_LOST) for share in lost)
    less, more = {"higher": (a, b), "lower": (b, a), None: (min(a, b), min(a, b))}[better]
    return replace(estimate, low=low * less, high=high / more)


def words(lost: Lost, names: tuple[str, str] = ("A", "B")) -> str:
    """`others had CPUs that A may have waited for 41 % of its run, and B 38 %`; "" for nothing.

    Of the run, not of the figure: in which part of the run that was measured is not known.
    """
    known = [(name, percent(share)) for name, share in zip(names, lost, strict=True) if share]
    if not known:
        return ""
    (first, share), *second = known
    also = "".join(f", and {name} {of_it}" for name, of_it in second)
    return f"others had CPUs that {first} may have waited for {share} of its run{also}"
