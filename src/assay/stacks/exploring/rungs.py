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

from assay.analyse.comparison.compare import decide, surely_beyond
from assay.analyse.statistics import hidden, intervals
from assay.analyse.statistics.intervals import ratio_end
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
    interval = intervals.paired(logs, confidence, hidden.of_values(*zip(*pairs.values, strict=True)))
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


def gain(found: Comparison) -> float:
    """Logarithm of how much better it is than the incumbent: above 0 whichever direction is better."""
    log = math.log(found.ratio.value)
    return -log if found.point.better == "lower" else log


def survivors(found: Sequence[Comparison], blocks: int, max_repeats: int) -> tuple[str, ...]:
    """Those that go on after this many blocks: the better half of the undecided, none after the last look.

    A candidate that is slower or equivalent is decided and stops. One that is faster goes on: the family of
    all candidates needs stronger evidence than a look at one.
    """
    if blocks >= max_repeats:
        return ()
    open_ = [one for one in found if one.verdict not in ("slower", "equivalent")]
    kept = sorted(open_, key=gain, reverse=True)[: math.ceil(len(found) / 2)]
    return tuple(one.b for one in kept)


def schedule(max_repeats: int) -> tuple[int, ...]:
    """Blocks at the looks."""
    return looks(max_repeats)


def verdicts(found: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """All candidates as one family: the verdicts that may be claimed jointly, wherever each stopped."""
    size = sum(one.error is not None for one in found.values())
    return {name: one if size < 2 else _claimed(one, size) for name, one in found.items()}


def _claimed(one: Comparison, size: int) -> Comparison:
    """With the interval that holds jointly with those of the others; `equivalent` needs no correction."""
    if one.error is None or one.degrees is None or one.ratio.confidence is None:
        return one
    confidence = 1 - (1 - one.ratio.confidence) * IN_FAMILY / size
    half = intervals.t_quantile((1 + confidence) / 2, one.degrees) * one.error
    centre = math.log(one.ratio.value)
    joint = replace(
        one.ratio, low=ratio_end(centre - half), high=ratio_end(centre + half), confidence=confidence
    )
    family = Family(size, "bonferroni", joint, one.verdict)
    if one.verdict == "equivalent":
        return replace(one, family=family)
    better, lost = one.point.better, one.lost_to_others
    verdict, reason = decide(joint, one.margin, better, lost, (one.a, one.b))
    return replace(
        one,
        verdict=verdict,
        reason=f"claimed jointly with {size - 1} others (Bonferroni), {reason}",
        by_margin=surely_beyond(joint, one.margin, better, lost),
        family=family,
    )
