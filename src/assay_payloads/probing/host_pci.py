"""GPUs, network adapters, and NVMe disks on the PCI bus: their links, locations, and paths between them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from assay_payloads.keeping.counters import listed
from assay_payloads.keeping.file_tree import FileTree

BUS = "/sys/bus/pci/devices"
NVIDIA, AMD, VIRTIO = "0x10de", "0x1002", "0x1af4"
ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")
# Class codes by their first two bytes. Source: PCI Code and ID Assignment Specification
KINDS = {
    "0x0300": "gpu",
    "0x0302": "gpu",
    "0x1200": "gpu",
    "0x0200": "nic",
    "0x0207": "nic",
    "0x0108": "nvme",
}
EXTENDED, ACS_ID = 0x100, 0x000D  # start of the extended capabilities; Access Control Services
REQUEST_REDIRECT, COMPLETION_REDIRECT = 0x4, 0x8
# nvidia-smi's names of paths, nearest first; NV# and X are not paths to a network adapter
PATHS = ("PIX", "PXB", "PHB", "NODE", "SYS")


def devices(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """`pci.ADDRESS.…` of each device: kind, name, link and its maximum, NUMA node, IOMMU.

    Speeds are in GT/s, as in sysfs. `pci.acs_redirects` lists the bridges above GPUs and adapters that
    send traffic between them through the CPU; `pci.acs_unread` counts those that don't report it.
    """
    bridges: set[str] = set()
    for address, kind in sorted(found(tree).items()):
        place = f"{BUS}/{address}"
        yield f"pci.{address}.kind", kind
        yield f"pci.{address}.called", ",".join(names(tree, place))
        yield from link(tree, address)
        node = tree.number(f"{place}/numa_node")
        yield f"pci.{address}.numa_node", node if node is not None and node >= 0 else None
        yield f"pci.{address}.iommu", tree.text(f"{place}/iommu_group/type")
        if kind in ("gpu", "nic"):
            bridges.update(above(tree, address))
    yield "numa.allowed", ",".join(map(str, allowed_nodes(tree)))
    acs = {bridge: redirects(tree, bridge) for bridge in bridges}
    yield "pci.acs_redirects", ",".join(sorted(bridge for bridge, does in acs.items() if does))
    yield "pci.acs_unread", sum(does is None for does in acs.values())


def found(tree: FileTree) -> dict[str, str]:
    """Addresses of the relevant devices, and their kinds.

    A display of another vendor is not a GPU, and a hypervisor's own network card has neither link nor
    location.
    """
    kinds = {}
    for address in tree.names(BUS, ADDRESS.pattern):
        kind = KINDS.get((tree.text(f"{BUS}/{address}/class") or "")[:6])
        vendor = tree.text(f"{BUS}/{address}/vendor")
        if kind is not None and vendor != VIRTIO and (kind != "gpu" or vendor in (NVIDIA, AMD)):
            kinds[address] = kind
    return kinds


def names(tree: FileTree, place: str) -> list[str]:
    """What the kernel calls a device: `mlx5_0`, `eth0`."""
    return [name for folder in ("infiniband", "net", "nvme") for name in tree.names(f"{place}/{folder}")]


def link(tree: FileTree, address: str) -> Iterator[tuple[str, Any]]:
    """Speed and lanes of a device's link, and the maximum of the device and of the bridge above it."""
    upper = above(tree, address)
    for prefix, device in (("", address), ("slot_", upper[-1] if upper else None)):
        if device is None:
            continue
        for fact, name in (("speed", "link_speed"), ("width", "link_width")):
            for suffix, which in (("", "current"), ("_max", "max")):
                if not (prefix and which == "current"):
                    value = figure(tree.text(f"{BUS}/{device}/{which}_{name}"))
                    yield f"pci.{address}.{prefix}{fact}{suffix}", value


def allowed_nodes(tree: FileTree) -> list[int]:
    """NUMA nodes with CPUs that this process may use."""
    allowed, nodes = os.sched_getaffinity(0), "/sys/devices/system/node"
    return sorted(
        int(name[4:])
        for name in tree.names(nodes, r"node\d+$")
        if allowed & listed(tree.text(f"{nodes}/{name}/cpulist") or "")
    )


def figure(text: str | None) -> float | None:
    """`16.0 GT/s PCIe` is 16.0, `8` is 8.0; values of a virtual bus (`Unknown`, 0, 255 lanes) are None."""
    match = re.match(r"\d+(\.\d+)?", text or "")
    return float(match[0]) if match and float(match[0]) not in (0.0, 255.0) else None


def chain(tree: FileTree, address: str) -> list[str]:
    """The path from the host bridge to a device: `pci0000:00`, the bridges' addresses, its own."""
    parts = os.path.realpath(tree.path(f"{BUS}/{address}")).split("/")
    first = next((n for n, part in enumerate(parts) if re.match(r"pci[0-9a-f]{4,}:", part)), len(parts))
    return parts[first:]


def above(tree: FileTree, address: str) -> list[str]:
    """The bridges above a device, topmost first."""
    return [part for part in chain(tree, address)[1:-1] if ADDRESS.match(part)]


def redirects(tree: FileTree, bridge: str) -> bool | None:
    """Whether a bridge sends requests from one device to another through the root, because of ACS.

    None if its extended configuration can't be read, which needs root. Source: PCI Express Base
    Specification, Access Control Services; the control register is 6 bytes into the capability.
    """
    try:
        with open(tree.path(f"{BUS}/{bridge}/config"), "rb") as file:  # noqa: PTH123
            config = file.read(4096)
    except OSError:
        return None
    if len(config) <= EXTENDED:
        return None
    place = EXTENDED
    for _ in range(64):  # a broken list must not loop forever
        header = int.from_bytes(config[place : place + 4], "little")
        if header & 0xFFFF == ACS_ID:
            control = int.from_bytes(config[place + 6 : place + 8], "little")
            return bool(control & (REQUEST_REDIRECT | COMPLETION_REDIRECT))
        place = header >> 20
        if place < EXTENDED:
            break
    return False


# Paths between devices
# ---------------------------------------------------------------------------------------


def paths(tree: FileTree, topology: str | None) -> Iterator[tuple[str, Any]]:
    """`path.GPU0.mlx5_0`: the path between them, in nvidia-smi's terms; if it reports nothing, from sysfs."""
    stated = dict(matrix(topology)) if topology is not None else {}
    source = "nvidia-smi topo -m" if stated else "sysfs"
    table = stated or dict(from_sysfs(tree))
    yield "path.source", source if table else None
    for (gpu, nic), path in sorted(table.items()):
        yield f"path.{gpu}.{nic}", path


def matrix(text: str) -> Iterator[tuple[tuple[str, str], str]]:
    """GPU and adapter → path, from `nvidia-smi topo -m` of any age.

    Drivers up to 510 label a column with the adapter's name; later ones with NIC0, with a legend below.
    """
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)  # the header is underlined
    called = dict(re.findall(r"^\s*(NIC\d+):\s*(\S+)", plain, re.MULTILINE))
    lines = [line.split() for line in plain.splitlines() if line.strip()]
    head = next((line for line in lines if line[0] == "GPU0" and "X" not in line), [])
    columns = head[: head.index("CPU")] if "CPU" in head else head
    for row in lines:
        if re.fullmatch(r"GPU\d+", row[0]) and row is not head:
            for column, path in zip(columns, row[1:]):  # noqa: B905 - strict= is newer than 3.8
                if path in PATHS and not column.startswith("GPU"):
                    yield (row[0], called.get(column, column)), path


def from_sysfs(tree: FileTree) -> Iterator[tuple[tuple[str, str], str]]:
    """The same from the bridges in sysfs; GPUs are numbered in bus order, as in nvidia-smi."""
    kinds = found(tree)
    gpus = [address for address, kind in sorted(kinds.items()) if kind == "gpu"]
    for number, gpu in enumerate(gpus):
        for nic in tree.names("/sys/class/infiniband"):
            device = os.path.realpath(tree.path(f"/sys/class/infiniband/{nic}/device"))
            path = between(tree, gpu, os.path.basename(device))  # noqa: PTH119
            if path is not None:
                yield (f"GPU{number}", nic), path


def between(tree: FileTree, a: str, b: str) -> str | None:
    """The path between two devices; None if the bus does not show it (a virtual one has no NUMA nodes).

    Source: the legend of `nvidia-smi topo -m`.
    """
    ways = chain(tree, a), chain(tree, b)
    if not (ways[0] and ways[1]):
        return None
    common = next((n for n, (x, y) in enumerate(zip(*ways)) if x != y), min(map(len, ways)))  # noqa: B905
    if common > 1:  # a bridge below the host bridge
        return "PIX" if max(map(len, ways)) - common <= 2 else "PXB"
    if common == 1:
        return "PHB"
    nodes = [tree.number(f"{BUS}/{address}/numa_node") for address in (a, b)]
    if None in nodes or -1 in nodes:
        return None
    return "NODE" if nodes[0] == nodes[1] else "SYS"
