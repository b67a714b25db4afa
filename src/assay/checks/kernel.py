"""Checks of the kernel: parameters that move memory during a trial, and signs of a virtual machine."""

from __future__ import annotations

import re

from assay.checks import Check, Facts, number, text
from assay.units import human

MOST_SWAPPINESS = 60  # the kernel's default
PERSIST = "and the same line in /etc/sysctl.d/90-trials.conf"
UNUSED_SHARE = 0.05  # of memory set aside as huge pages that nobody uses


def numa_balancing(facts: Facts) -> Check | None:
    """Whether the kernel unmaps pages to see who uses them."""
    name, value, nodes = "NUMA balancing", number(facts, "kernel.numa_balancing"), number(facts, "numa.nodes")
    if nodes == 1:
        return None
    if value is None:
        return Check(name, "unknown", "/proc/sys/kernel/numa_balancing does not exist")
    if not value:
        return Check(name, "ok", "off (/proc/sys/kernel/numa_balancing)")
    evidence = f"on: pages are unmapped and moved between {nodes or 0:g} nodes while ranks run"
    return Check(name, "warn", evidence, f"as root: sysctl -w kernel.numa_balancing=0, {PERSIST}")


def transparent_hugepages(facts: Facts) -> Check:
    """Whether programs can get huge pages without an administrator reserving them."""
    name, mode = "transparent huge pages", text(facts, "memory.transparent_hugepages")
    place, defrag = "/sys/kernel/mm/transparent_hugepage", text(facts, "kernel.transparent_hugepage_defrag")
    if mode is None:
        return Check(name, "unknown", f"{place}/enabled can't be read")
    evidence = f"{mode}, defrag {defrag or 'unknown'} ({place})"
    if mode == "never":
        why = f"{evidence}: each address translation covers only 4 KiB"
        return Check(name, "warn", why, f"as root: echo madvise > {place}/enabled")
    if defrag == "always" and mode == "always":
        why = f"{evidence}: processes wait while the kernel assembles huge pages"
        return Check(name, "warn", why, f"as root: echo madvise > {place}/defrag")
    return Check(name, "ok", evidence)


def reclaim(facts: Facts) -> Check:
    """Whether the kernel reclaims local memory before it uses remote memory, and whether it swaps eagerly."""
    name, near = "memory reclaim", number(facts, "kernel.zone_reclaim_mode")
    swappiness, swap = number(facts, "kernel.swappiness"), number(facts, "memory.swap_bytes")
    if near is None or swappiness is None:
        return Check(name, "unknown", "/proc/sys/vm/zone_reclaim_mode or swappiness does not exist")
    evidence = f"vm.zone_reclaim_mode {near:g}, vm.swappiness {swappiness:g}"
    if near:
        why = f"{evidence}: a NUMA node's file caches are dropped while other nodes have free memory"
        return Check(name, "warn", why, f"as root: sysctl -w vm.zone_reclaim_mode=0, {PERSIST}")
    if swap and swappiness > MOST_SWAPPINESS:
        why = f"{evidence}: programs are swapped out early to keep files cached"
        return Check(name, "warn", why, f"as root: sysctl -w vm.swappiness=10, {PERSIST}")
    return Check(name, "ok", evidence)


def hugepages(facts: Facts) -> Check:
    """Reserved huge pages, and whether anything uses them."""
    name, total = "reserved huge pages", number(facts, "memory.total_bytes")
    pools = {}
    for fact in facts:
        match = re.fullmatch(r"hugepages\.(\d+)kB\.nr", fact)
        if match is not None:
            pools[int(match[1]) * 1024] = number(facts, fact) or 0, number(facts, f"{fact[:-2]}free") or 0
    if not pools:
        return Check(name, "unknown", "/sys/kernel/mm/hugepages can't be read")
    held = {size: counts for size, counts in pools.items() if counts[0]}
    backing = "; how the host backs this memory can't be seen from here" if is_virtual(facts) else ""
    if not held:
        return Check(name, "ok", f"none (/sys/kernel/mm/hugepages){backing}")
    described = ", ".join(f"{nr:g} of {human(size, 'B')}, {free:g} free" for size, (nr, free) in held.items())
    idle = sum(size * free for size, (_, free) in held.items())
    if total and idle > UNUSED_SHARE * total:
        remedy = "as root, if nothing needs them: sysctl -w vm.nr_hugepages=0"
        return Check(
            name, "warn", f"{described}: {human(idle, 'B')} that trials can't use for anything else", remedy
        )
    return Check(name, "ok", described + backing)


def signs(facts: Facts) -> dict[str, str]:
    """Sign → `yes`, with what it names, or `no`."""
    return {
        name.removeprefix("virtual."): str(value)
        for name, value in facts.items()
        if name.startswith("virtual.")
    }


def is_virtual(facts: Facts) -> bool:
    """Whether any sign indicates a virtual machine."""
    return any(answer.startswith("yes") for answer in signs(facts).values())


def hypervisor(facts: Facts) -> Check:
    """Whether the signs of a virtual machine agree; a hypervisor that hides itself makes them disagree."""
    answers = signs(facts)
    yes = [
        f"{sign} ({answer[5:]})" if len(answer) > 3 else sign
        for sign, answer in answers.items()
        if answer[:3] == "yes"
    ]
    no = [sign for sign, answer in answers.items() if answer[:2] == "no"]
    if not answers:
        return Check("hypervisor", "unknown", "no sign either way in DMI, cpuinfo, or systemd-detect-virt")
    if yes and no:
        evidence = f"virtual by {', '.join(yes)}; not by {', '.join(no)}: the hypervisor hides itself"
        remedy = (
            "programs that check the hidden sign assume bare metal; drivers since 465 don't need it hidden: "
            "openstack flavor unset --property hw:hide_hypervisor_id FLAVOR"
        )
        return Check("hypervisor", "warn", evidence, remedy)
    if yes:
        return Check("hypervisor", "ok", f"virtual by {', '.join(yes)}")
    return Check("hypervisor", "ok", f"bare metal by {', '.join(no)}")
