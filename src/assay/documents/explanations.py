"""`assay explain --json`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from assay.analyse.doubts import KINDS
from assay.analyse.doubts.detection import POWER


def document(codes: Iterable[str]) -> dict[str, Any]:
    """The document, as its schema describes it."""
    return {"schema": "assay.explain/1", "doubts": [_doubt(code) for code in codes]}


def _doubt(code: str) -> dict[str, Any]:
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
