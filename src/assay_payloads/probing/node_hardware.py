"""The node itself: names, kernel, processor, memory, networks."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from assay_payloads.keeping.file_tree import FileTree, keyed_lines


def machine(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """Names of the node, its vendor, kernel, and operating system."""
    system = os.uname()
    yield "host", system.nodename
    yield "boot_id", tree.text("/proc/sys/kernel/random/boot_id")
    yield "kernel", system.release
    yield "kernel.architecture", system.machine
    yield "libc", library_of_c()
    yield "kernel.options", kernel_options(tree.text("/proc/cmdline"))
    yield "kernel.numa_balancing", tree.number("/proc/sys/kernel/numa_balancing")
    release = dict(re.findall(r'^(\w+)="?(.*?)"?$', tree.text("/etc/os-release") or "", re.MULTILINE))
    yield "os", release.get("PRETTY_NAME")
    yield "machine.vendor", tree.text("/sys/class/dmi/id/sys_vendor")
    yield "machine.product", tree.text("/sys/class/dmi/id/product_name")
    yield "machine.bios", tree.text("/sys/class/dmi/id/bios_version")
    for fact, name in (("source", "current_clocksource"), ("available", "available_clocksource")):
        yield f"clock.{fact}", tree.text(f"/sys/devices/system/clocksource/clocksource0/{name}")
    for minutes, load in zip((1, 5, 15), os.getloadavg()):  # noqa: B905 - strict= is newer than 3.8
        yield f"load.{minutes}min", round(load, 2)


def library_of_c() -> str | None:
    """The library of C, like `glibc 2.36`; None if it has no such name, as musl's."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (OSError, ValueError):
        return None


# Only parameters that affect speed: the rest of a kernel's command line may name disks, hosts, and secrets
KERNEL_OPTION = re.compile(
    r"(mitigations|isolcpus|nohz_full|nohz|rcu_nocbs|idle|intel_idle\.\w+|processor\.\w+|hugepages|hugepagesz"
    r"|default_hugepagesz|transparent_hugepage|iommu|intel_iommu|amd_iommu|numa_balancing|numa|intel_pstate"
    r"|amd_pstate|nosmt|tsc|clocksource|spectre_v2|spec_store_bypass_disable|nopti|pti|skew_tick|nosoftlockup"
    r"|nmi_watchdog|audit|pcie_aspm|preempt)(=.*)?"
)


def kernel_options(cmdline: str | None) -> str | None:
    """The parameters on the kernel's command line that are known to affect speed, in order."""
    return " ".join(word for word in (cmdline or "").split() if KERNEL_OPTION.fullmatch(word)) or None


def processor(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """The CPU: model, cores, frequency, and its governor. Facts of the node, not of this process."""
    cpus = "/sys/devices/system/cpu"
    info = keyed_lines(tree.text("/proc/cpuinfo", size=8192))  # the first CPU: all of 256 take a while
    yield "cpu.model", info.get("model name") or info.get("cpu")
    yield "cpu.implementer", info.get("CPU implementer")
    yield "cpu.part", info.get("CPU part")
    yield "cpu.microcode", info.get("microcode")
    yield "cpu.isa", instruction_sets(info.get("flags") or info.get("Features"))
    yield "cpu.logical", os.sysconf("SC_NPROCESSORS_ONLN")
    topologies = [f"{cpus}/{name}/topology" for name in tree.names(cpus, r"cpu\d+$")]
    cores = {tree.text(f"{topology}/thread_siblings_list") for topology in topologies} - {None}
    sockets = {tree.text(f"{topology}/physical_package_id") for topology in topologies} - {None}
    yield "cpu.cores", len(cores) or None
    yield "cpu.sockets", len(sockets) or None
    threads = tree.number(f"{cpus}/smt/active")
    yield "cpu.smt", None if threads is None else threads == 1
    policies = [f"{cpus}/cpufreq/{name}" for name in tree.names(f"{cpus}/cpufreq", "policy")]
    yield (
        "cpu.governor",
        ",".join(sorted({tree.text(f"{p}/scaling_governor") or "" for p in policies} - {""})),
    )
    for fact, name in (("max", "cpuinfo_max_freq"), ("now", "scaling_cur_freq")):
        kilohertz = [tree.number(f"{policy}/{name}") or 0 for policy in policies]
        yield f"cpu.frequency_{fact}_hz", 1000 * max(kilohertz, default=0) or None
    boost = tree.number(f"{cpus}/cpufreq/boost")
    no_turbo = tree.number(f"{cpus}/intel_pstate/no_turbo")
    if boost is not None or no_turbo is not None:
        yield "cpu.boost", boost == 1 if boost is not None else no_turbo == 0
    yield "cpu.throttled_count_now", throttled(tree)
    yield "virtualisation", hypervisor(tree, info)


# Instruction sets that libraries choose their kernels by, as the kernel names them
CHOOSES_KERNELS = re.compile(r"sse4_[12]|avx\w*|amx_\w+|fma|f16c|vnni|asimd\w*|sve\w*|bf16|i8mm|fphp")


def instruction_sets(flags: str | None) -> str | None:
    """The CPU's instruction sets that libraries choose their kernels by, sorted; None if unknown."""
    return " ".join(sorted(filter(CHOOSES_KERNELS.fullmatch, (flags or "").split()))) or None


def throttled(tree: FileTree) -> int | None:
    """How often packages throttled because of heat since boot, in total; None if not counted.

    Source: arch/x86/kernel/cpu/mce/therm_throt.c; every CPU of a package shows the package's count.
    """
    cpus = "/sys/devices/system/cpu"
    if not tree.has(f"{cpus}/cpu0/thermal_throttle"):
        return None
    counts: dict[str | None, int] = {}
    for name in tree.names(cpus, r"cpu\d+$"):
        count = tree.number(f"{cpus}/{name}/thermal_throttle/package_throttle_count") or 0
        package = tree.text(f"{cpus}/{name}/topology/physical_package_id")
        counts[package] = max(count, counts.get(package, 0))
    return sum(counts.values())


def hypervisor(tree: FileTree, cpuinfo: dict[str, str]) -> str | None:
    """The hypervisor of this machine, "none" if the CPU says there is none, None if unknown."""
    clocks = tree.text("/sys/devices/system/clocksource/clocksource0/available_clocksource") or ""
    maker = f"{tree.text('/sys/class/dmi/id/sys_vendor')} {tree.text('/sys/class/dmi/id/product_name')}"
    signs = (
        (tree.text("/sys/hypervisor/type") == "xen", "xen"),
        ("VMware" in maker, "vmware"),
        ("Microsoft Corporation Virtual Machine" in maker or "hyperv" in clocks, "hyper-v"),
        ("kvm-clock" in clocks or "QEMU" in maker or "KVM" in maker, "kvm"),
    )
    for present, name in signs:
        if present:
            return name
    if "flags" not in cpuinfo:  # only x86 states it
        return None
    return "hypervisor" if "hypervisor" in cpuinfo["flags"].split() else "none"


def memory(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """Main memory, NUMA nodes, huge pages, and the shared memory that ranks on a node exchange through."""
    info = keyed_lines(tree.text("/proc/meminfo"))
    for fact, key in (("total", "MemTotal"), ("available", "MemAvailable"), ("swap", "SwapTotal")):
        if key in info:
            yield f"memory.{fact}_bytes", int(info[key].split()[0]) * 1024
    yield "memory.hugepages", int(info["HugePages_Total"]) if "HugePages_Total" in info else None
    huge = tree.text("/sys/kernel/mm/transparent_hugepage/enabled") or ""
    yield "memory.transparent_hugepages", "".join(re.findall(r"\[(\w+)\]", huge))
    yield "numa.nodes", len(tree.names("/sys/devices/system/node", r"node\d+$")) or None
    shm = os.statvfs(tree.path("/dev/shm"))  # noqa: S108 - it is asked for its size
    yield "shm.size_bytes", shm.f_blocks * shm.f_frsize
    yield "shm.free_bytes", shm.f_bavail * shm.f_frsize


# What runtimes name the interfaces of a container: eth0 by Kubernetes and Docker, net1 by Multus, ib0
CONTAINERS_OWN = re.compile(r"(eth|net|ib)\d+")


def _own(tree: FileTree, name: str, physical: set[str]) -> bool:
    place = f"/sys/class/net/{name}"
    if tree.has(f"{place}/bonding") or CONTAINERS_OWN.fullmatch(name):
        return True
    below = {entry.partition("_")[2] for entry in tree.names(place, "lower_")}
    return any(lower in physical or tree.has(f"/sys/class/net/{lower}/bonding") for lower in below)


def networks(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """Network interfaces and InfiniBand or RoCE devices, without those that a host makes for its guests.

    A host's containers and virtual machines come and go, and their bridges and pairs with them. Kept are
    interfaces with a device, those made of them (bonds, VLANs, bridges), and what a container calls its own.
    """
    every = tree.names("/sys/class/net")
    physical = {name for name in every if tree.has(f"/sys/class/net/{name}/device")}
    for name in [name for name in every if name in physical or _own(tree, name, physical)][:64]:
        place = f"/sys/class/net/{name}"
        bond = tree.has(f"{place}/bonding")
        yield f"net.{name}.state", tree.text(f"{place}/operstate")
        yield f"net.{name}.mtu_bytes", tree.number(f"{place}/mtu")
        megabits = None  # a pod's eth0 reports an invented speed
        if bond or name in physical:
            megabits = tree.number(f"{place}/speed")
        yield f"net.{name}.bits_per_s", megabits * 10**6 if megabits is not None and megabits > 0 else None
    for name in tree.names("/sys/class/infiniband"):
        place = f"/sys/class/infiniband/{name}"
        yield f"infiniband.{name}.firmware", tree.text(f"{place}/fw_ver")
        yield f"infiniband.{name}.board", tree.text(f"{place}/board_id")
        for port in tree.names(f"{place}/ports"):
            for fact in ("rate", "state", "link_layer"):
                yield f"infiniband.{name}.port{port}.{fact}", tree.text(f"{place}/ports/{port}/{fact}")
