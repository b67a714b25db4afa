"""What the firmware of an AMD GPU reports, and how long it held the GPU below its clocks, in NVML's terms."""

from __future__ import annotations

import ctypes

POWER_CAP, SOFTWARE_THERMAL, HARDWARE_THERMAL = 0x04, 0x20, 0x40  # NVML's clock reasons
CYCLES = "accumulation_counter"
# column: (NVML's reason, counters of the cycles in which this limit held)
RESIDENCIES = {
    "power_limited_seconds_total": (POWER_CAP, ("ppt_residency_acc",)),
    "thermal_software_seconds_total": (
        SOFTWARE_THERMAL,
        ("socket_thm_residency_acc", "vr_thm_residency_acc", "hbm_thm_residency_acc"),
    ),
    "thermal_hardware_seconds_total": (HARDWARE_THERMAL, ("prochot_residency_acc",)),
}
COUNTERS = (CYCLES, *(name for _, names in RESIDENCIES.values() for name in names))
HELD = 0.1  # share of the time since the last sample from which on a limit is one of the clock's reasons
# reason: bits of indep_throttle_status, which mean the same for all GPUs. Source: amdgpu_smu.h,
# SMU_THROTTLER_*: power and current from 0, temperatures and hot regulators from 32, PROCHOT 46 and 47
STATUS = {POWER_CAP: 0x00FF_FFFF, SOFTWARE_THERMAL: 0x3FFF << 32, HARDWARE_THERMAL: 0b11 << 46}


class GpuMetrics(ctypes.Structure):
    """amdsmi_gpu_metrics_t up to the last field that is used; a newer library writes more behind it."""

    _fields_ = (
        ("header", ctypes.c_uint32),
        ("temperature_edge", ctypes.c_uint16),
        ("temperature_hotspot", ctypes.c_uint16),
        ("temperature_mem", ctypes.c_uint16),
        ("temperature_regulators", ctypes.c_uint16 * 3),
        ("average_gfx_activity", ctypes.c_uint16),
        ("average_umc_activity", ctypes.c_uint16),
        ("average_mm_activity", ctypes.c_uint16),
        ("average_socket_power", ctypes.c_uint16),
        ("energy_accumulator", ctypes.c_uint64),
        ("system_clock_counter", ctypes.c_uint64),
        ("average_gfxclk_frequency", ctypes.c_uint16),
        ("average_socclk_frequency", ctypes.c_uint16),
        ("average_uclk_frequency", ctypes.c_uint16),
        ("average_video_frequencies", ctypes.c_uint16 * 4),
        ("current_gfxclk", ctypes.c_uint16),
        ("current_socclk", ctypes.c_uint16),
        ("current_uclk", ctypes.c_uint16),
        ("current_video_clocks", ctypes.c_uint16 * 4),
        ("throttle_status", ctypes.c_uint32),
        ("current_fan_speed", ctypes.c_uint16),
        ("pcie_link_width", ctypes.c_uint16),
        ("pcie_link_speed", ctypes.c_uint16),
        ("gfx_activity_acc", ctypes.c_uint32),
        ("mem_activity_acc", ctypes.c_uint32),
        ("temperature_hbm", ctypes.c_uint16 * 4),
        ("firmware_timestamp", ctypes.c_uint64),
        ("voltages", ctypes.c_uint16 * 3),
        ("indep_throttle_status", ctypes.c_uint64),
        ("current_socket_power", ctypes.c_uint16),
        ("vcn_activity", ctypes.c_uint16 * 4),
        ("gfxclk_lock_status", ctypes.c_uint32),
        ("xgmi_link_width", ctypes.c_uint16),
        ("xgmi_link_speed", ctypes.c_uint16),
        ("pcie_bandwidth_acc", ctypes.c_uint64),
        ("pcie_bandwidth_inst", ctypes.c_uint64),
        ("pcie_counts", ctypes.c_uint64 * 3),
        ("xgmi_read_data_acc", ctypes.c_uint64 * 8),
        ("xgmi_write_data_acc", ctypes.c_uint64 * 8),
        ("current_gfxclks", ctypes.c_uint16 * 8),
        ("current_socclks", ctypes.c_uint16 * 4),
        ("current_video_clocks_of_dies", ctypes.c_uint16 * 8),
        ("jpeg_activity", ctypes.c_uint16 * 32),
        ("pcie_negative_acknowledgements", ctypes.c_uint32 * 2),
        ("accumulation_counter", ctypes.c_uint64),
        ("prochot_residency_acc", ctypes.c_uint64),
        ("ppt_residency_acc", ctypes.c_uint64),
        ("socket_thm_residency_acc", ctypes.c_uint64),
        ("vr_thm_residency_acc", ctypes.c_uint64),
        ("hbm_thm_residency_acc", ctypes.c_uint64),
    )

    def known(self, name: str) -> list[int]:
        """The values of a field that are known, [] if none is."""
        value = getattr(self, name)
        values = [value] if isinstance(value, int) else list(value)
        none = (1 << 8 * getattr(GpuMetrics, name).size // len(values)) - 1
        return [number for number in values if number != none]

    def number(self, *names: str) -> int | None:
        """The first of these fields that has a value."""
        return next((value for name in names for value in self.known(name)), None)


class ClockLimits:
    """The limits of one GPU, summed since the first sample.

    The firmware counts cycles, whose length nobody documents, so their share is applied to the time between
    two samples.
    """

    def __init__(self) -> None:
        self._before: tuple[float, dict[str, int]] | None = None
        self._held_s: dict[str, float] = {}
        self._reasons: int | None = None

    def values(self, metrics: GpuMetrics, now_s: float) -> dict[str, float | None]:
        """`clock_reasons` and a column for each limit that the GPU counts.

        now_s  when the metrics were read, monotonic
        """
        counts = {name: value for name in COUNTERS if (value := metrics.number(name)) is not None}
        if CYCLES not in counts:
            status = metrics.number("indep_throttle_status")
            return {"clock_reasons": None if status is None else _reasons_of(status)}
        at_s, before = self._before or (now_s, {})
        cycles = counts[CYCLES] - before.get(CYCLES, counts[CYCLES])
        if cycles or not before:  # the firmware has counted since, or was reset
            self._reasons = None
            if cycles > 0:
                self._add(before, counts, cycles, now_s - at_s)
            self._before = now_s, counts
        columns = {column: names for column, (_, names) in RESIDENCIES.items() if set(names) & set(counts)}
        return {
            "clock_reasons": self._reasons,
            **{column: self._held_s.setdefault(column, 0.0) for column in columns},
        }

    def _add(self, before: dict[str, int], counts: dict[str, int], cycles: int, passed_s: float) -> None:
        self._reasons = 0
        for column, (reason, names) in RESIDENCIES.items():
            held = [counts[name] - before[name] for name in names if name in counts and name in before]
            share = min(1.0, max([0, *held]) / cycles)
            self._held_s[column] = self._held_s.get(column, 0.0) + share * passed_s
            self._reasons |= reason if share >= HELD else 0


def _reasons_of(status: int) -> int:
    return sum(reason for reason, bits in STATUS.items() if status & bits)
