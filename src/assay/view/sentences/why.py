"""Why one side is slower, and why comparisons are undecided and what would decide them, as sentences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.analyse.comparison.verdict import Obstacle, lost_as_text, more_runs_may_decide, obstacle
from assay.analyse.comparison.why import why
from assay.records import Comparison, Result
from assay.units import percent
from assay.view import figures
from assay.view.figures import gathered
from assay.view.sentences.sentences import ComparedBenchmark, needed, questions


def sentences(
    question: ComparedBenchmark, sides: Mapping[str, Sequence[Result]], margin: float
) -> tuple[str, ...]:
    """Reasons, and what was ruled out; () unless a comparison is slower and something was examined.

    sides  all runs of each side by name
    """
    if all(c.verdict != "slower" for c in question.comparisons):
        return ()
    a, b = question.sides
    explanation = why(sides[a], sides[b], question.point, names=(a, b), margin=margin)
    if not (explanation.reasons or explanation.ruled_out):
        return ()
    reasons = explanation.reasons or ("no examined cause differs and explains it",)
    ruled_out = (
        [f"not higher than on {a}: {', '.join(explanation.ruled_out)}"] if explanation.ruled_out else []
    )
    return tuple(f"{reason[0].upper()}{reason[1:]}." for reason in (*reasons, *ruled_out))


def explain_each(
    comparisons: Sequence[Comparison], sides: Mapping[str, Sequence[Result]], margin: float
) -> Iterator[tuple[ComparedBenchmark, tuple[str, ...]]]:
    """Each question that there is something to say about, with its sentences."""
    for question in questions(comparisons):
        if reasons := sentences(question, sides, margin):
            yield question, reasons


def plain(
    comparisons: Sequence[Comparison], sides: Mapping[str, Sequence[Result]], margin: float
) -> list[dict[str, Any]]:
    """The same as plain data for `--json`."""
    return [
        {
            "a": q.sides[0],
            "b": q.sides[1],
            "benchmark": q.point.benchmark,
            "shape": q.point.shape,
            "why": [*why],
        }
        for q, why in explain_each(comparisons, sides, margin)
    ]


MOST_NAMED = 3  # metrics with the same cause; more are counted


def undecided_lines(comparisons: Sequence[Comparison]) -> list[str]:
    """`undecided resnet50 throughput: the interval … extends beyond the margin …`, each cause once."""
    whole = sum(c.verdict == "undecided" for c in comparisons)
    return [f"undecided {_which(alike, whole)}: {why}" for alike, why in _causes(comparisons)]


def _which(alike: Sequence[Comparison], whole: int) -> str:
    """The metrics that have a cause; if they are many, in how many comparisons it is found."""
    names = list(dict.fromkeys(f"{c.point.benchmark} {figures.metric(c.point.metric)}" for c in alike))
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"in all {whole} comparisons" if len(alike) == whole else f"in {len(alike)} of {whole} comparisons"


def undecided_reason(comparisons: Sequence[Comparison]) -> str:
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
        lost_as_text(lost, (first.a, first.b))
        if len({(c.a, c.b) for c in alike}) == 1
        else f"others on the CPUs may have held runs back by up to {percent(max(lost))}"
    )
    more = any(map(more_runs_may_decide, alike))
    remedy = "run again on an idle machine" if more else "more runs under such a load decide nothing"
    return f"{waited}: {remedy}"
