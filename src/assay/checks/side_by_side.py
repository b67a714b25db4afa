"""Several hosts examined side by side: each check once, with the worst host's result. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from assay.checks.check import PLACE, Check, Facts, State

Hosts = Mapping[str, Facts]
"""Host → its facts."""

_ORDER: tuple[State, ...] = ("fail", "warn", "unknown", "ok")


def placed_at(hosts: Hosts, place: str) -> Hosts:
    """The facts of each host, with how it was reached."""
    return {host: {**facts, PLACE: place} for host, facts in hosts.items()}


def each(hosts: Hosts, examine: Callable[[Facts], tuple[Check, ...]]) -> list[Check]:
    """Each check of a machine once, with the worst host's result."""
    by_name: dict[str, list[tuple[str, Check]]] = {}
    for host, facts in hosts.items():
        for check in examine(facts):
            by_name.setdefault(check.name, []).append((host, check))
    worst_checks = []
    for results in by_name.values():  # a check that does not apply to a host is absent there
        host, worst = min(results, key=lambda result: _ORDER.index(result[1].state))
        like = sum(check.state == worst.state for _, check in results)
        on = f"{host}: " if like == 1 and len(hosts) > 1 else ""
        worst_checks.append(replace(worst, evidence=f"{on}{worst.evidence}"))
    return worst_checks
