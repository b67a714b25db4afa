"""Extra specs of the flavor and properties of the image.

Source: nova, configuration/extra-specs and user/flavors; glance, admin/useful-image-properties.
"""

from __future__ import annotations

from assay.cluster.openstack.machines import MachinesFile

_PAGES = {"2MiB": "2MB", "1GiB": "1GB"}  # nova's own spelling; its units are powers of two


def extra_specs(machines: MachinesFile) -> dict[str, str]:
    """What the flavor requires of a machine's host."""
    specs: dict[str, str] = {"hw:cpu_policy": machines.cpu_policy}
    if machines.cpu_policy == "dedicated":
        specs["hw:cpu_thread_policy"] = machines.cpu_threads
    specs["hw:numa_nodes"] = str(machines.numa_nodes)
    if machines.numa_nodes > 1:
        specs |= _nodes(machines)
    if machines.huge_pages in _PAGES:
        specs["hw:mem_page_size"] = _PAGES[machines.huge_pages]
    if machines.devices:
        aliases = (f"{alias}:{device.count}" for alias, device in machines.devices.items())
        specs["pci_passthrough:alias"] = ",".join(aliases)
        specs["hw:pci_numa_affinity_policy"] = machines.near
    if machines.vgpus is not None:
        specs["resources:VGPU"] = str(machines.vgpus.count)
    if machines.hide_hypervisor:
        specs["hw:hide_hypervisor_id"] = "true"
    return specs


def _nodes(machines: MachinesFile) -> dict[str, str]:
    """CPUs and memory (MiB) on each of the machine's NUMA nodes, in equal parts."""
    cpus, memory = machines.cpus // machines.numa_nodes, machines.memory // machines.numa_nodes
    parts: dict[str, str] = {}
    for node in range(machines.numa_nodes):
        own = range(node * cpus, (node + 1) * cpus)
        parts[f"hw:numa_cpus.{node}"] = ",".join(map(str, own))
        parts[f"hw:numa_mem.{node}"] = str(memory)
    return parts


def image_properties(machines: MachinesFile) -> dict[str, str]:
    """What the image requires: a chipset with PCI Express, its firmware, and a network queue per CPU."""
    properties: dict[str, str] = {"hw_machine_type": "q35", "hw_firmware_type": machines.image.firmware}
    properties["hw_vif_multiqueue_enabled"] = "true"
    if machines.hide_hypervisor:
        properties["img_hide_hypervisor_id"] = "true"
    return properties
