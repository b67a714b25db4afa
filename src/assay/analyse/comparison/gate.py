"""Whether a candidate is still as good as its baseline, except for a margin: the question that CI asks.

The answer comes from one side of the intervals that `compare` computes: a candidate may be better by any
amount. "All hold" needs no correction, because each has to hold by itself; "one is worse" is picked out of
several and rests on the interval that allows for that (Holm).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from assay.analyse.comparison.lost_time import allowing_for, too_much, what_decides, words
from assay.records import Comparison, Estimate
from assay.units import counted, percent, significant

GateAnswer = Literal["holds", "worse", "undecided"]


@dataclass(frozen=True)
class GateVerdict:
    """One comparison, with the candidate as B, and whether it is worse by more than the margin."""

    comparison: Comparison
    answer: GateAnswer
    reason: str


def judge(comparison: Comparison) -> GateVerdict:
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
        remedy = f"{words(c.lost_to_others, (c.a, c.b))}: {remedy}"
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
