"""What is said of a doubt at length."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["invalid", "biased", "weak", "note"]

SEVERITIES: dict[Severity, str] = {
    "invalid": "the figure or the claim probably does not hold as it stands",
    "biased": "the result may be shifted one way",
    "weak": "the claim is narrower or less sure than it looks",
    "note": "for your information; nothing speaks against the figure",
}
"""Each severity, the gravest first, with what it means."""


@dataclass(frozen=True)
class Explanation:
    """A doubt's page.

    means   what was seen, and when the doubt is raised
    effect  what it may do to the result
    remedy  what to do
    rates   for a test: how often it is raised where nothing is wrong, and what it can see; "" for a fact
    """

    severity: Severity
    means: str
    effect: str
    remedy: str
    rates: str = ""
