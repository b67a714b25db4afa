"""The telemetry of one attempt from a Prometheus: its nodes' and pods' series, as the sampler's tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from assay.monitor.prometheus import (
    SHORTEST_STEP_S,
    PrometheusClient,
    PrometheusSeries,
    grid_times,
    interval_s,
    on_grid,
    summed,
)

AROUND_S: Final = 120.0  # before and after a run: the samples around it give the counts at its begin and end
MOST_NAMES: Final = 50  # of series that were left out


@dataclass(frozen=True)
class RunPlace:
    """A node of a run by its names.

    hosts  its host's names; pods: those of the job's pods there
    """

    hosts: frozenset[str]
    pods: frozenset[str]


@dataclass
class FetchedTable:
    """Rows of a table: column → values, NaN where unknown; all of one length."""

    node: list[NDArray[np.int32]] = field(default_factory=list)
    gpu: list[NDArray[np.int32]] = field(default_factory=list)
    unix_s: list[NDArray[np.float64]] = field(default_factory=list)
    columns: list[Mapping[str, NDArray[np.float64]]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Every column that some rows have."""
        return list(dict.fromkeys(name for columns in self.columns for name in columns))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(map(len, self.unix_s))

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """The whole table, column by column."""
        arrays: dict[str, NDArray[np.generic]] = {"node": np.concatenate(self.node)}
        if self.gpu:
            arrays["gpu"] = np.concatenate(self.gpu)
        arrays["unix_s"] = np.concatenate(self.unix_s)
        for name in self.names:
            parts = [
                columns.get(name, np.full(len(times), np.nan))
                for columns, times in zip(self.columns, self.unix_s, strict=True)
            ]
            arrays[name] = np.concatenate(parts)
        return arrays


@dataclass(frozen=True)
class FetchedTelemetry:
    """What a Prometheus knows about an attempt.

    step_s    between rows of each node, by node
    gpus      node → index, UUID and model of each GPU
    missing   column → where it would come from
    left_out  series that began or ended during the run, or that repeat another
    """

    node: FetchedTable
    gpu: FetchedTable
    step_s: Mapping[int, float]
    gpus: Mapping[int, Sequence[Mapping[str, object]]]
    missing: Mapping[str, str]
    left_out: Sequence[str]


def fetch(
    client: PrometheusClient, places: Sequence[RunPlace], begin_at: float, end_at: float
) -> FetchedTelemetry:
    """Everything that the sampler would have sampled, as far as this Prometheus has it.

    places  the run's nodes, in their order; begin_at, end_at: of its ranks, seconds since 1970
    """
    bounds, (begin_at, end_at) = (begin_at, end_at), (begin_at - AROUND_S, end_at + AROUND_S)
    left_out: list[str] = []
    missing: dict[str, str] = {}
    by_node: list[dict[str, list[PrometheusSeries]]] = [{} for _ in places]
    for sources, labels in ((NODE_SOURCES, HOST_LABELS), (POD_SOURCES, POD_LABELS)):
        for source in sources:
            matches = _find_series(client, source, labels, places, begin_at, end_at)
            for number, series in matches:
                by_node[number].setdefault(source.column, []).append(series)
            if not matches:
                _miss(missing, source)
    node, step_s = _node_table(by_node, bounds, left_out)
    gpu_series: list[dict[int, dict[str, PrometheusSeries]]] = [{} for _ in places]
    for source in GPU_SOURCES:
        matches = _find_gpu_series(client, source, places, begin_at, end_at)
        for number, series in matches:
            _keep(gpu_series[number], source.column, series, left_out)
        if not matches:
            _miss(missing, source)
    gpu, gpus = _gpu_table(gpu_series, bounds, step_s)
    return FetchedTelemetry(node, gpu, step_s, gpus, missing, tuple(left_out[:MOST_NAMES]))


def _miss(missing: dict[str, str], source: MetricSource) -> None:
    missing[source.column] = f"{' or '.join(source.metric)} of {source.exporter}"


def _find_series(
    client: PrometheusClient,
    source: MetricSource,
    labels: Sequence[str],
    places: Sequence[RunPlace],
    begin_at: float,
    end_at: float,
) -> list[tuple[int, PrometheusSeries]]:
    """The series of these places under the first label and metric that have any."""
    pods = labels is POD_LABELS
    names = [place.pods if pods else place.hosts for place in places]
    if not any(names):
        return []
    for metric in source.metric:
        for label in labels:
            matchers = ",".join(filter(None, (source.select, _matcher(label, names, exact=pods))))
            matches = [
                (number, _scaled(series, source.factor))
                for series in client.samples(f"{metric}{{{matchers}}}", begin_at, end_at)
                if (number := _place(series.labels.get(label, ""), names, exact=pods)) is not None
            ]
            if matches:
                return matches
    return []


def _find_gpu_series(
    client: PrometheusClient,
    source: MetricSource,
    places: Sequence[RunPlace],
    begin_at: float,
    end_at: float,
) -> list[tuple[int, PrometheusSeries]]:
    """By pod if GPUs are attributed to the job's pods, else all of the hosts' GPUs."""
    return _find_series(client, source, POD_LABELS, places, begin_at, end_at) or _find_series(
        client, source, HOST_LABELS, places, begin_at, end_at
    )


def _matcher(label: str, names: Iterable[frozenset[str]], *, exact: bool) -> str:
    """A PromQL matcher for these names; hosts also with a domain, and a port."""
    escaped = sorted({re.escape(_short(name, exact)) for of_place in names for name in of_place})
    after = "" if exact else r"(\\..*)?(:[0-9]+)?"
    pattern = "|".join(name.replace("\\", "\\\\").replace('"', '\\"') for name in escaped)
    return f'{label}=~"({pattern}){after}"'


def _short(name: str, exact: bool) -> str:
    return name if exact or _is_address(name) else name.partition(".")[0]


def _is_address(name: str) -> bool:
    return bool(re.fullmatch(r"[0-9.]+|\[?[0-9a-fA-F:]*:[0-9a-fA-F:]*\]?", name))


def _place(value: str, names: Sequence[frozenset[str]], *, exact: bool) -> int | None:
    """Which node a label's value names; None for another's, or if two nodes have this short name."""
    place_name = value if exact else re.sub(r":\d+$", "", value)
    for number, of_place in enumerate(names):
        if place_name in of_place:
            return number
    if exact:
        return None
    close = [
        number
        for number, of_place in enumerate(names)
        if any(
            _short(place_name, exact=False) == _short(name, exact=False)
            and ("." not in place_name or "." not in name)
            for name in of_place
        )
    ]
    return close[0] if len(close) == 1 else None


def _scaled(series: PrometheusSeries, factor: float) -> PrometheusSeries:
    return PrometheusSeries(series.labels, series.unix_s, series.value * factor)


def _node_table(
    by_node: Sequence[Mapping[str, Sequence[PrometheusSeries]]],
    bounds: tuple[float, float],
    left_out: list[str],
) -> tuple[FetchedTable, dict[int, float]]:
    table, step_s = FetchedTable(), {}
    for number, columns in enumerate(by_node):
        every = [series for of_column in columns.values() for series in of_column]
        step = max(SHORTEST_STEP_S, interval_s(every))
        if not every:
            continue
        times = grid_times(*bounds, step)
        values = {}
        for column, series in columns.items():
            values[column], others = summed(_once(series, left_out), column, times, step)
            left_out += [f"{_named(labels)}: not there all the time" for labels in others]
        step_s[number] = step
        _add(table, number, None, times, values)
    return table, step_s


def _once(series: Sequence[PrometheusSeries], left_out: list[str]) -> list[PrometheusSeries]:
    """Two scrapes of one exporter, by several jobs or replicas, count once: the one with more samples."""
    kept: dict[tuple[tuple[str, str], ...], PrometheusSeries] = {}
    for candidate in sorted(series, key=lambda candidate: -len(candidate.unix_s)):
        about = ("job", "instance", "endpoint", "service", "prometheus", "prometheus_replica", "replica")
        key = tuple(sorted((name, value) for name, value in candidate.labels.items() if name not in about))
        if key in kept:
            left_out.append(f"{_named(candidate.labels)}: repeats another")
        else:
            kept[key] = candidate
    return list(kept.values())


def _keep(
    gpus: dict[int, dict[str, PrometheusSeries]], column: str, series: PrometheusSeries, left_out: list[str]
) -> None:
    """A GPU's series by its index; the exporter repeats a GPU for every pod that shares it."""
    index = series.labels.get("gpu", "")
    if not index.isdecimal() or series.labels.get("GPU_I_ID"):  # a MIG instance is not a GPU
        left_out.append(f"{_named(series.labels)}: not a whole GPU")
        return
    known = gpus.setdefault(int(index), {}).get(column)
    if known is not None and len(known.unix_s) >= len(series.unix_s):
        left_out.append(f"{_named(series.labels)}: repeats another")
        return
    gpus[int(index)][column] = series


def _gpu_table(
    by_node: Sequence[Mapping[int, Mapping[str, PrometheusSeries]]],
    bounds: tuple[float, float],
    step_s: dict[int, float],
) -> tuple[FetchedTable, dict[int, list[dict[str, object]]]]:
    table = FetchedTable()
    gpus: dict[int, list[dict[str, object]]] = {}
    for number, of_node in enumerate(by_node):
        for index, columns in sorted(of_node.items()):
            every = list(columns.values())
            step = max(SHORTEST_STEP_S, interval_s(every))
            step_s[number] = max(step, step_s.get(number, 0.0))
            times = grid_times(*bounds, step)
            values = {name: on_grid(series, name, times, step) for name, series in columns.items()}
            _add(table, number, index, times, values)
            labels = every[0].labels
            about = {"uuid": labels.get("UUID", ""), "name": labels.get("modelName", "")}
            gpus.setdefault(number, []).append(
                {"index": index, **{name: value for name, value in about.items() if value}}
            )
    return table, gpus


def _add(
    table: FetchedTable,
    number: int,
    index: int | None,
    times: NDArray[np.float64],
    values: Mapping[str, NDArray[np.float64]],
) -> None:
    known = np.logical_or.reduce([np.isfinite(column) for column in values.values()])
    count = int(known.sum())
    if not count:
        return
    table.node.append(np.full(count, number, np.int32))
    if index is not None:
        table.gpu.append(np.full(count, index, np.int32))
    table.unix_s.append(times[known])
    table.columns.append({name: column[known] for name, column in values.items()})


def _named(labels: Mapping[str, str]) -> str:
    about: Iterator[str] = (f'{name}="{value}"' for name, value in labels.items() if name != "__name__")
    return f"{labels.get('__name__', '')}{{{','.join(about)}}}"[:200]


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
