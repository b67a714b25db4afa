"""What nova.conf needs on controllers and hosts, and the hosts' kernel settings: lines to merge, not files.

Source: nova, admin/pci-passthrough, admin/virtual-gpu, admin/cpu-topologies, admin/huge-pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from assay.cluster.openstack.machines import MIB, PAGE_BYTES, MachinesFile, PciDevices

FILTERS = ("PciPassthroughFilter", "NUMATopologyFilter", "ServerGroupAntiAffinityFilter")
KERNEL_PAGES = {"2MiB": "2M", "1GiB": "1G"}


def aliases(machines: MachinesFile) -> list[str]:
    """The [pci] alias lines, the same on controllers and hosts."""
    return [
        json.dumps(
            {"name": alias, **_ids(device), "device_type": device.device_type, "numa_policy": machines.near}
        )
        for alias, device in machines.devices.items()
    ]


def _ids(device: PciDevices) -> dict[str, str]:
    return {"vendor_id": device.vendor_id, "product_id": device.product_id}


def controllers(machines: MachinesFile) -> list[str]:
    """Lines of nova.conf for nova-api, conductor and scheduler."""
    lines = ["[filter_scheduler]", f"# enabled_filters: add those that are missing: {', '.join(FILTERS)}"]
    if machines.devices:
        lines += ["", "[pci]", *(f"alias = {alias}" for alias in aliases(machines))]
    return lines


def hosts(machines: MachinesFile) -> list[str]:
    """Lines of nova.conf for nova-compute."""
    parts: list[list[str]] = []
    if machines.devices:
        specs = (json.dumps(_ids(device)) for device in machines.devices.values())
        named = (f"alias = {alias}" for alias in aliases(machines))
        parts.append(["[pci]", *(f"device_spec = {spec}" for spec in specs), *named])
    if machines.vgpus is not None:
        kind, addresses = machines.vgpus.mdev_type, ",".join(machines.vgpus.addresses)
        parts.append(["[devices]", f"enabled_mdev_types = {kind}"])
        parts.append([f"[mdev_{kind}]", f"device_addresses = {addresses}"])
    cpus = {"cpu_dedicated_set": machines.hosts.dedicated_cpus, "cpu_shared_set": machines.hosts.shared_cpus}
    cpu_sets = [f"{name} = {ranges}" for name, ranges in cpus.items() if ranges is not None]
    if machines.cpu_policy == "dedicated" and machines.hosts.dedicated_cpus is None:
        cpu_sets.append("# cpu_dedicated_set: the CPUs dedicated to machines; required")
    if cpu_sets:
        parts.append(["[compute]", *cpu_sets])
    return "\n\n".join("\n".join(part) for part in parts).splitlines()


def kernel(machines: MachinesFile) -> Iterator[str]:
    """What the hosts' kernels need, as commands and reasons; then reboot."""
    arguments = []
    if machines.devices:
        arguments += ["intel_iommu=on", "iommu=pt"]
        ids = ",".join(f"{device.vendor_id}:{device.product_id}" for device in machines.devices.values())
        yield f"echo 'options vfio-pci ids={ids}' > /etc/modprobe.d/vfio.conf"
        yield "echo vfio-pci > /etc/modules-load.d/vfio.conf"
    if machines.huge_pages in PAGE_BYTES:
        each = machines.memory * MIB // PAGE_BYTES[machines.huge_pages]
        size = KERNEL_PAGES[machines.huge_pages]
        arguments += [f"default_hugepagesz={size}", f"hugepagesz={size}", f"hugepages={each}"]
    if arguments:
        yield f"grubby --update-kernel=ALL --args='{' '.join(arguments)}'"


def text(machines: MachinesFile) -> str:
    """All of it, for a person to merge."""
    parts = {
        "nova.conf of controllers, to merge": controllers(machines),
        "nova.conf of compute hosts, to merge": hosts(machines),
        "compute hosts, as root, then reboot; huge pages are for one machine per host": [*kernel(machines)],
    }
    shown = ("\n".join([f"# {title}", *lines]) for title, lines in parts.items() if lines)
    return "\n\n".join(shown) + "\n"
