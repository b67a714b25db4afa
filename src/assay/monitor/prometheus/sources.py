"""Which metrics of the usual exporters are which of the sampler's columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB, MEGA = 2.0**20, 1e6


@dataclass(frozen=True)
class MetricSource:
    """A metric that has a column's values.

    metric    names of the metric, the usual one first
    select    matchers that every series must meet, in PromQL
    factor    from the metric's unit to the column's
    exporter  what provides it
    """

    column: str
    metric: tuple[str, ...]
    exporter: str
    factor: float = 1.0
    select: str = ""


_DCGM: Final = "DCGM exporter"
_NODE: Final = "node exporter"
_CADVISOR: Final = "cAdvisor (kubelet)"
GPU_SOURCES: Final = tuple(
    MetricSource(column, metrics, _DCGM, factor)
    for column, metrics, factor in (
        ("utilization_percent", ("DCGM_FI_DEV_GPU_UTIL",), 1.0),
        ("memory_utilization_percent", ("DCGM_FI_DEV_MEM_COPY_UTIL",), 1.0),
        ("memory_used_bytes", ("DCGM_FI_DEV_FB_USED",), MIB),
        ("power_watts", ("DCGM_FI_DEV_POWER_USAGE",), 1.0),
        ("energy_joules_total", ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",), 1e-3),
        ("temperature_celsius", ("DCGM_FI_DEV_GPU_TEMP",), 1.0),
        ("sm_clock_hertz", ("DCGM_FI_DEV_SM_CLOCK",), MEGA),
        ("memory_clock_hertz", ("DCGM_FI_DEV_MEM_CLOCK",), MEGA),
        ("clock_reasons", ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"), 1.0),
        ("ecc_uncorrected_errors_total", ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",), 1.0),
        ("ecc_corrected_errors_total", ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",), 1.0),
        ("remapped_rows_uncorrectable_total", ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",), 1.0),
        ("remapped_rows_correctable_total", ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",), 1.0),
    )
)
_REAL_DISK: Final = 'device!~"dm-.*|loop.*|md.*|ram.*|sr.*"'
_REAL_PORT: Final = (
    'device!~"lo|veth.*|br.*|docker.*|cali.*|cni.*|flannel.*|ovn.*|tap.*|tun.*|virbr.*|vnet.*"'
)
NODE_SOURCES: Final = (
    MetricSource(
        "cpu_busy_seconds_total",
        ("node_cpu_seconds_total",),
        _NODE,
        select='mode!~"idle|iowait|steal|guest|guest_nice"',
    ),
    MetricSource("cpu_iowait_seconds_total", ("node_cpu_seconds_total",), _NODE, select='mode="iowait"'),
    MetricSource("cpu_stolen_seconds_total", ("node_cpu_seconds_total",), _NODE, select='mode="steal"'),
    MetricSource("cpu_pressure_seconds_total", ("node_pressure_cpu_waiting_seconds_total",), _NODE),
    MetricSource("memory_pressure_seconds_total", ("node_pressure_memory_waiting_seconds_total",), _NODE),
    MetricSource("io_pressure_seconds_total", ("node_pressure_io_waiting_seconds_total",), _NODE),
    MetricSource("memory_available_bytes", ("node_memory_MemAvailable_bytes",), _NODE),
    MetricSource("memory_page_cache_bytes", ("node_memory_Cached_bytes",), _NODE),
    MetricSource(
        "network_received_bytes_total", ("node_network_receive_bytes_total",), _NODE, select=_REAL_PORT
    ),
    MetricSource(
        "network_sent_bytes_total", ("node_network_transmit_bytes_total",), _NODE, select=_REAL_PORT
    ),
    MetricSource("disk_read_bytes_total", ("node_disk_read_bytes_total",), _NODE, select=_REAL_DISK),
    MetricSource("disk_written_bytes_total", ("node_disk_written_bytes_total",), _NODE, select=_REAL_DISK),
    MetricSource(
        "infiniband_received_bytes_total", ("node_infiniband_port_data_received_bytes_total",), _NODE
    ),
    MetricSource(
        "infiniband_sent_bytes_total", ("node_infiniband_port_data_transmitted_bytes_total",), _NODE
    ),
)
_OF_CONTAINERS: Final = 'container!="",container!="POD"'  # not the sum of the pod, not its sandbox
POD_SOURCES: Final = tuple(
    MetricSource(column, (metric,), _CADVISOR, select=_OF_CONTAINERS)
    for column, metric in (
        ("job_cpu_seconds_total", "container_cpu_usage_seconds_total"),
        ("cpu_throttled_seconds_total", "container_cpu_cfs_throttled_seconds_total"),
        ("job_memory_bytes", "container_memory_working_set_bytes"),
        ("job_read_bytes_total", "container_fs_reads_bytes_total"),
        ("job_written_bytes_total", "container_fs_writes_bytes_total"),
    )
)
POD_LABELS: Final = ("exported_pod", "pod", "pod_name")
HOST_LABELS: Final = (
    "Hostname",
    "hostname",
    "exported_node",
    "node",
    "kubernetes_node",
    "nodename",
    "host",
    "exported_instance",
    "instance",
)
