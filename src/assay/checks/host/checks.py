"""All checks of a host, in the order in which people fix things."""

from __future__ import annotations

from collections.abc import Callable

from assay.checks.check import Check, Facts, text
from assay.checks.host import confinement, containers, driver, fabric, kernel, pci, virtual

CHECKS: tuple[Callable[[Facts], Check | None], ...] = (
    driver.loaded,
    driver.versions,
    driver.devices,
    driver.persistence,
    containers.toolkit,
    containers.runtime,
    containers.specifications,
    confinement.selinux,
    confinement.services,
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
    virtual.hypervisor,
)


def examine(facts: Facts) -> tuple[Check, ...]:
    """All checks that apply; if the host was not examined, only the reason."""
    if not facts.get("host.checked"):
        why = text(facts, "host.error") or "the host was not examined"
        return (Check("host", "unknown", why),)
    return tuple(result for check in CHECKS if (result := check(facts)) is not None)
