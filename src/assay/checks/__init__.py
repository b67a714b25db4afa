"""What the facts about a machine mean for benchmarks run on it: state, evidence, and remedy. Pure.

A check returns None if it does not apply: a machine without a GPU has no driver to check.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from assay.records import Scalar

State = Literal["ok", "warn", "fail", "unknown"]
Facts = Mapping[str, Scalar]  # named as in the probe; an absent fact is unknown
PLACE = (
    "doctor.place"  # the fact that says where the others come from: ssh, node, container, pod; absent: here
)
_ROOT = "as root"
_WHERE_ROOT = {
    "ssh": "on that host",
    "node": "on that node",
    "container": "on this machine, outside the container",
    "pod": "on the node",
}


@dataclass(frozen=True)
class Check:
    """One question about a machine, answered.

    state     ok; warn: figures may suffer; fail: trials can't run or would mislead; unknown: no evidence
    evidence  what was found, with figures
    remedy    the command that fixes it, or what to do; says so if a command needs root; "" if no action is
              needed
    """

    name: str
    state: State
    evidence: str
    remedy: str = ""


def number(facts: Facts, name: str) -> float | None:
    """A fact as a number; None if it is absent or not a number."""
    value = facts.get(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def text(facts: Facts, name: str) -> str | None:
    """A fact as text; None if it is absent."""
    value = facts.get(name)
    return None if value is None else str(value)


def fitting(facts: Facts, *, here: str, container: str, pod: str) -> str:
    """The remedy for the place that the facts come from: a machine, a system's container, a pod."""
    return {"container": container, "pod": pod}.get(str(facts.get(PLACE)), here)


def placed(facts: Facts, check: Check) -> Check:
    """The check, with its remedy naming the machine that needs root, if it is not this one."""
    where = _WHERE_ROOT.get(str(facts.get(PLACE)))
    if where is None or not check.remedy.startswith(_ROOT):
        return check
    return replace(check, remedy=f"{where}, {check.remedy}")


def for_system(check: Check, quoted_name: str) -> Check:
    """The check, with SYSTEM in its command replaced by this name, quoted for a shell."""
    return replace(check, remedy=check.remedy.replace("SYSTEM", quoted_name))
