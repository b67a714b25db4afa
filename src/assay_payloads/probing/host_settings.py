"""Kernel parameters, confinement, and the signs that a machine is virtual."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from assay_payloads.keeping.file_tree import FileTree, keyed_lines
from assay_payloads.probing.host_tools import ToolOutput

# Services whose limits their child processes inherit
STARTERS = ("dockerd", "containerd", "crio", "slurmd", "sshd", "kubelet")
# Booleans that let confined containers use device files. Source: container-selinux, container.te
BOOLEANS = ("container_use_devices", "container_use_xserver_devices")
CRIO_SETTINGS = "/etc/crio/crio.conf.d"
DMI = ("sys_vendor", "product_name")
# Vendor names that only virtual machines have. Source: systemd, src/basic/virt.c, detect_vm_dmi_vendor
VIRTUAL_MAKERS = (
    *("KVM", "OpenStack", "KubeVirt", "QEMU", "VMware", "VMW", "innotek GmbH", "VirtualBox", "Xen", "Bochs"),
    *(
        "Parallels",
        "BHYVE",
        "Microsoft Corporation Virtual Machine",
        "Google Compute Engine",
        "oVirt",
        "RHEV",
    ),
    *("Amazon EC2", "Alibaba Cloud", "Hetzner vServer"),
)
# Server vendors; any other name says nothing: a cloud may have set it
SERVER_MAKERS = (
    *("NVIDIA", "Dell", "HPE", "Hewlett", "Lenovo", "IBM", "Supermicro", "Super Micro", "ASUS", "GIGABYTE"),
    *("Giga Computing", "Inspur", "FUJITSU", "Intel", "Quanta", "Cisco", "Gooxi", "xFusion", "HUAWEI"),
)
METAL = ".metal"  # Amazon's suffix for machines without a hypervisor


def kernel(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """Parameters that move memory around, and the reserved huge pages."""
    yield "kernel.zone_reclaim_mode", tree.number("/proc/sys/vm/zone_reclaim_mode")
    yield "kernel.swappiness", tree.number("/proc/sys/vm/swappiness")
    defrag = tree.text("/sys/kernel/mm/transparent_hugepage/defrag") or ""
    yield "kernel.transparent_hugepage_defrag", "".join(re.findall(r"\[([\w+]+)\]", defrag))
    pools = "/sys/kernel/mm/hugepages"
    for name in tree.names(pools, r"hugepages-\d+kB$"):
        for fact in ("nr", "free"):
            yield f"hugepages.{name[10:]}.{fact}", tree.number(f"{pools}/{name}/{fact}_hugepages")
    yield "kernel.iommu_groups", len(tree.names("/sys/kernel/iommu_groups"))


def confinement(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """SELinux: its mode and the types on device files; the locked memory that services pass on."""
    enforce = tree.number("/sys/fs/selinux/enforce")
    if enforce is not None:
        yield "selinux.mode", "enforcing" if enforce else "permissive"
    elif "selinuxfs" not in (tree.text("/proc/filesystems") or "selinuxfs"):
        yield "selinux.mode", "not in this kernel"
    text_by_boolean = {name: tree.text(f"/sys/fs/selinux/booleans/{name}") for name in BOOLEANS}
    known = {name: text for name, text in text_by_boolean.items() if text is not None}
    yield "selinux.booleans", ",".join(known)
    yield "selinux.booleans_on", ",".join(name for name, text in known.items() if text.startswith("1"))
    for fact, folder, pattern in (("gpu", "/dev", r"nvidia\d+$"), ("verbs", "/dev/infiniband", "uverbs")):
        for name in tree.names(folder, pattern)[:1]:
            yield f"selinux.{fact}_device", label(tree.path(f"{folder}/{name}"))
    for process in tree.names("/proc", r"\d+$"):
        starter = tree.text(f"/proc/{process}/comm")
        if starter in STARTERS:
            limits = tree.text(f"/proc/{process}/limits") or ""
            match = re.search(r"^Max locked memory\s+(\S+)", limits, re.MULTILINE)
            if match:
                yield f"memlock.{starter}", match[1] if match[1] == "unlimited" else int(match[1])
    for name in tree.names(CRIO_SETTINGS):
        match = re.search(r'"memlock=([-\d]+)', tree.text(f"{CRIO_SETTINGS}/{name}") or "")
        if match:
            yield "memlock.crio", "unlimited" if match[1] == "-1" else int(match[1])


def label(path: str) -> str | None:
    """A file's SELinux type; None if it has none."""
    try:
        context = os.getxattr(path, "security.selinux").decode().strip("\0")
    except OSError:  # the file system stores none
        return None
    fields = context.split(":")
    return fields[2] if len(fields) > 2 else None


def virtual(tree: FileTree, output_of: ToolOutput) -> Iterator[tuple[str, Any]]:
    """`virtual.SIGN`: `yes` and what it names, or `no`; a sign without information is absent.

    All signs are reported: a hypervisor can hide some of them, depending on who asks.
    """
    maker = " ".join(filter(None, (tree.text(f"/sys/class/dmi/id/{name}") for name in DMI)))
    if maker:
        is_virtual = any(name in maker for name in VIRTUAL_MAKERS) and METAL not in maker
        is_server = any(name in maker for name in SERVER_MAKERS) or METAL in maker
        yield "virtual.DMI", f"yes: {maker}" if is_virtual else f"no: {maker}" if is_server else None
    flags = keyed_lines(tree.text("/proc/cpuinfo", size=8192)).get("flags")
    if flags is not None:  # only x86 states it
        yield "virtual.cpuinfo", "yes" if "hypervisor" in flags.split() else "no"
    detected = output_of("systemd-detect-virt", "--vm", fine=(0, 1))  # 1: none
    if detected:
        yield (
            "virtual.systemd-detect-virt",
            "no" if detected.strip() == "none" else f"yes: {detected.strip()}",
        )
    clocks = tree.text("/sys/devices/system/clocksource/clocksource0/available_clocksource") or ""
    named_clocks = [name for name in clocks.split() if re.match(r"kvm-clock|hyperv|xen", name)]
    if named_clocks:
        yield "virtual.clock", f"yes: {named_clocks[0]}"
    virtio = len(tree.names("/sys/bus/virtio/devices"))
    if virtio:
        yield "virtual.virtio", f"yes: {virtio} devices"
    kind = tree.text("/sys/hypervisor/type")
    if kind:
        yield "virtual.hypervisor", f"yes: {kind}"
