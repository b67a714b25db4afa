"""Blocks so far → how each candidate compares with the incumbent, and who goes on.

Each candidate is compared with the incumbent by the log-ratios of the blocks that have both. The looks are
those of a run until decided: after 3, 5, 8, 12 … blocks, with intervals that hold at all of them. So a
candidate may stop at any of them, for whatever reason, and its interval still holds. At the end, all
candidates are one family: one of forty that is best by chance does not pass for better.

The family is Bonferroni's and not Holm's (`families.py`): Holm's interval of a candidate that is better, next
to others that are not shown to be, ends at 1 and can't say that it is better by more than the margin.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from assay.analyse.comparison.verdict import decide, surely_beyond
from assay.analyse.statistics import intervals
from assay.analyse.statistics.intervals import ratio_end
from assay.analyse.statistics.rounding import hidden_by_rounding
from assay.analyse.statistics.sequential import IN_FAMILY, looks, nominal_p
from assay.records import Comparison, Family, Point


@dataclass(frozen=True)
class CandidateBlocks:
    """The blocks of one candidate: values of the incumbent and its own, and the time lost to others."""

    name: str
    values: tuple[tuple[float, float], ...]
    lost: tuple[float, float] = (0.0, 0.0)


def comparison(
    pairs: CandidateBlocks, point: Point, incumbent: str, margin: float, max_repeats: int
) -> Comparison:
    """A candidate compared with the incumbent by its blocks so far: at least one."""
    logs = [(math.log(a), math.log(b)) for a, b in pairs.values]
    confidence = 1 - nominal_p(max_repeats, paired=True)
    interval = intervals.paired(logs, confidence, hidden_by_rounding(*zip(*pairs.values, strict=True)))
    estimate = interval.estimate("", confidence)
    names = (incumbent, pairs.name)
    verdict, reason = decide(estimate, margin, point.better, pairs.lost, names)
    above = None if interval.half is None else ratio_end(interval.half)
    return Comparison(
        point=point,
        a=incumbent,
        b=pairs.name,
        mean_a=_mean([a for a, _ in logs]),
        mean_b=_mean([b for _, b in logs]),
        ratio=estimate,
        n=(len(logs), len(logs)),
        method="" if interval.half is None else "paired",
        margin=margin,
        verdict=verdict,
        reason=f"{interval.why}: no interval" if interval.why else reason,
        smallest_visible=None if above is None else above - 1,
        error=interval.error,
        degrees=interval.degrees,
        by_margin=surely_beyond(estimate, margin, point.better, pairs.lost),
        lost_to_others=pairs.lost,
    )


def _mean(logs: Sequence[float]) -> float:
    return math.exp(math.fsum(logs) / len(logs))


def gain(comparison: Comparison) -> float:
    """Logarithm of how much better it is than the incumbent: above 0 whichever direction is better."""
    log = math.log(comparison.ratio.value)
    return -log if comparison.point.better == "lower" else log


def survivors(comparisons: Sequence[Comparison], blocks: int, max_repeats: int) -> tuple[str, ...]:
    """Those that go on after this many blocks: the better half of the undecided, none after the last look.

    A candidate that is slower or equivalent is decided and stops. One that is faster goes on: the family of
    all candidates needs stronger evidence than a look at one.
    """
    if blocks >= max_repeats:
        return ()
    open_ = [comparison for comparison in comparisons if comparison.verdict not in ("slower", "equivalent")]
    kept = sorted(open_, key=gain, reverse=True)[: math.ceil(len(comparisons) / 2)]
    return tuple(comparison.b for comparison in kept)


def schedule(max_repeats: int) -> tuple[int, ...]:
    """Blocks at the looks."""
    return looks(max_repeats)


def verdicts(comparisons: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """All candidates as one family: the verdicts that may be claimed jointly, wherever each stopped."""
    size = sum(comparison.error is not None for comparison in comparisons.values())
    return {
        name: comparison if size < 2 else _claimed(comparison, size)
        for name, comparison in comparisons.items()
    }


def _claimed(comparison: Comparison, size: int) -> Comparison:
    """With the interval that holds jointly with those of the others; `equivalent` needs no correction."""
    if comparison.error is None or comparison.degrees is None or comparison.ratio.confidence is None:
        return comparison
    confidence = 1 - (1 - comparison.ratio.confidence) * IN_FAMILY / size
    half = intervals.t_quantile((1 + confidence) / 2, comparison.degrees) * comparison.error
    center = math.log(comparison.ratio.value)
    joint = replace(
        comparison.ratio, low=ratio_end(center - half), high=ratio_end(center + half), confidence=confidence
    )
    family = Family(size, "bonferroni", joint, comparison.verdict)
    if comparison.verdict == "equivalent":
        return replace(comparison, family=family)
    better, lost = comparison.point.better, comparison.lost_to_others
    verdict, reason = decide(joint, comparison.margin, better, lost, (comparison.a, comparison.b))
    return replace(
        comparison,
        verdict=verdict,
        reason=f"claimed jointly with {size - 1} others (Bonferroni), {reason}",
        by_margin=surely_beyond(joint, comparison.margin, better, lost),
        family=family,
    )
