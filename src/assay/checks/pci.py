"""Checks of the PCI bus: slow links, address translation, detours through the CPU."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from assay.checks import Check, Facts, State, kernel, number, text

MOST_TOLD = 4
_KIND = re.compile(r"pci\.(.+)\.kind")
_LABELS = {"gpu": "GPU", "nic": "adapter", "nvme": "NVMe"}


def devices(facts: Facts, *kinds: str) -> list[str]:
    """Addresses of the devices of these kinds; of all devices if none is given."""
    kind_by_address = {match[1]: kind for name, kind in facts.items() if (match := _KIND.fullmatch(name))}
    return sorted(address for address, kind in kind_by_address.items() if not kinds or kind in kinds)


def called(facts: Facts, address: str) -> str:
    """A device's name for people: `GPU 0000:01:00.0`, `mlx5_0`."""
    kind = _LABELS.get(text(facts, f"pci.{address}.kind") or "", "device")
    return text(facts, f"pci.{address}.called") or f"{kind} {address}"


def links(facts: Facts) -> Check | None:
    """Whether each link runs with the lanes and speed that the device and its slot support."""
    name, all_of = "PCIe links", devices(facts)
    reporting = [address for address in all_of if number(facts, f"pci.{address}.width") is not None]
    if not all_of:
        return None
    if not reporting:
        return Check(name, "unknown", f"none of {len(all_of)} devices reports its link: a virtual bus")
    narrow = [shortfall for address in reporting for shortfall in _short(facts, address, "width", "x{:g}")]
    idle: list[str] = []
    slow: list[str] = []
    for address in reporting:
        shortfalls = _short(facts, address, "speed", "{:g} GT/s")
        (idle if text(facts, f"pci.{address}.kind") == "gpu" else slow).extend(shortfalls)
    if narrow or slow:
        remedy = (
            "reseat the card or move it to another slot; then as root: lspci -vv | grep -E 'LnkCap|LnkSta'"
        )
        return Check(name, "warn", few(narrow + slow), remedy)
    if idle:
        evidence = f"{few(idle)}; normal for an idle GPU, which lowers its link speed"
        return Check(name, "unknown", evidence, "check again while a trial runs")
    return Check(name, "ok", f"{len(reporting)} devices run at the full lanes and speed of device and slot")


def _short(facts: Facts, address: str, what: str, form: str) -> Iterator[str]:
    """Evidence that one device's link is below its maximum, and whether the link or the slot limits it."""
    now = number(facts, f"pci.{address}.{what}")
    own, slot = number(facts, f"pci.{address}.{what}_max"), number(facts, f"pci.{address}.slot_{what}_max")
    if now is None or own is None:
        return
    could = min(own, slot) if slot is not None else own
    if now < could:
        yield f"{called(facts, address)} at {form.format(now)} of {form.format(could)}"
    elif could < own:
        yield f"{called(facts, address)} supports {form.format(own)}, but its slot only {form.format(could)}"


def translation(facts: Facts) -> Check | None:
    """Whether the IOMMU translates the addresses that GPUs and adapters use."""
    kinds = {address: text(facts, f"pci.{address}.iommu") for address in devices(facts, "gpu", "nic")}
    if not kinds or text(facts, "container") is not None:
        return None
    if not number(facts, "kernel.iommu_groups"):
        return Check("IOMMU", "ok", "off (/sys/kernel/iommu_groups is empty): nothing is translated")
    translated = [address for address, kind in kinds.items() if kind is not None and kind.startswith("DMA")]
    if translated:
        what = few([called(facts, address) for address in translated])
        evidence = f"translates for {what}: transfers between them are slower, and GPUDirect may fail"
        remedy = "as root: grubby --update-kernel=ALL --args=iommu=pt (or GRUB_CMDLINE_LINUX), and reboot"
        return Check("IOMMU", "warn", evidence, remedy)
    if None in kinds.values():
        return Check("IOMMU", "unknown", "on; can't tell for each device whether it translates")
    return Check("IOMMU", "ok", f"on, in passthrough: {', '.join(sorted({str(k) for k in kinds.values()}))}")


def redirects(facts: Facts) -> Check | None:
    """Whether access control services (ACS) route traffic between GPUs and adapters through the CPU."""
    if not devices(facts, "gpu") or text(facts, "container") is not None:
        return None
    bridges, unread = text(facts, "pci.acs_redirects"), number(facts, "pci.acs_unread")
    if bridges is not None:
        evidence = (
            f"on at {few(bridges.split(','))}: GPU-to-GPU and GPU-to-adapter traffic goes through the CPU"
        )
        remedy = (
            "as root, if no devices are passed through to virtual machines: setpci -s ADDRESS "
            "ECAP_ACS+0x6.w=0000"
        )
        return Check("ACS", "warn", evidence, remedy)
    if unread:
        evidence = f"only root can read the settings of {unread:g} bridges"
        return Check("ACS", "unknown", evidence, "as root: lspci -vvv | grep -i acsctl")
    return Check("ACS", "ok", "no bridge above a GPU or an adapter redirects traffic")


def near_cpus(facts: Facts) -> Check | None:
    """Whether each GPU is on a NUMA node whose CPUs this process may use."""
    name, gpus = "GPU locality", devices(facts, "gpu")
    if not gpus or (text(facts, "container") is not None and number(facts, "gpu.count") != len(gpus)):
        return None  # a container sees the whole bus, but not which of the GPUs are its own
    allowed = [int(node) for node in (text(facts, "numa.allowed") or "").split(",") if node]
    nodes = {gpu: number(facts, f"pci.{gpu}.numa_node") for gpu in gpus}
    known = {gpu: int(node) for gpu, node in nodes.items() if node is not None}
    remedy = "run the trial on cores of the GPU's NUMA node: numactl --cpunodebind, or the static CPU manager"
    if kernel.is_virtual(facts):
        remedy = (
            "openstack flavor set --property hw:pci_numa_affinity_policy=required --property hw:numa_nodes=N "
            "FLAVOR, as rendered by `assay cluster openstack`, and re-create the machine"
        )
    if len(known) < len(gpus) or not allowed:
        evidence = f"{len(gpus) - len(known)} of {len(gpus)} GPUs report no NUMA node (numa_node is -1)"
        return Check(name, "unknown", evidence, remedy)
    located = ", ".join(f"{called(facts, gpu)} on NUMA node {node}" for gpu, node in known.items())
    evidence = f"{located}; allowed CPUs: NUMA node {', '.join(map(str, allowed))}"
    state: State = "ok" if set(known.values()) <= {*allowed} else "warn"
    return Check(name, state, evidence, "" if state == "ok" else remedy)


def few(entries: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    more = len(entries) - MOST_TOLD
    return ", ".join(entries[:MOST_TOLD]) + (f" and {more} more" if more > 0 else "")
