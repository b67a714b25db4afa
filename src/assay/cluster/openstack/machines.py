"""The user's description of the machines for trials on OpenStack."""

from __future__ import annotations

from typing import Annotated, Literal

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
