"""What doubts mean."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from assay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.analyse.explanations import Explanation


def explain(code: str | None = None) -> Mapping[str, Explanation]:
    """Code → what the doubt means, what it may do and its remedy, as `assay explain CODE`; None: all.

    Raises InputError with the nearest code where there is none of this name.
    """
    from assay.analyse.explanations import EXPLANATIONS

    if code is None:
        return EXPLANATIONS
    if code not in EXPLANATIONS:
        near = get_close_matches(code.lower().replace("_", "-"), EXPLANATIONS, n=1)
        hint = f"is it {near[0]}? " if near else ""
        raise InputError(f"no doubt is called {code}; {hint}`assay explain` lists all")
    return {code: EXPLANATIONS[code]}
