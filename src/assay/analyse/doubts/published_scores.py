"""Published scores compared with what follows from their logs."""

from __future__ import annotations

import math

from assay.records import Doubt, DoubtKind

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
