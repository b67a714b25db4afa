"""What is sampled of a GPU, and GPUs through NVML, the management library of NVIDIA's driver.

Called directly rather than through the `nvidia-ml-py` binding, which the interpreter of a keeper, started
without site packages, can't import; tests hold it to what that binding returns.

Source: nvml.h. PowerUsage is an average over one second (of A100 and older: the present value); the energy
counter starts with the driver. PCIe and NVLink counters are read as fields: nvmlDeviceGetPcieThroughput takes
20 ms.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from assay_payloads.probing.node_gpus import loaded

SUCCESS, NOT_SUPPORTED, TIMEOUT, FUNCTION_NOT_FOUND, NO_DATA = 0, 3, 10, 13, 21
ERRORS = {
    1: "NVML is not initialized",
    2: "invalid argument",
    4: "no permission",
    9: "the driver is not loaded",
    10: "no answer in time",
    12: "a library is missing",
    15: "the GPU is lost: it has fallen off the bus",
    16: "the GPU needs a reset",
    18: "library and driver have different versions",
    999: "unknown error",
}
UNKNOWN = (NOT_SUPPORTED, FUNCTION_NOT_FOUND, NO_DATA)  # a GPU or driver that does not have the value
XID_EVENT = 8
MAX_PROCESSES = 64

# column: (field, scope, factor to base units). Sources of the numbers: NVML_FI_DEV_* in nvml.h
FIELDS = {
    "energy_joules_total": (83, 0, 1e-3),
    "power_instant_watts": (186, 0, 1e-3),
    "power_limited_seconds_total": (74, 0, 1e-9),
    "thermal_software_seconds_total": (269, 0, 1e-9),
    "thermal_hardware_seconds_total": (270, 0, 1e-9),
    "power_brake_seconds_total": (271, 0, 1e-9),
    "pcie_sent_bytes_total": (197, 0, 1),
    "pcie_received_bytes_total": (198, 0, 1),
    "nvlink_sent_bytes_total": (138, 0xFFFFFFFF, 1024),
    "nvlink_received_bytes_total": (139, 0xFFFFFFFF, 1024),
    "remapped_rows_correctable_total": (142, 0, 1),
    "remapped_rows_uncorrectable_total": (143, 0, 1),
    "temperature_memory_celsius": (82, 0, 1),
}
GPU_COLUMNS = (
    "utilization_percent",
    "memory_utilization_percent",
    "memory_used_bytes",
    "power_watts",
    "temperature_celsius",
    "temperature_hotspot_celsius",
    "sm_clock_hertz",
    "memory_clock_hertz",
    "clock_reasons",
    "ecc_uncorrected_errors_total",
    "ecc_corrected_errors_total",
    "processes",
    "processes_memory_bytes",
    *FIELDS,
)


class GpuError(Exception):
    """Why a GPU, or all of them, can't be sampled."""


class GpuSource(Protocol):
    """The GPUs of one vendor, by index.

    names  index, and as far as known `uuid` and `name`
    """

    names: Sequence[dict[str, Any]]

    def values(self, index: int) -> list[float | None]:
        """A value for each of `GPU_COLUMNS`; None if this GPU does not have it.

        Raises GpuError if the GPU does not respond.
        """
        ...

    def xids(self) -> Iterator[tuple[int, int]]:
        """GPU and code of each Xid since the last call."""
        ...


class FieldValue(ctypes.Structure):
    """nvmlFieldValue_t."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("kind", ctypes.c_int),
        ("result", ctypes.c_int),
        ("value", ctypes.c_ulonglong),
    )

    @property
    def number(self) -> float:
        """The value, by nvmlValueType_t: double, unsigned int, unsigned long, unsigned long long, signed …"""
        raw = ctypes.c_ulonglong(self.value)
        kinds: tuple[Any, ...] = (
            ctypes.c_double,
            ctypes.c_uint,
            ctypes.c_ulong,
            ctypes.c_ulonglong,
            ctypes.c_longlong,
            ctypes.c_int,
            ctypes.c_ushort,
        )
        if not 0 <= self.kind < len(kinds):
            raise GpuError(f"a field value has the unknown type {self.kind}")
        return float(ctypes.cast(ctypes.byref(raw), ctypes.POINTER(kinds[self.kind])).contents.value)


class EventData(ctypes.Structure):
    """nvmlEventData_t."""

    _fields_ = (
        ("device", ctypes.c_void_p),
        ("kind", ctypes.c_ulonglong),
        ("data", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class ProcessInfo(ctypes.Structure):
    """nvmlProcessInfo_t; a memory of 2^64 - 1 is unknown."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("memory", ctypes.c_ulonglong),
        ("gpu_instance", ctypes.c_uint),
        ("compute_instance", ctypes.c_uint),
    )


class Utilization(ctypes.Structure):
    """nvmlUtilization_t."""

    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class Gpus:
    """All GPUs of this node that the driver knows, by index."""

    def __init__(self, nvml: ctypes.CDLL) -> None:
        self._nvml = nvml
        self._call("nvmlInit_v2")
        self._devices = [self._device(index) for index in range(self._whole("nvmlDeviceGetCount_v2"))]
        self.names: Sequence[dict[str, Any]] = [self._about(index) for index in range(len(self._devices))]
        self._events = self._registered()

    @classmethod
    def loaded(cls, library: str) -> Gpus | None:
        """Those that this library knows; None if there is no such library. Raises GpuError if it fails."""
        nvml = loaded(library)
        return None if nvml is None else cls(nvml)

    def values(self, index: int) -> list[float | None]:
        """A value for each of `GPU_COLUMNS`; None if this GPU does not have it.

        Raises GpuError if the GPU does not respond.
        """
        device = self._devices[index]
        if device is None:
            raise GpuError("the driver has no handle for it")
        used = Utilization()
        has_use = self._known("nvmlDeviceGetUtilizationRates", device, ctypes.byref(used))
        memory = (ctypes.c_ulonglong * 3)()  # total, free, used
        has_memory = self._known("nvmlDeviceGetMemoryInfo", device, memory)
        power = self._number("nvmlDeviceGetPowerUsage", device)
        clocks = [self._number("nvmlDeviceGetClockInfo", device, kind) for kind in (1, 2)]
        reasons = ctypes.c_ulonglong()
        name = "nvmlDeviceGetCurrentClocksEventReasons"
        name = name if hasattr(self._nvml, name) else "nvmlDeviceGetCurrentClocksThrottleReasons"
        has_reasons = self._known(name, device, ctypes.byref(reasons))
        counted, of_processes = self._processes(device)
        return [
            float(used.gpu) if has_use else None,
            float(used.memory) if has_use else None,
            float(memory[2]) if has_memory else None,
            None if power is None else power / 1e3,
            self._number("nvmlDeviceGetTemperature", device, 0),
            None,  # NVML has no hotspot
            *(None if clock is None else clock * 1e6 for clock in clocks),
            float(reasons.value) if has_reasons else None,
            *(self._errors(device, kind) for kind in (1, 0)),
            counted,
            of_processes,
            *self._fields(device),
        ]

    def xids(self) -> Iterator[tuple[int, int]]:
        """GPU and code of each Xid since the last call."""
        if self._events is None:
            return
        data = EventData()
        while self._nvml.nvmlEventSetWait_v2(self._events, ctypes.byref(data), ctypes.c_uint(0)) == SUCCESS:
            handles = [None if device is None else device.value for device in self._devices]
            if data.kind == XID_EVENT and data.device in handles:
                yield handles.index(data.device), data.data

    def _device(self, index: int) -> ctypes.c_void_p | None:
        device = ctypes.c_void_p()
        failed = self._nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(device))
        return None if failed else device

    def _about(self, index: int) -> dict[str, Any]:
        description: dict[str, Any] = {"index": index}
        device = self._devices[index]
        for name, function in (("uuid", "nvmlDeviceGetUUID"), ("name", "nvmlDeviceGetName")):
            text = ctypes.create_string_buffer(96)
            if (
                device is not None
                and getattr(self._nvml, function)(device, text, ctypes.c_uint(96)) == SUCCESS
            ):
                description[name] = text.value.decode("utf-8", "replace")
        return description

    def _registered(self) -> ctypes.c_void_p | None:
        events = ctypes.c_void_p()
        if not hasattr(self._nvml, "nvmlEventSetWait_v2"):
            return None
        if self._nvml.nvmlEventSetCreate(ctypes.byref(events)) != SUCCESS:
            return None
        for device in self._devices:
            if device is not None:  # a GPU without events has none
                self._nvml.nvmlDeviceRegisterEvents(device, ctypes.c_ulonglong(XID_EVENT), events)
        return events

    def _fields(self, device: ctypes.c_void_p) -> Iterator[float | None]:
        values = (FieldValue * len(FIELDS))()
        for value, (field, scope, _) in zip(values, FIELDS.values()):  # noqa: B905 - newer than 3.9
            value.field, value.scope = field, scope
        is_known = self._known("nvmlDeviceGetFieldValues", device, ctypes.c_int(len(values)), values)
        for value, (_, _, factor) in zip(values, FIELDS.values()):  # noqa: B905
            yield value.number * factor if is_known and value.result == SUCCESS else None

    def _errors(self, device: ctypes.c_void_p, kind: int) -> float | None:
        """Memory errors since the driver was loaded; kind: 0 corrected, 1 uncorrected."""
        count = ctypes.c_ulonglong()
        kinds = (ctypes.c_uint(kind), ctypes.c_uint(0))
        known = self._known("nvmlDeviceGetTotalEccErrors", device, *kinds, ctypes.byref(count))
        return float(count.value) if known else None

    def _processes(self, device: ctypes.c_void_p) -> tuple[float | None, float | None]:
        """How many processes compute on it, and their memory, if the driver may show it."""
        count, processes = ctypes.c_uint(MAX_PROCESSES), (ProcessInfo * MAX_PROCESSES)()
        if not self._known("nvmlDeviceGetComputeRunningProcesses_v3", device, ctypes.byref(count), processes):
            return None, None
        memory = [info.memory for info in processes[: count.value]]
        known = all(size != 2**64 - 1 for size in memory)
        return float(count.value), float(sum(memory)) if known else None

    def _whole(self, function: str, *before: Any) -> int:
        value = ctypes.c_uint()
        self._call(function, *before, ctypes.byref(value))
        return value.value

    def _number(self, function: str, *before: Any) -> float | None:
        value = ctypes.c_uint()
        return float(value.value) if self._known(function, *before, ctypes.byref(value)) else None

    def _known(self, function: str, *arguments: Any) -> bool:
        """Whether the call gave a value; False if this GPU or driver does not have it."""
        if not hasattr(self._nvml, function):
            return False
        failed = getattr(self._nvml, function)(*arguments)
        if failed and failed not in UNKNOWN:
            raise GpuError(f"{function}: {ERRORS.get(failed, f'error {failed}')}")
        return not failed

    def _call(self, function: str, *arguments: Any) -> None:
        if not self._known(function, *arguments):
            raise GpuError(f"{function}: this driver does not have it")
