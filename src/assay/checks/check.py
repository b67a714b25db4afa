"""What a check is: facts in, a state with its evidence and remedy out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from assay.records import Scalar

State = Literal["ok", "warn", "fail", "unknown"]
Facts = Mapping[str, Scalar]  # names as the probe gives them; what is absent is not known
PLACE = "doctor.place"  # the fact of where the others are from: ssh, node, container, pod; absent: here
_ROOT = "as root"
_WHERE_ROOT = {
    "ssh": "on that host",
    "node": "on that node",
    "container": "on this machine, outside of the container",
    "pod": "on the node",
}


@dataclass(frozen=True)
class Check:
    """One question about a machine, answered.

    state     ok; warn: figures may suffer; fail: trials can't run or would mislead; unknown: nothing tells
    evidence  what was found, with figures
    remedy    the command that fixes it, or what to do; commands that need root say so; "" where none is due
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


def fitting(facts: Facts, *, here: str, container: str, pod: str) -> str:
    """The remedy for where the facts are from: a machine, a container of a system's, a pod."""
    return {"container": container, "pod": pod}.get(str(facts.get(PLACE)), here)


def placed(facts: Facts, check: Check) -> Check:
    """The check, with the machine named on which its remedy needs root, where that is not this place."""
    where = _WHERE_ROOT.get(str(facts.get(PLACE)))
    if where is None or not check.remedy.startswith(_ROOT):
        return check
    return replace(check, remedy=f"{where}, {check.remedy}")


def for_system(check: Check, words: str) -> Check:
    """The check, with these words in place of SYSTEM in its command: the name, as a shell takes it."""
    return replace(check, remedy=check.remedy.replace("SYSTEM", words))
