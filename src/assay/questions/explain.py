"""What doubts mean."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

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


def explain_document(codes: Iterable[str]) -> dict[str, Any]:
    """The document, as its schema describes it."""
    return {"schema": "assay.explain/1", "doubts": [_doubt_as_data(code) for code in codes]}


def _doubt_as_data(code: str) -> dict[str, Any]:
    from assay.analyse.doubts import KINDS
    from assay.analyse.doubts.rates import POWER

    kind = KINDS[code]
    plain: dict[str, Any] = {"code": code, "severity": kind.severity, "means": kind.means}
    plain |= {"effect": kind.effect, "remedy": kind.remedy, "rates": kind.rates}
    if code in POWER:
        power = POWER[code]
        plain["detection"] = {
            "false_alarm": dict(power.false_alarm),
            "troubles": [{"trouble": name, "power": dict(power)} for name, power in power.troubles()],
        }
    return plain
