"""The GPUs: on the bus, through the management library of NVIDIA's driver, in the files of AMD's."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator
from typing import Any

from assay_payloads.keeping.file_tree import FileTree


def gpus_on_bus(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """Display and compute accelerators on the PCI bus, with or without a driver."""
    counts = {"0x10de": 0, "0x1002": 0}
    for name in tree.names("/sys/bus/pci/devices"):
        place = f"/sys/bus/pci/devices/{name}"
        vendor = tree.text(f"{place}/vendor")
        if vendor in counts and (tree.text(f"{place}/class") or "")[:4] in ("0x03", "0x12"):
            counts[vendor] += 1
    yield "pci.nvidia_gpus", counts["0x10de"] or None
    yield "pci.amd_gpus", counts["0x1002"] or None


def amd_facts(tree: FileTree) -> Iterator[tuple[str, Any]]:
    """GPUs as AMD's driver shows them in its files, in the order of their PCI addresses.

    A part of a partitioned GPU is none of its own here. A container sees the files of every GPU, but only has
    the devices of its own. Source: the kernel's documentation of amdgpu.
    """
    places = {}
    for name in tree.names("/sys/class/drm", r"card\d+$"):
        place = f"/sys/class/drm/{name}/device"
        about = dict(line.split("=", 1) for line in tree.lines(f"{place}/uevent") if "=" in line)
        ours = any(tree.has(f"/dev/dri/{node}") for node in tree.names(f"{place}/drm", "renderD"))
        if about.get("DRIVER") == "amdgpu" and "PCI_SLOT_NAME" in about and ours:
            places[about["PCI_SLOT_NAME"]] = place
    if not places:
        return
    yield "gpu.driver", tree.text("/sys/module/amdgpu/version")  # the kernel's own has none
    yield "gpu.count", len(places)
    for index, (_, place) in enumerate(sorted(places.items())):
        for name, file in (
            ("name", "product_name"),
            ("uuid", "unique_id"),
            ("vbios", "vbios_version"),
            ("compute_partition", "current_compute_partition"),
            ("memory_partition", "current_memory_partition"),
        ):
            yield f"gpu.{index}.{name}", tree.text(f"{place}/{file}")
        total = tree.number(f"{place}/mem_info_vram_total")
        used = tree.number(f"{place}/mem_info_vram_used")
        yield f"gpu.{index}.memory_bytes", total
        yield f"gpu.{index}.memory_free_bytes", None if total is None or used is None else total - used
        for sensor in tree.names(f"{place}/hwmon"):
            limit = tree.number(f"{place}/hwmon/{sensor}/power1_cap")
            yield f"gpu.{index}.power_limit_w", None if limit is None else limit / 1e6


def nvml_facts(library: str = "libnvidia-ml.so.1") -> Iterator[tuple[str, Any]]:
    """GPUs as NVIDIA's management library sees them; nothing if the library is missing.

    Source: nvml.h. Every call returns 0 for success; a value that a GPU does not have is omitted.
    """
    nvml = loaded(library)
    if nvml is None:
        return  # no NVIDIA driver: gpus_on_bus shows whether one is missing
    failed = nvml.nvmlInit_v2()
    if failed:
        raise OSError(errno.EIO, f"nvmlInit_v2 gave {failed}")
    try:
        yield "gpu.driver", _nvml_text(nvml, "nvmlSystemGetDriverVersion")
        version = _nvml_numbers(nvml, "nvmlSystemGetCudaDriverVersion_v2")
        yield "gpu.cuda", f"{version[0] // 1000}.{version[0] % 1000 // 10}" if version else None
        count = _nvml_numbers(nvml, "nvmlDeviceGetCount_v2")
        yield "gpu.count", count[0] if count else None
        for index in range(count[0] if count else 0):
            device = ctypes.c_void_p()
            if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device)) == 0:
                for name, value in _nvml_device(nvml, device):
                    yield f"gpu.{index}.{name}", value
    finally:
        nvml.nvmlShutdown()


def loaded(library: str) -> ctypes.CDLL | None:
    """A library as a newly started program would find it; None if it would not.

    The loader itself knows LD_LIBRARY_PATH as it was when this process's program started.
    """
    folders = os.environ.get("LD_LIBRARY_PATH", "").split(":")
    for place in (*(f"{folder}/{library}" for folder in folders if folder), library):
        with contextlib.suppress(OSError):
            return ctypes.CDLL(place)
    return None


def _nvml_device(nvml: ctypes.CDLL, device: ctypes.c_void_p) -> Iterator[tuple[str, Any]]:
    """One GPU. Clocks are in MHz and power in mW; clock types: 1 is SM, 2 is memory."""
    for name, function in (("name", "Name"), ("uuid", "UUID"), ("vbios", "VbiosVersion")):
        yield name, _nvml_text(nvml, f"nvmlDeviceGet{function}", device)
    sizes = (ctypes.c_ulonglong * 3)()  # total, free, used
    if nvml.nvmlDeviceGetMemoryInfo(device, sizes) == 0:
        yield "memory_bytes", sizes[0]
        yield "memory_free_bytes", sizes[1]
    for name, function, before, outputs, scale in (
        ("clock_now_hz", "ClockInfo", (1,), 1, 10**6),
        ("clock_max_hz", "MaxClockInfo", (1,), 1, 10**6),
        ("memory_clock_now_hz", "ClockInfo", (2,), 1, 10**6),
        ("memory_clock_max_hz", "MaxClockInfo", (2,), 1, 10**6),
        ("power_limit_w", "EnforcedPowerLimit", (), 1, 1e-3),
        ("temperature_c", "Temperature", (0,), 1, 1),
        ("ecc", "EccMode", (), 2, 1),
        ("mig", "MigMode", (), 2, 1),
        ("persistence", "PersistenceMode", (), 1, 1),
        ("compute_mode", "ComputeMode", (), 1, 1),
        ("pcie_generation_now", "CurrPcieLinkGeneration", (), 1, 1),
        ("pcie_generation_max", "MaxPcieLinkGeneration", (), 1, 1),
        ("pcie_width", "CurrPcieLinkWidth", (), 1, 1),
        ("pcie_width_max", "MaxPcieLinkWidth", (), 1, 1),
    ):
        values = _nvml_numbers(nvml, f"nvmlDeviceGet{function}", device, *before, outputs=outputs)
        if values:
            yield name, bool(values[0]) if name in ("ecc", "mig", "persistence") else values[0] * scale


def _nvml_text(nvml: ctypes.CDLL, function: str, *before: Any) -> str | None:
    buffer = ctypes.create_string_buffer(96)
    if getattr(nvml, function)(*before, buffer, ctypes.c_uint(len(buffer))):
        return None
    return buffer.value.decode("utf-8", "replace")


def _nvml_numbers(nvml: ctypes.CDLL, function: str, *before: Any, outputs: int = 1) -> list[int] | None:
    if not hasattr(nvml, function):  # newer than this driver
        return None
    values = [ctypes.c_uint() for _ in range(outputs)]
    failed = getattr(nvml, function)(*before, *(ctypes.byref(value) for value in values))
    return None if failed else [value.value for value in values]
