"""What a verdict has to allow for if others used a side's CPUs.

A run that lost a share of its time to others would have been faster by up to 1 / (1 - share), but the exact
factor is unknown: more threads, and threads that wait for each other, lose more to the same neighbors. So a
verdict has to hold for every ratio in between. If a side may have lost more than `MOST_LOST`, there is no
verdict: caches, memory bandwidth and clock speed, which nobody counted, then matter as well.

For the error rates of such verdicts, see docs/explanation/statistics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from assay.analyse.points import encounters
from assay.records import Better, Estimate, Result
from assay.units import percent

MOST_LOST = 0.2

Lost = tuple[float, float]
"""Shares of their time that A and B may have lost; 0 if it does not matter."""

NOTHING_LOST: Lost = (0.0, 0.0)


def lost_by_sides(a: Sequence[Result], b: Sequence[Result], margin: float) -> Lost:
    """What two sides may have lost; 0 for a side that lost less than matters."""
    return encounters.lost_to_others(a, margin), encounters.lost_to_others(b, margin)


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


def words(lost: Lost, names: tuple[str, str] = ("A", "B")) -> str:
    """`A may have waited for 41 % of its run because others used its CPUs, and B for 38 %`; "" if nothing.

    The share is that of the run, not of the measurement: which part of the run was measured is unknown.
    """
    known = [(name, percent(share)) for name, share in zip(names, lost, strict=True) if share]
    if not known:
        return ""
    (first, share), *second = known
    also = "".join(f", and {name} for {of_it}" for name, of_it in second)
    return f"{first} may have waited for {share} of its run because others used its CPUs{also}"


def what_decides(lost: Lost, shift: float) -> str:
    """What could decide a comparison whose interval is too wide.

    shift  part of the interval that more runs don't narrow
    """
    if any(lost):
        return "run again on an idle machine"
    return "more runs alone don't change that" if shift else "new runs"
