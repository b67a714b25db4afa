"""The telemetry of one attempt from a Prometheus: its nodes' and pods' series, as the sampler's tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from assay.monitor.prometheus import grid
from assay.monitor.prometheus.client import PrometheusClient, PrometheusSeries
from assay.monitor.prometheus.sources import (
    GPU_SOURCES,
    HOST_LABELS,
    NODE_SOURCES,
    POD_LABELS,
    POD_SOURCES,
    MetricSource,
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
        step = max(grid.SHORTEST_STEP_S, grid.interval_s(every))
        if not every:
            continue
        times = grid.times(*bounds, step)
        values = {}
        for column, series in columns.items():
            values[column], others = grid.summed(_once(series, left_out), column, times, step)
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
            step = max(grid.SHORTEST_STEP_S, grid.interval_s(every))
            step_s[number] = max(step, step_s.get(number, 0.0))
            times = grid.times(*bounds, step)
            values = {name: grid.on_grid(series, name, times, step) for name, series in columns.items()}
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
