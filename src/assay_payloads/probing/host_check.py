"""What a host needs so that trials reach its hardware: driver, toolkit, PCIe, kernel settings, fabric.

Runs with the standard library (3.8 or newer) in any directory: `python …/probing/host_check.py` prints
`:::ASSAY-PROBE {...}`, a flat JSON table of dotted names. The probe reports what could change a figure and
runs before every trial; this reports what a person would have to fix, only for `assay doctor`. It follows the
probe's rules: what can't be read is absent, what refuses to be read is listed in `host.unreadable`, and
nothing is a default.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

sys.path.insert(0, os.path.abspath(f"{__file__}/../../.."))  # noqa: PTH100 - where the package lies
from assay_payloads.keeping.file_tree import FileTree, keyed_lines
from assay_payloads.probing import host_fabric, host_pci
from assay_payloads.probing.host_fabric import ToolOutput, Tools
from assay_payloads.probing.probe import MARK, VERSION, gather, plain

LIBRARIES = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")
MODULES = ("nvidia", "nvidia_uvm", "nvidia_modeset", "nvidia_drm", "nouveau")
CDI_FOLDERS = ("/etc/cdi", "/var/run/cdi")
# Engine → its program, and where its settings may be
ENGINES = {
    "docker": ("/usr/bin/dockerd", ("/etc/docker/daemon.json",)),
    "containerd": ("/usr/bin/containerd", ("/etc/containerd/config.toml", "/etc/containerd/conf.d")),
    "crio": ("/usr/bin/crio", ("/etc/crio/crio.conf", "/etc/crio/crio.conf.d")),
    "podman": ("/usr/bin/podman", ()),  # has no NVIDIA runtime: it uses CDI
}
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


def check(tree: FileTree, tools: Tools) -> dict[str, Any]:
    """The whole table of this host."""
    facts: dict[str, Any] = {"probe.version": VERSION, "host.checked": True}
    sections: dict[str, Callable[[], Iterable[tuple[str, Any]]]] = {
        "driver": lambda: driver(tree, tools.output_of),
        "containers": lambda: containers(tree, tools.output_of),
        "pci": lambda: host_pci.devices(tree),
        "paths": lambda: host_pci.paths(tree, tools.output_of("nvidia-smi", "topo", "-m")),
        "kernel": lambda: kernel(tree),
        "confinement": lambda: confinement(tree),
        "virtual": lambda: virtual(tree, tools.output_of),
        "fabric": lambda: host_fabric.fabric(tree, tools.output_of),
    }
    for name, section in sections.items():
        problem = gather(section, facts)
        if problem:
            tree.unreadable.append(f"{name}: {problem}")
    refused = [*tree.unreadable, *tools.refused]
    if refused:
        facts["host.unreadable"] = plain("; ".join(refused))
    return facts


def driver(tree: FileTree, output_of: ToolOutput) -> Iterator[tuple[str, Any]]:
    """Which module is loaded, which is on disk, which libraries exist, and the device files.

    Three versions that should match: an upgrade replaces disk and libraries but leaves the loaded module.
    """
    yield "driver.loaded", tree.text("/sys/module/nvidia/version")
    banner = tree.text("/proc/driver/nvidia/version")
    if banner is not None:
        yield "driver.flavor", "open" if "Open Kernel Module" in banner else "proprietary"
    yield "driver.modules", ",".join(name for name in MODULES if tree.has(f"/sys/module/{name}"))
    yield "driver.library", library(tree)
    yield "driver.devices", len(tree.names("/dev", r"nvidia\d+$")) or None
    if tree.has("/sys/module/nvidia"):
        yield "driver.on_disk", (output_of("modinfo", "-F", "version", "nvidia") or "").strip()
        files = ("nvidiactl", "nvidia-uvm")
        yield "driver.devices_missing", ",".join(name for name in files if not tree.has(f"/dev/{name}"))


def library(tree: FileTree) -> str | None:
    """Version of the management library, from its file name; all of them if there are several."""
    names = [name for folder in LIBRARIES for name in tree.names(folder, r"libnvidia-ml\.so\.\d+\.\d")]
    return ",".join(sorted({name.partition(".so.")[2] for name in names})) or None


def containers(tree: FileTree, output_of: ToolOutput) -> Iterator[tuple[str, Any]]:
    """NVIDIA's toolkit, whether each engine knows its runtime, and the CDI specifications.

    `engine.NAME` is whether its settings name NVIDIA; `cdi.drivers` the driver versions of the files
    listed in the specifications; `cdi.missing` the first of those files that does not exist.
    """
    version = re.search(r"version (\d[\w.~-]*)", output_of("nvidia-ctk", "--version") or "")
    yield "toolkit.version", version[1] if version else None
    for name, (program, places) in ENGINES.items():
        if tree.has(program):
            yield f"engine.{name}", any("nvidia" in settings for settings in texts(tree, places))
    specs = [
        f"{folder}/{name}" for folder in CDI_FOLDERS for name in tree.names(folder, r".*\.(ya?ml|json)$")
    ]
    text_by_place = {place: tree.text(place) or "" for place in specs}
    gpu = {
        place: content
        for place, content in text_by_place.items()
        if re.search(r"kind\W+nvidia\.com/gpu", content)
    }
    if tree.has("/sys/module/nvidia"):
        yield "cdi.specs", len(gpu)
    yield "cdi.files", ",".join(gpu)
    paths = sorted({path for text in gpu.values() for path in re.findall(r"hostPath\W+(/[^\s\"',}]+)", text)})
    versions = {match[1] for path in paths if (match := re.search(r"\.so\.(\d{3,}\.\d+(\.\d+)?)$", path))}
    yield "cdi.drivers", ",".join(sorted(versions))
    yield "cdi.missing", next((path for path in paths if not tree.has(path)), None)


def texts(tree: FileTree, places: Iterable[str]) -> Iterator[str]:
    """Settings files, including those in directories (`….d`), without comments."""
    for place in places:
        names = [f"{place}/{name}" for name in tree.names(place)] if place.endswith(".d") else [place]
        for name in names:
            yield re.sub(r"(?m)^\s*#.*$", "", tree.text(name) or "")


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


if __name__ == "__main__":
    sys.stdout.write(MARK + json.dumps(check(FileTree(), Tools()), ensure_ascii=True, allow_nan=False) + "\n")
    sys.stdout.flush()
    os._exit(0)
