"""Every doubt's code with what it means, what it may do to the result, the remedy, and how often it errs.

Whoever raises a new code adds it to the table of its subject here; a test holds the code against them.
"""

from __future__ import annotations

from assay.analyse.explanations import inference, machine, meanwhile, network, runs, scores, sides
from assay.analyse.explanations.explanation import SEVERITIES, Explanation, Severity

__all__ = ["EXPLANATIONS", "SEVERITIES", "SUBJECTS", "Explanation", "Severity", "rank"]

SUBJECTS: dict[str, dict[str, Explanation]] = {
    "The runs": runs.EXPLANATIONS,
    "Two sides, several sizes": sides.EXPLANATIONS,
    "The machines, and what they can do": machine.EXPLANATIONS,
    "On the nodes, while the runs ran": meanwhile.EXPLANATIONS,
    "Between two nodes": network.EXPLANATIONS,
    "Training logs and published scores": scores.EXPLANATIONS,
    "Inference runs": inference.EXPLANATIONS,
}

EXPLANATIONS: dict[str, Explanation] = {
    code: explanation for table in SUBJECTS.values() for code, explanation in table.items()
}


def rank(code: str) -> int:
    """Where a doubt stands among others: the gravest first."""
    return list(SEVERITIES).index(EXPLANATIONS[code].severity)
