"""GPUs through AMD SMI, the management library of ROCm, with the columns and the meanings of `gpus`.

Called directly, as NVML is, and for the same reason; tests hold it to what AMD's own binding returns.

Source: amdsmi.h and its implementation. Nearly everything is from one call, amdsmi_get_gpu_metrics_info: the
fields that are read here are at the same place in every version since ROCm 6.0, unlike those of the
structures of other calls. Not called: amdsmi_get_violation_status, which sleeps for 100 ms;
amdsmi_get_gpu_pci_throughput, which measures for a second; amdsmi_get_gpu_process_list, which reads the open
files of every process of the node.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from assay_payloads.keeping.file_tree import FileTree
from assay_payloads.probing.node_gpus import loaded
from assay_payloads.sampling.amd_metrics import ClockLimits, GpuMetrics
from assay_payloads.sampling.gpus import GPU_COLUMNS, GpuError

LIBRARY = "libamd_smi.so"
SUCCESS, NOT_SUPPORTED, NOT_YET_IMPLEMENTED, NO_PERMISSION, NO_DATA = 0, 2, 3, 10, 40
ERRORS = {
    1: "invalid argument",
    4: "a library can't be loaded",
    5: "a library lacks a function",
    6: "the kernel's graphics driver refused it",
    7: "the call failed",
    8: "no answer in time",
    12: "it can't be read: the GPU may be lost",
    14: "a file of the driver can't be read",
    15: "not enough memory",
    18: "the library can't be initialized",
    30: "the GPU is busy",
    31: "the GPU is not found",
    32: "the library is not initialized",
    34: "the driver is not loaded",
    43: "the driver's answer is not understood",
}
UNKNOWN = (NOT_SUPPORTED, NOT_YET_IMPLEMENTED, NO_PERMISSION, NO_DATA)  # a value that isn't to be had here
AMD_GPUS = 2  # amdsmi_init's flag
VIDEO_MEMORY = 0
PROCESSES = "/sys/class/kfd/kfd/proc"
ERRORS_EVERY_S = 10.0  # counting memory errors reads some 30 files of the driver
ROOM = 1 << 16  # bytes: more than a structure of any version has, because some grew


class AmdGpus:
    """All GPUs of this node that AMD's driver knows, by index. A part of a partitioned GPU is one, too."""

    def __init__(self, smi: ctypes.CDLL, root: str = "/") -> None:
        if not _known(smi, "amdsmi_init", ctypes.c_uint64(AMD_GPUS)):
            raise GpuError("amdsmi_init: not supported here")
        self._gpus = [AmdGpu(smi, *handle, root) for handle in _handles(smi)]
        self.names: Sequence[dict[str, Any]] = [
            {"index": index, **gpu.about()} for index, gpu in enumerate(self._gpus)
        ]

    @classmethod
    def loaded(cls, library: str = "") -> AmdGpus:
        """Those that this library knows, "" for ROCm's where it usually is. Raises GpuError if it fails."""
        roots = [os.environ.get("ROCM_PATH"), os.environ.get("ROCM_HOME"), "/opt/rocm"]
        usual = [LIBRARY, *(f"{root}/lib/{LIBRARY}" for root in roots if root)]
        smi = next(filter(None, map(loaded, [library] if library else usual)), None)
        if smi is None:
            raise GpuError(f"{library or LIBRARY} of ROCm can't be loaded: AMD's GPUs aren't sampled")
        return cls(smi)

    def values(self, index: int) -> list[float | None]:
        """A value for each of `GPU_COLUMNS`; None if this GPU does not have it.

        Raises GpuError if the GPU does not respond.
        """
        values = self._gpus[index].values()
        return [values.get(column) for column in GPU_COLUMNS]

    def xids(self) -> Iterator[tuple[int, int]]:
        """Nothing: Xids are NVIDIA's."""
        return iter(())


class AmdGpu:
    """One GPU, or one part of a partitioned one.

    first  whether it is the first of its socket: power and energy are the socket's
    """

    def __init__(self, smi: ctypes.CDLL, handle: ctypes.c_void_p, first: bool, root: str) -> None:
        self._smi, self._handle, self._root = smi, handle, root
        self._room = ctypes.create_string_buffer(ROOM)
        self._had_metrics = False
        self._limits = ClockLimits()
        self._errors: tuple[float | None, float | None] = (None, None)
        self._counted_at = -ERRORS_EVERY_S
        counter = self._energy()
        self._resolution_joules = counter and counter[1]
        # the second die of an MI250 has no sensor: its counter stays at 0
        self._measures_power = first and (counter is None or counter[0] > 0)
        blocks = ctypes.c_uint64()
        self._has_ecc = (
            self._responds("amdsmi_get_gpu_ecc_enabled", ctypes.byref(blocks)) and blocks.value > 0
        )
        self._kfd = self._kfd_id()

    def about(self) -> dict[str, Any]:
        """Identifier and name as far as known; `measures_power` is false if another one measures for it."""
        description: dict[str, Any] = {}
        text, length = ctypes.create_string_buffer(ROOM), ctypes.c_uint32(38)
        if self._responds("amdsmi_get_gpu_device_uuid", ctypes.byref(length), text):
            description["uuid"] = text.value.decode("utf-8", "replace")
        text = ctypes.create_string_buffer(ROOM)
        if self._responds("amdsmi_get_gpu_asic_info", text) and text.value:  # begins with the name
            description["name"] = text.value.decode("utf-8", "replace")
        return description if self._measures_power else {**description, "measures_power": False}

    def values(self) -> dict[str, float | None]:
        """By column; a column that is left out is unknown."""
        used = ctypes.c_uint64()
        has_used = self._known(
            "amdsmi_get_gpu_memory_usage", ctypes.c_uint32(VIDEO_MEMORY), ctypes.byref(used)
        )
        corrected, uncorrected = self._memory_errors()
        processes, memory = self._processes()
        return {
            "memory_used_bytes": float(used.value) if has_used else None,
            "ecc_corrected_errors_total": corrected,
            "ecc_uncorrected_errors_total": uncorrected,
            "processes": processes,
            "processes_memory_bytes": memory,
            **self._from_metrics(),
        }

    def _from_metrics(self) -> dict[str, float | None]:
        metrics = self._metrics()
        if metrics is None:
            return {}
        clocks = metrics.known("current_gfxclks")  # of the dies of an MI300
        clock = (
            sum(clocks) / len(clocks)
            if clocks
            else metrics.number("current_gfxclk", "average_gfxclk_frequency")
        )
        memory_clock = metrics.number("current_uclk", "average_uclk_frequency")
        return {
            "utilization_percent": _percent(metrics.number("average_gfx_activity")),
            "memory_utilization_percent": _percent(metrics.number("average_umc_activity")),
            "temperature_celsius": metrics.number("temperature_edge", "temperature_hotspot"),
            "temperature_hotspot_celsius": metrics.number("temperature_hotspot"),
            "temperature_memory_celsius": metrics.number("temperature_mem"),
            "sm_clock_hertz": None if clock is None else clock * 1e6,
            "memory_clock_hertz": None if memory_clock is None else memory_clock * 1e6,
            "nvlink_sent_bytes_total": _kilobytes(metrics.known("xgmi_write_data_acc")),
            "nvlink_received_bytes_total": _kilobytes(metrics.known("xgmi_read_data_acc")),
            **(self._power(metrics) if self._measures_power else {}),
            **self._limits.values(metrics, time.monotonic()),
        }

    def _power(self, metrics: GpuMetrics) -> dict[str, float | None]:
        """No GPU uses 0 W: that is a GPU without the sensor."""
        if self._resolution_joules is None:
            counter = self._energy()
            self._resolution_joules = counter and counter[1]
        energy, now = metrics.number("energy_accumulator"), metrics.number("current_socket_power")
        return {
            "power_watts": metrics.number("average_socket_power") or now or None,
            "power_instant_watts": now or None,
            "energy_joules_total": energy * self._resolution_joules
            if energy and self._resolution_joules
            else None,
        }

    def _metrics(self) -> GpuMetrics | None:
        ctypes.memset(self._room, 0xFF, ROOM)
        name = "amdsmi_get_gpu_metrics_info"
        if self._known(name, self._room):
            self._had_metrics = True
            return GpuMetrics.from_buffer(self._room)
        if self._had_metrics:  # the driver's files of it have gone
            raise GpuError(f"{name}: the driver no longer has them: the GPU may be lost")
        return None

    def _energy(self) -> tuple[int, float] | None:
        """The counter, and the joules of one count."""
        counter, resolution, timestamp = ctypes.c_uint64(), ctypes.c_float(), ctypes.c_uint64()
        pointers = (ctypes.byref(counter), ctypes.byref(resolution), ctypes.byref(timestamp))
        if not self._responds("amdsmi_get_energy_count", *pointers):
            return None
        return counter.value, resolution.value * 1e-6

    def _memory_errors(self) -> tuple[float | None, float | None]:
        """Corrected and uncorrected, as of at most `ERRORS_EVERY_S` ago; unknown if no block has ECC."""
        if self._has_ecc and time.monotonic() >= self._counted_at + ERRORS_EVERY_S:
            counts = (ctypes.c_uint64 * 64)()  # the library adds to what is there
            has = self._known("amdsmi_get_gpu_total_ecc_count", counts)
            self._errors = (float(counts[0]), float(counts[1])) if has else (None, None)
            self._counted_at = time.monotonic()
        return self._errors

    def _kfd_id(self) -> int | None:
        """What the kernel's compute driver calls it; None before ROCm 6.3."""
        ids = (ctypes.c_uint64 * 64)(2**64 - 1)
        if not self._responds("amdsmi_get_gpu_kfd_info", ids) or ids[0] == 2**64 - 1:
            return None
        return ids[0]

    def _processes(self) -> tuple[float | None, float | None]:
        """How many processes have memory on it, and how much."""
        tree = FileTree(self._root)
        if self._kfd is None or not tree.has(PROCESSES):
            return None, None
        names = tree.names(PROCESSES, r"\d+$")
        sizes = [tree.number(f"{PROCESSES}/{name}/vram_{self._kfd}") or 0 for name in names]
        return float(sum(size > 0 for size in sizes)), float(sum(sizes))

    def _responds(self, function: str, *arguments: Any) -> bool:
        """As `_known`, but a GPU that does not respond is left to the next sample to report."""
        try:
            return self._known(function, *arguments)
        except GpuError:
            return False

    def _known(self, function: str, *arguments: Any) -> bool:
        return _known(self._smi, function, self._handle, *arguments)


def _percent(value: int | None) -> float | None:
    """More than 100 % is how some drivers say that they don't know."""
    return None if value is None or value > 100 else value


def _kilobytes(links: list[int]) -> float | None:
    return sum(links) * 1024.0 if links else None


def _handles(smi: ctypes.CDLL) -> Iterator[tuple[ctypes.c_void_p, bool]]:
    """Each GPU, and whether it is the first of its socket."""
    for socket in _list(smi, "amdsmi_get_socket_handles"):
        of_socket = _list(smi, "amdsmi_get_processor_handles", ctypes.c_void_p(socket))
        yield from ((ctypes.c_void_p(handle), n == 0) for n, handle in enumerate(of_socket))


def _list(smi: ctypes.CDLL, function: str, *before: Any) -> list[int | None]:
    count = ctypes.c_uint32()
    if not _known(smi, function, *before, ctypes.byref(count), None) or not count.value:
        return []
    handles = (ctypes.c_void_p * count.value)()
    _known(smi, function, *before, ctypes.byref(count), handles)
    return list(handles[: count.value])


def _known(smi: ctypes.CDLL, function: str, *arguments: Any) -> bool:
    """Whether the call gave a value; False if this GPU or library does not have it."""
    if not hasattr(smi, function):
        return False
    failed = getattr(smi, function)(*arguments)
    if failed and failed not in UNKNOWN:
        raise GpuError(f"{function}: {ERRORS.get(failed, f'error {failed}')}")
    return not failed
