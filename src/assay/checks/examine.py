"""Every check that `assay doctor` makes, in the order in which people fix things. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from assay.checks import (
    PLACE,
    Check,
    Facts,
    State,
    containers,
    driver,
    fabric,
    kernel,
    machine,
    pci,
    placed,
    software,
    text,
)

SOFTWARE: tuple[Callable[[Facts], Check], ...] = (
    software.interpreter,
    software.torch_import,
    software.torchvision,
    software.communication,
    software.gpu,
    software.gpu_driver,
)
MACHINE: tuple[Callable[[Facts], Check], ...] = (
    machine.cores,
    machine.memory,
    machine.load,
    machine.clock_source,
    machine.governor,
    machine.smt,
    machine.disk,
    machine.open_files,
    machine.locked_memory,
    machine.shared_memory,
    machine.surroundings,
)
HOST: tuple[Callable[[Facts], Check | None], ...] = (
    driver.loaded,
    driver.versions,
    driver.devices,
    driver.persistence,
    containers.toolkit,
    containers.runtime,
    containers.specifications,
    containers.selinux,
    containers.services,
    kernel.numa_balancing,
    kernel.transparent_hugepages,
    kernel.reclaim,
    kernel.hugepages,
    pci.links,
    pci.translation,
    pci.redirects,
    fabric.ports,
    fabric.manager,
    fabric.verbs,
    fabric.direct,
    fabric.affinity,
    pci.near_cpus,
    kernel.hypervisor,
)
CHECKS = (*SOFTWARE, *MACHINE)

Hosts = Mapping[str, Facts]
"""Host → its facts."""

_WORST_FIRST: tuple[State, ...] = ("fail", "warn", "unknown", "ok")


def examine(facts: Facts) -> tuple[Check, ...]:
    """All checks of one table of facts: the software of trials, the machine, and its access to hardware."""
    return (*(placed(facts, check(facts)) for check in SOFTWARE), *examine_machine(facts))


def examine_machine(facts: Facts) -> tuple[Check, ...]:
    """The checks that need nothing from the interpreter."""
    checks = (*(check(facts) for check in MACHINE), *examine_host(facts))
    return tuple(placed(facts, check) for check in checks)


def examine_host(facts: Facts) -> tuple[Check, ...]:
    """All checks that apply; if the host was not examined, only the reason."""
    if not facts.get("host.checked"):
        why = text(facts, "host.error") or "the host was not examined"
        return (Check("host", "unknown", why),)
    return tuple(result for check in HOST if (result := check(facts)) is not None)


def placed_at(hosts: Hosts, place: str) -> Hosts:
    """The facts of each host, with how it was reached."""
    return {host: {**facts, PLACE: place} for host, facts in hosts.items()}


def worst_of_each(hosts: Hosts, examine: Callable[[Facts], tuple[Check, ...]]) -> list[Check]:
    """Each check of a machine once, with the worst host's result."""
    by_name: dict[str, list[tuple[str, Check]]] = {}
    for host, facts in hosts.items():
        for check in examine(facts):
            by_name.setdefault(check.name, []).append((host, check))
    worst_checks = []
    for results in by_name.values():  # a check that does not apply to a host is absent there
        host, worst = min(results, key=lambda result: _WORST_FIRST.index(result[1].state))
        like = sum(check.state == worst.state for _, check in results)
        on = f"{host}: " if like == 1 and len(hosts) > 1 else ""
        worst_checks.append(replace(worst, evidence=f"{on}{worst.evidence}"))
    return worst_checks
