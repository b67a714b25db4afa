"""Why one side is slower, as sentences independent of the output format."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assay.analyse.comparison.why import why
from assay.records import Comparison, Result
from assay.report.sentences.sentences import ComparedBenchmark, questions


def sentences(
    asked: ComparedBenchmark, sides: Mapping[str, Sequence[Result]], margin: float
) -> tuple[str, ...]:
    """Reasons, and what was ruled out; () unless a comparison is slower and something was examined.

    sides  all runs of each side by name
    """
    if all(c.verdict != "slower" for c in asked.comparisons):
        return ()
    a, b = asked.sides
    found = why(sides[a], sides[b], asked.point, names=(a, b), margin=margin)
    if not (found.reasons or found.ruled_out):
        return ()
    reasons = found.reasons or ("no examined cause differs and explains it",)
    ruled_out = [f"not higher than on {a}: {', '.join(found.ruled_out)}"] if found.ruled_out else []
    return tuple(f"{words[0].upper()}{words[1:]}." for words in (*reasons, *ruled_out))


def told(
    comparisons: Sequence[Comparison], sides: Mapping[str, Sequence[Result]], margin: float
) -> Iterator[tuple[ComparedBenchmark, tuple[str, ...]]]:
    """Each question that there is something to say about, with its sentences."""
    for asked in questions(comparisons):
        if found := sentences(asked, sides, margin):
            yield asked, found


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
        for q, why in told(comparisons, sides, margin)
    ]
