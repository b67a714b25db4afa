"""Why comparisons are undecided, one short sentence each, and what would decide them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from assay.analyse.comparison import lost_time
from assay.analyse.comparison.verdict import Obstacle, more_runs_may_decide, obstacle
from assay.records import Comparison
from assay.report import figures
from assay.report.sentences.sentences import needed
from assay.report.tables import gathered
from assay.units import percent

MOST_NAMED = 3  # metrics with the same cause; more are counted


def lines(comparisons: Sequence[Comparison]) -> list[str]:
    """`undecided resnet50 throughput: the interval … extends beyond the margin …`, each cause once."""
    whole = sum(c.verdict == "undecided" for c in comparisons)
    return [f"undecided {_which(alike, whole)}: {why}" for alike, why in _causes(comparisons)]


def _which(alike: Sequence[Comparison], whole: int) -> str:
    """The metrics that have a cause; if they are many, in how many comparisons it is found."""
    names = list(dict.fromkeys(f"{c.point.benchmark} {figures.metric(c.point.metric)}" for c in alike))
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"in all {whole} comparisons" if len(alike) == whole else f"in {len(alike)} of {whole} comparisons"


def why(comparisons: Sequence[Comparison]) -> str:
    """All causes in one sentence without its period; "" if nothing is undecided."""
    return "; ".join(cause for _, cause in _causes(comparisons))


def _causes(comparisons: Sequence[Comparison]) -> Iterator[tuple[list[Comparison], str]]:
    """Undecided comparisons grouped by cause, and the cause as text."""
    undecided = [(c, hindrance) for c in comparisons if (hindrance := obstacle(c)) is not None]
    for alike in gathered(undecided, lambda pair: (pair[1], _reason(*pair))):
        yield [c for c, _ in alike], _describe_cause([c for c, _ in alike], alike[0][1])


def _reason(c: Comparison, hindrance: Obstacle) -> str:
    """The reason if there is no interval; each reason is a separate cause."""
    return c.reason if hindrance == "no interval" else ""


def _describe_cause(alike: Sequence[Comparison], hindrance: Obstacle) -> str:
    first = alike[0]
    if hindrance == "no interval":
        return first.reason
    if hindrance == "no direction":
        return "the metric has no declared direction: declare `better:`"
    if hindrance == "too wide":
        wide = (
            f"interval {figures.interval(first.deciding)} extends" if len(alike) == 1 else "intervals extend"
        )
        margins = " or ".join(dict.fromkeys(f"±{figures.percent(c.margin)}" for c in alike))
        beyond = f"the {wide} beyond the margin of {margins}"
        return "; ".join(filter(None, (beyond, needed(alike))))
    lost = (max(c.lost_to_others[0] for c in alike), max(c.lost_to_others[1] for c in alike))
    waited = (
        lost_time.words(lost, (first.a, first.b))
        if len({(c.a, c.b) for c in alike}) == 1
        else f"runs may have waited for up to {percent(max(lost))} of their time because others used the CPUs"
    )
    more = any(map(more_runs_may_decide, alike))
    remedy = "run again on an idle machine" if more else "more runs under such a load decide nothing"
    return f"{waited}: {remedy}"
