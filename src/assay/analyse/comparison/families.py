"""Several comparisons claimed jointly: a result picked out of many needs stronger evidence than a single one.

Of 20 comparisons without any difference, one is called faster or slower at 95 %. So the claims of a family
(by default, the primary metrics of what is compared) are corrected by Holm's step-down, for "more" and for
"less" with half of the error each, and every comparison gets the interval that matches: in 95 % of cases all
intervals of the family hold, so that the verdicts drawn from them are all correct.

`equivalent` needs no correction and rests on the comparison's own interval. Each such claim is wrong in at
most 2.5 % of cases, and so is "all are equivalent": it is wrong only if one that is not equivalent looks so
(intersection and union). Correcting it would make claims undecided because something else was measured next
to them. That error adds to the family's: it is measured in docs/explanation/statistics.md.

Sizes of one curve are equivalent to fewer claims (`bands.py`). Each of them gets the interval of a band
that holds at all of them; the other claims step down to what the curves leave.

Sources: Holm, Scandinavian Journal of Statistics 6 (1979) 65-70; the intervals: Strassburger and Bretz,
Statistics in Medicine 27 (2008) 4914-4927, Guilbaud, Biometrical Journal 50 (2008) 678-692.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from assay.analyse.comparison.verdict import decide, more_would_decide, runs_still_needed, surely_beyond
from assay.analyse.points.groups import SIZE, without_size
from assay.analyse.statistics.intervals import ratio_end, t_quantile
from assay.analyse.statistics.sequential import ALPHA, IN_FAMILY
from assay.records import Comparison, Estimate, Family, Point, Verdict


def claimed_together(
    comparisons: Sequence[Comparison], claimed: Callable[[Comparison], bool]
) -> tuple[Comparison, ...]:
    """All comparisons in their order, with those that are claimed corrected as one family."""
    verdicts = iter(corrected([c for c in comparisons if claimed(c)]))
    return tuple(next(verdicts) if claimed(c) else c for c in comparisons)


def corrected(family: Sequence[Comparison], out_of: int = 0) -> tuple[Comparison, ...]:
    """The same comparisons with the verdicts that may be claimed for all of them jointly.

    out_of  how many claims the runs allow, if these are a choice among more: they get their share of the
            error (Bonferroni), because whoever chose may have seen the figures of all

    A comparison without an interval claims nothing and does not count. A family of one is
    unchanged. Intervals of more than 95 % are those of repeated looks; the highest confidence among them
    leads.
    """
    claims = [c for c in family if c.error is not None]
    size = max(len(claims), out_of)
    if not claims or size < 2:
        return tuple(family)
    tail = min(_tail(c.ratio.confidence) for c in claims) * len(claims) / size
    more, less = _Tail.of(claims, tail), _Tail.of(claims, tail, sign=-1)
    held = iter([_held(c, more, less, index, size) for index, c in enumerate(claims)])
    return tuple(c if c.error is None else next(held) for c in family)


def _tail(confidence: float) -> float:
    """One-sided error of the whole family."""
    repeated = confidence > 1 - ALPHA
    return (1 - confidence) / 2 * (IN_FAMILY if repeated else 1)


@dataclass(frozen=True)
class _Tail:
    """Holm's step-down in one direction, and a band for curves.

    rejected  which claims exclude 1 in this direction
    level     one-sided, for the bounds of those that don't; for all, if every one excludes it
    of_band   one-sided, for each size of a curve
    """

    rejected: tuple[bool, ...]
    level: float
    of_band: float

    @classmethod
    def of(cls, claims: Sequence[Comparison], tail: float, sign: int = 1) -> _Tail:
        """One-sided error `tail` for all claims together that there is more; with sign -1, less."""
        from scipy.special import stdtr

        p = [float(stdtr(c.degrees or 0, -sign * _t(c))) for c in claims]
        curves = math.fsum(c.along.independent / c.along.sizes for c in claims if c.along)
        single = [index for index, c in enumerate(claims) if c.along is None]
        of_band = tail / (curves + len(single))
        rejected = [c.along is not None and value <= of_band for c, value in zip(claims, p, strict=True)]
        for done, index in enumerate(sorted(single, key=p.__getitem__)):
            if p[index] > tail / (curves + len(single) - done):
                break
            rejected[index] = True
        left = len(single) - sum(rejected[index] for index in single)
        return cls(tuple(rejected), of_band if all(rejected) else tail / (curves + left), of_band)

    def bound(self, index: int, claim: Comparison, sign: int = 1) -> float:
        """The bound of the log-ratio in this direction, taken as positive.

        A claim that excludes 1 next to others that don't has spent its error on them: its bound is 0, open.
        Claims of a band have spent none, and their bounds are the band's.
        """
        centre, error = sign * math.log(claim.ratio.value), claim.error or 0.0
        level = self.level if claim.along is None else self.of_band
        reach = centre - t_quantile(1 - level, claim.degrees or 0) * error
        if not self.rejected[index] or claim.along is not None:
            return reach
        return max(reach if all(self.rejected) else 0.0, _OPEN)


_OPEN = 1e-12  # next to 1, which an open end excludes


def _t(c: Comparison) -> float:
    """The log-ratio divided by its standard error."""
    centre, error = math.log(c.ratio.value), c.error or 0.0
    return centre / error if error else math.copysign(math.inf, centre) if centre else 0.0


def _held(c: Comparison, more: _Tail, less: _Tail, index: int, size: int) -> Comparison:
    low, high = more.bound(index, c), -less.bound(index, c, sign=-1)
    together = Estimate(c.ratio.value, ratio_end(low), ratio_end(high), c.ratio.n, "", c.ratio.confidence)
    family = Family(size, "holm" if c.along is None else "band", together, c.verdict)
    if c.verdict == "equivalent":
        return replace(c, family=family)
    better, lost = c.point.better, c.lost_to_others
    verdict, reason = decide(together, c.margin, better, lost, (c.a, c.b), c.shift)
    by_margin = surely_beyond(together, c.margin, better, lost)
    alone = surely_beyond(c.ratio, c.margin, better, lost)
    if verdict in ("faster", "slower") and alone and not by_margin:
        reason += "; taken alone it is entirely beyond the margin"
    tails = more.level + less.level if c.along is None else more.of_band + less.of_band
    needed = more_would_decide(verdict, together, lost, c.shift)
    return replace(
        c,
        verdict=verdict,
        reason=f"{_with_others(c, size, len(more.rejected))}, {reason}",
        by_margin=by_margin,
        runs_needed=runs_still_needed(c, 1 - tails) if needed else None,
        family=family,
    )


def _with_others(c: Comparison, size: int, shown: int) -> str:
    if size > shown:
        return f"claimed as one of {size} comparisons that the same sessions allow"
    if c.along is None:
        return f"claimed jointly with {size - 1} other{'s' * (size > 2)} (Holm)"
    return f"in one band with the curve's other sizes ({size} claims in total)"


Curve = tuple[str, str, str, str]


def curve_of(comparison: Comparison) -> Curve | None:
    """What the sizes of one curve have in common; None if a comparison has no size."""
    point = comparison.point
    if not isinstance(point.labels.get(SIZE), int | float):
        return None
    return point.benchmark, point.shape, point.metric, repr(sorted(without_size(point.labels).items()))


@dataclass(frozen=True)
class CurveVerdict:
    """B compared with A over the sizes of one curve, the smallest first; their intervals hold jointly."""

    sizes: tuple[Comparison, ...]

    @property
    def point(self) -> Point:
        """The first size's point, without the size."""
        first = self.sizes[0].point
        return replace(first, labels=without_size(first.labels))

    @property
    def verdict(self) -> Verdict:
        """`slower` or `faster` if any size is, slower first; equivalent if all are; else undecided."""
        verdicts = {c.verdict for c in self.sizes}
        if verdicts == {"equivalent"}:
            return "equivalent"
        return next((v for v in _GRAVEST if v in verdicts), "undecided")


_GRAVEST: Final[tuple[Verdict, ...]] = ("slower", "faster")


def curve_verdicts(comparisons: Iterable[Comparison]) -> tuple[CurveVerdict, ...]:
    """Comparisons that are sizes of one curve, grouped by sides and curve; others are left out."""
    curves: dict[object, list[Comparison]] = {}
    for c in comparisons:
        if c.along is not None:
            curves.setdefault((c.a, c.b, curve_of(c)), []).append(c)
    return tuple(CurveVerdict(tuple(sorted(sizes, key=size_of))) for sizes in curves.values())


def size_of(comparison: Comparison) -> float:
    """Its size in bytes. Raises TypeError if it is not a size of a curve."""
    size = comparison.point.labels.get(SIZE)
    if not isinstance(size, int | float):
        raise TypeError(f"{comparison.point} has no {SIZE}")
    return size


def band(comparison: Comparison) -> Estimate:
    """The interval that holds jointly with those of the curve's other sizes; without any, its own."""
    return comparison.ratio if comparison.family is None else comparison.family.ratio
