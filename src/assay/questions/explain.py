"""What doubts mean."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from assay.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from assay.records import DoubtKind


def explain(code: str | None = None) -> Mapping[str, DoubtKind]:
    """Code → the kind of doubt (meaning, effect, remedy), like `assay explain CODE` shows it; None: all.

    Raises InputError with the nearest code if there is none with this name.
    """
    from assay.analyse.doubts import KINDS

    if code is None:
        return dict(KINDS.items())
    if code not in KINDS:
        near = get_close_matches(code.lower().replace("_", "-"), KINDS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise InputError(f"there is no doubt {code}; {hint}`assay explain` lists all doubts")
    return {code: KINDS[code]}
