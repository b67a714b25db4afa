"""Why one side is slower, in sentences, for whatever they are then written as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from assay.analyse.why import why
from assay.records import Result
from assay.report.sentences import Question


def sentences(asked: Question, sides: Mapping[str, Sequence[Result]], margin: float) -> tuple[str, ...]:
    """Reasons, and what was ruled out; () unless a comparison is slower and something was looked at.

    sides  all runs of each side by its name
    """
    if all(c.verdict != "slower" for c in asked.comparisons):
        return ()
    a, b = asked.sides
    found = why(sides[a], sides[b], asked.point, names=(a, b), margin=margin)
    if not (found.reasons or found.ruled_out):
        return ()
    reasons = found.reasons or ("nothing that was looked at differs and explains it",)
    ruled_out = [f"no more than on {a}: {', '.join(found.ruled_out)}"] if found.ruled_out else []
    return tuple(f"{words[0].upper()}{words[1:]}." for words in (*reasons, *ruled_out))
