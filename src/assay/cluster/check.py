"""What a check is: facts in, a state with its evidence and remedy out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from assay.records import Scalar

State = Literal["ok", "warn", "fail", "unknown"]
Facts = Mapping[str, Scalar]  # names as the probe gives them; what is absent is not known


@dataclass(frozen=True)
class Check:
    """One question about a machine, answered.

    state     ok; warn: figures may suffer; fail: trials can't run or would mislead; unknown: nothing tells
    evidence  what was found, with figures
    remedy    the command that mends it, or what to do; commands that need root say so; "" where none is due
    """

    name: str
    state: State
    evidence: str
    remedy: str = ""


def number(facts: Facts, name: str) -> float | None:
    """A fact that is a number; None where it is absent or not one."""
    value = facts.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def text(facts: Facts, name: str) -> str | None:
    """A fact as text; None where it is absent."""
    value = facts.get(name)
    return None if value is None else str(value)
