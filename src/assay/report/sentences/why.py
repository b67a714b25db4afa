"""Why one side is slower, as sentences independent of the output format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.analyse.comparison.why import why
from assay.records import Comparison, Result
from assay.report.sentences.sentences import ComparedBenchmark, questions


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
