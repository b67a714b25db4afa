"""Doubts about MLPerf scores: of sets without one, and of published ones that their logs contradict."""

from __future__ import annotations

import math

from assay.records import Doubt, DoubtKind

NO_RULE = DoubtKind(
    code="no-rule",
    subject="training",
    severity="weak",
    means="No rule states how this benchmark is scored, or the logs name no benchmark.",
    effect="There is no score, only the minutes of single runs.",
    remedy="Use the minutes of the single runs, and compare them run by run with `assay compare`.",
)


RUN_COUNT = DoubtKind(
    code="run-count",
    subject="training",
    severity="invalid",
    means="The set does not have the number of runs that the rule requires.",
    effect=(
        "A score of any other number of runs is not comparable: the fastest and slowest are dropped from a "
        "fixed number."
    ),
    remedy=(
        "Score exactly as many runs as the rule asks for; until then use the minutes of the single runs."
    ),
)


UNUSABLE_RUN = DoubtKind(
    code="unusable-run",
    subject="training",
    severity="invalid",
    means=(
        "A log of the set is broken, cut or unfinished, or its last evaluation missed the round's target."
    ),
    effect=(
        "A broken log is not a run that failed to converge: counting it either way invents a result. The "
        "official rule drops one as the slowest run; the score by that rule is shown next to it."
    ),
    remedy="Complete the file or repeat the run: a broken log is not a run that failed to converge.",
)


NOT_CONVERGED = DoubtKind(
    code="not-converged",
    subject="training",
    severity="weak",
    means="Runs of the set ended without reaching the quality target.",
    effect=(
        "Within the number that the rules allow, they count as the slowest; beyond it, the set is not a "
        "result."
    ),
    remedy=(
        "Compare the share of runs that converge as well as the score, and check the hyperparameters of "
        "those that did not."
    ),
)


SCORE_CONTRADICTS = DoubtKind(
    code="score-contradicts",
    subject="training",
    severity="invalid",
    means=(
        "A published score is not the one that follows from its logs by the rule of its round, after "
        "rounding."
    ),
    effect=("The published score rests on other runs, another rule or another scaling factor than assumed."),
    remedy=(
        "Ask which runs, rule and scaling factor the published score rests on; until then use the score "
        "from the logs."
    ),
)


def score_contradicts(stated: float, computed: float | None, *, decimals: int, what: str) -> Doubt | None:
    """A published score that differs from the one that follows from its logs; None if they agree.

    stated    as published, with this many decimals
    computed  from the logs by the round's rule, in the same unit; None if no score follows
    what      what was published, as text, with its unit: `resnet on DGX-1, minutes`
    """
    if computed is None:
        evidence = f"{what}: {stated:.{decimals}f} was published, but no score follows from the logs"
    elif math.isclose(stated, computed, rel_tol=1e-9, abs_tol=0.5000001 * 10**-decimals):
        return None
    else:
        evidence = (
            f"{what}: {stated:.{decimals}f} was published, the logs give {computed:.{decimals + 2}f} "
            f"({stated / computed - 1:+.2%})"
        )
    return SCORE_CONTRADICTS.doubt(evidence)
