"""Machines for trials on OpenStack: their description, and what creates them there.

As `openstack` commands or as a Heat template (HOT), and what nova.conf and the hosts' kernels need: lines to
merge, not files.

Source: nova, configuration/extra-specs, user/flavors, admin/pci-passthrough, admin/virtual-gpu,
admin/cpu-topologies, admin/huge-pages; glance, admin/useful-image-properties; heat, template_guide/hot_spec
and template_guide/openstack.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from assay.units import convert, parse_quantity

MIB, GIB = 2**20, 2**30
PAGE_BYTES = {"2MiB": 2 * MIB, "1GiB": GIB}


def _whole(unit_bytes: int, unit: str) -> BeforeValidator:
    def amount(written: object) -> object:
        if not isinstance(written, str):
            raise ValueError(f"{written!r} has no unit; write it like 16GiB")  # noqa: TRY004 - pydantic's way
        quantity = parse_quantity(written)
        value = convert(quantity.value, quantity.unit, "B") / unit_bytes
        if value != int(value):
            raise ValueError(f"{written} is not a whole number of {unit}")
        return int(value)

    return BeforeValidator(amount)


Mebibytes = Annotated[int, _whole(MIB, "MiB"), Field(gt=0)]
Gibibytes = Annotated[int, _whole(GIB, "GiB"), Field(ge=0)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,60}$")]
Id = Annotated[str, Field(pattern=r"^[0-9a-f]{4}$", description="As shown by `lspci -nn`, four hex digits.")]
Ranges = Annotated[str, Field(pattern=r"^[0-9,^-]+$")]
Near = Literal["required", "preferred", "legacy", "socket"]


class Section(BaseModel):
    """A part of the file; unknown keys are rejected."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class PciDevices(Section):
    """PCI devices passed through whole to a machine."""

    vendor_id: Id
    product_id: Id
    count: int = Field(ge=1, le=64)
    device_type: Literal["type-PCI", "type-PF", "type-VF"] = Field(
        "type-PCI", description="type-PF for a device that supports virtual functions, as new GPUs do."
    )


class Vgpu(Section):
    """Shares of GPUs from NVIDIA's vGPU manager."""

    count: int = Field(1, ge=1, le=16)
    mdev_type: str = Field(pattern=r"^nvidia-\d+$", description="From /sys/class/mdev_bus on the host.")
    addresses: tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$")], ...] = (
        Field(min_length=1, description="The shared GPUs, or their virtual functions.")
    )


class Image(Section):
    """The disk image to upload."""

    file: str
    firmware: Literal["uefi", "bios"] = Field("uefi", description="GPUs with large memory windows need uefi.")


class Hosts(Section):
    """The compute hosts' CPUs, as ranges like 2-31,34-63."""

    dedicated_cpus: Ranges | None = None
    shared_cpus: Ranges | None = None


class Servers(Section):
    """How many machines, and their network."""

    count: int = Field(ge=1, le=1000)
    network: str
    key: str
    apart: Literal["anti-affinity", "soft-anti-affinity", "affinity"] = "anti-affinity"


class MachinesFile(Section):
    """The whole file."""

    name: Name
    project: str | None = Field(None, description="Project that the flavor belongs to; default: public.")
    cpus: int = Field(ge=1)
    memory: Mebibytes
    disk: Gibibytes = 0
    numa_nodes: int = Field(1, ge=1, le=16)
    cpu_policy: Literal["dedicated", "shared"] = "dedicated"
    cpu_threads: Literal["prefer", "isolate", "require"] = "prefer"
    huge_pages: Literal["none", "2MiB", "1GiB"] = "1GiB"
    gpus: PciDevices | None = None
    adapters: PciDevices | None = None
    near: Near = Field("required", description="Whether devices must be on the host NUMA nodes of the CPUs.")
    vgpus: Vgpu | None = None
    hide_hypervisor: bool = False
    image: Image
    hosts: Hosts = Hosts()
    servers: Servers

    @model_validator(mode="after")
    def _fits(self) -> MachinesFile:
        if self.gpus is not None and self.vgpus is not None:
            raise ValueError("gpus gives machines whole GPUs, vgpus shares of GPUs; set only one of them")
        if self.cpus % self.numa_nodes or self.memory % self.numa_nodes:
            raise ValueError(
                f"numa_nodes: {self.numa_nodes} does not divide cpus and memory into equal parts"
            )
        page = PAGE_BYTES.get(self.huge_pages)
        if page is not None and self.memory * MIB % (page * self.numa_nodes):
            raise ValueError(
                f"memory: each of {self.numa_nodes} nodes needs a whole number of {self.huge_pages} pages"
            )
        if self.cpu_policy == "shared" and self.hosts.dedicated_cpus is not None:
            raise ValueError("hosts.dedicated_cpus: not used, because cpu_policy is shared; remove it")
        return self

    @property
    def devices(self) -> dict[str, PciDevices]:
        """Alias → its PCI devices."""
        named = {f"{self.name}-gpu": self.gpus, f"{self.name}-nic": self.adapters}
        return {alias: device for alias, device in named.items() if device is not None}


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


GROUP_ID = "$(openstack server group show {} --format value --column id)"

# The client defaults to 2.1, which has no soft policy
LATER = {"soft-anti-affinity": "--os-compute-api-version 2.15 "}


def create_commands(machines: MachinesFile) -> list[str]:
    """Flavor, image, group, and servers, as shell commands."""
    name, servers = machines.name, machines.servers
    flavor = ["--vcpus", str(machines.cpus), "--ram", str(machines.memory), "--disk", str(machines.disk)]
    if machines.project is not None:
        flavor += ["--private", "--project", machines.project]
    image = ["--disk-format", "qcow2", "--container-format", "bare", "--file", machines.image.file]
    group = GROUP_ID.format(shlex.quote(name))
    server = ["--flavor", name, "--image", name, "--key-name", servers.key, "--network", servers.network]
    count = ["--min", str(servers.count), "--max", str(servers.count), "--wait", name]
    return [
        _command("flavor create", [*flavor, *_properties(extra_specs(machines)), name]),
        _command("image create", [*image, *_properties(image_properties(machines)), name]),
        _command(f"{LATER.get(servers.apart, '')}server group create", ["--policy", servers.apart, name]),
        f"{_command('server create', server)} --hint group={group} {shlex.join(count)}",
    ]


def remove_commands(machines: MachinesFile) -> list[str]:
    """The commands that remove everything; if there are several servers, they are called NAME-1, NAME-2, …"""
    name, count = machines.name, machines.servers.count
    servers = [name] if count == 1 else [f"{name}-{number}" for number in range(1, count + 1)]
    return [
        _command("server delete", ["--wait", *servers]),
        _command("server group delete", [name]),
        _command("image delete", [name]),
        _command("flavor delete", [name]),
    ]


def _properties(table: Mapping[str, str]) -> list[str]:
    return [word for key, value in table.items() for word in ("--property", f"{key}={value}")]


def _command(command: str, arguments: list[str]) -> str:
    return f"openstack {command} {shlex.join(arguments)}"


def command_script(machines: MachinesFile) -> str:
    """A script, with the commands that undo it as comments."""
    back = "\n".join(f"# {line}" for line in remove_commands(machines))
    return "\n".join(create_commands(machines)) + f"\n\n# to undo it\n{back}\n"


VERSION = "2018-08-31"  # Rocky: sufficient here, and supported by every maintained Heat


def heat_template(machines: MachinesFile) -> dict[str, Any]:
    """Flavor, group, and servers. Upload the image first, with its properties: Heat can't read files."""
    properties = " ".join(f"--property {key}={value}" for key, value in image_properties(machines).items())
    return {
        "heat_template_version": VERSION,
        "description": f"{machines.name}: {machines.servers.count} machines for trials; the image needs "
        f"{properties}",
        "parameters": _parameters(machines),
        "resources": {"flavor": _flavor(machines), "group": _group(machines), "servers": _servers(machines)},
        "outputs": {
            "addresses": {
                "description": "Addresses of the machines: the hosts of a system with launcher ssh",
                "value": {"get_attr": ["servers", "first_address"]},
            }
        },
    }


def _parameters(machines: MachinesFile) -> dict[str, Any]:
    named = {
        "image": (machines.name, "glance.image"),
        "key": (machines.servers.key, "nova.keypair"),
        "network": (machines.servers.network, "neutron.network"),
    }
    return {
        name: {"type": "string", "default": default, "constraints": [{"custom_constraint": constraint}]}
        for name, (default, constraint) in named.items()
    }


def _flavor(machines: MachinesFile) -> dict[str, Any]:
    sizes: dict[str, Any] = {"vcpus": machines.cpus, "ram": machines.memory, "disk": machines.disk}
    properties = {"name": machines.name, **sizes, "extra_specs": extra_specs(machines)}
    if machines.project is not None:
        properties |= {"is_public": False, "tenants": [machines.project]}
    return {"type": "OS::Nova::Flavor", "properties": properties}


def _group(machines: MachinesFile) -> dict[str, Any]:
    properties = {"name": machines.name, "policies": [machines.servers.apart]}
    return {"type": "OS::Nova::ServerGroup", "properties": properties}


def _servers(machines: MachinesFile) -> dict[str, Any]:
    server = {
        "name": f"{machines.name}-%index%",
        "flavor": {"get_resource": "flavor"},
        "image": {"get_param": "image"},
        "key_name": {"get_param": "key"},
        "networks": [{"network": {"get_param": "network"}}],
        "scheduler_hints": {"group": {"get_resource": "group"}},
    }
    definition = {"type": "OS::Nova::Server", "properties": server}
    properties = {"count": machines.servers.count, "resource_def": definition}
    return {"type": "OS::Heat::ResourceGroup", "properties": properties}


FILTERS = ("PciPassthroughFilter", "NUMATopologyFilter", "ServerGroupAntiAffinityFilter")
KERNEL_PAGES = {"2MiB": "2M", "1GiB": "1G"}


def _pci_aliases(machines: MachinesFile) -> list[str]:
    """The [pci] alias lines, the same on controllers and hosts."""
    return [
        json.dumps(
            {"name": alias, **_ids(device), "device_type": device.device_type, "numa_policy": machines.near}
        )
        for alias, device in machines.devices.items()
    ]


def _ids(device: PciDevices) -> dict[str, str]:
    return {"vendor_id": device.vendor_id, "product_id": device.product_id}


def controller_settings(machines: MachinesFile) -> list[str]:
    """Lines of nova.conf for nova-api, conductor and scheduler."""
    lines = ["[filter_scheduler]", f"# enabled_filters: add those that are missing: {', '.join(FILTERS)}"]
    if machines.devices:
        lines += ["", "[pci]", *(f"alias = {alias}" for alias in _pci_aliases(machines))]
    return lines


def host_settings(machines: MachinesFile) -> list[str]:
    """Lines of nova.conf for nova-compute."""
    parts: list[list[str]] = []
    if machines.devices:
        specs = (json.dumps(_ids(device)) for device in machines.devices.values())
        named = (f"alias = {alias}" for alias in _pci_aliases(machines))
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


def _kernel_commands(machines: MachinesFile) -> Iterator[str]:
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


def nova_settings(machines: MachinesFile) -> str:
    """All of it, for a person to merge."""
    parts = {
        "nova.conf of controllers, to merge": controller_settings(machines),
        "nova.conf of compute hosts, to merge": host_settings(machines),
        "compute hosts, as root, then reboot; huge pages are for one machine per host": [
            *_kernel_commands(machines)
        ],
    }
    shown = ("\n".join([f"# {title}", *lines]) for title, lines in parts.items() if lines)
    return "\n\n".join(shown) + "\n"
