"""Times in which a run was much slower than usual, each with what its telemetry shows as the likely cause."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

from assay.telemetry import recorded

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FEWEST_WINDOWS = 8  # below, nothing is usual
SLOW_SHARE = 0.75  # of the median throughput: slower may be a stall (nvidia-resiliency-ext's threshold)
SLOW_DEVIATIONS = 5.0  # robust standard deviations of the logarithm below the median
_MAD = 1.4826  # times the median absolute deviation: the standard deviation of normal values
SHORTEST_S = 1.0  # of the time that a stall cost
MORE_WAITING = 0.1  # share of the time, beyond the usual: somebody waits for a resource
OTHER_CORES = 0.5  # used by others, beyond the usual
THROTTLED = 0x08 | 0x20 | 0x40 | 0x80  # NVML: hardware slowdown, software and hardware thermal, power brake


@dataclass(frozen=True)
class Stall:
    """A time in which a run was slow; seconds since 1970.

    lost_s    beyond what the same work usually takes
    cause     throttling, CPU quota, other process, memory, data wait, network; "" if nothing shows one
    evidence  what was different, as text; "" without a cause
    """

    begin_at: float
    end_at: float
    lost_s: float
    cause: str = ""
    evidence: str = ""


def slow_windows(throughput: Sequence[tuple[float, float]]) -> list[Stall]:
    """Windows of a run that were slow, neighbors joined.

    throughput  (seconds since 1970, work per second since the point before), in order

    A window is slow if it is below 75 % of the median and five robust standard deviations below it; a stall
    costs at least a second. The first window is warm-up and never judged. Of 2,000 simulated runs whose
    windows vary by 20 % (lognormal), 2.5 % had a stall with 10 windows, 0.2 % with 50.
    """
    windows = [(begin, end, value) for (begin, _), (end, value) in pairwise(throughput) if end > begin]
    rates = [value for _, _, value in windows if value > 0]
    if len(rates) < FEWEST_WINDOWS:
        return []
    usual = median(rates)
    spread = _MAD * median(abs(math.log(value / usual)) for value in rates)
    limit = usual * min(SLOW_SHARE, math.exp(-SLOW_DEVIATIONS * spread))
    stalls: list[Stall] = []
    for begin, end, value in windows:
        lost_s = (end - begin) * (1 - value / usual)
        if value >= limit:
            continue
        if stalls and stalls[-1].end_at == begin:
            before = stalls.pop()
            begin, lost_s = before.begin_at, before.lost_s + lost_s
        stalls.append(Stall(begin, end, lost_s))
    return [stall for stall in stalls if stall.lost_s >= SHORTEST_S]


def explained(stalls: Sequence[Stall], directory: Path) -> list[Stall]:
    """The same with the cause that the telemetry in an attempt's directory shows.

    Raises InputError if the telemetry is damaged.
    """
    if not stalls or not recorded.nodes(directory):
        return list(stalls)
    with recorded.tables(directory) as tables:
        usual = _state(tables, [(0.0, stalls[0].begin_at), *_between(stalls), (stalls[-1].end_at, math.inf)])
        return [
            _explained(stall, usual, _state(tables, [(stall.begin_at, stall.end_at)])) for stall in stalls
        ]


def _between(stalls: Sequence[Stall]) -> Iterator[tuple[float, float]]:
    for before, after in pairwise(stalls):
        yield before.end_at, after.begin_at


def _explained(stall: Stall, usual: _NodeStates, then: _NodeStates) -> Stall:
    for cause, evidence in _causes(usual, then):
        return Stall(stall.begin_at, stall.end_at, stall.lost_s, cause, evidence)
    return stall


_NodeStates = Mapping[int, Mapping[str, float]]

_SHARES: Final = (  # cause, column of seconds waited, its words
    ("CPU quota", "cpu_throttled_seconds_total", "the CPU quota held the job back"),
    ("memory", "memory_pressure_seconds_total", "processes waited for memory"),
    ("data wait", "io_pressure_seconds_total", "processes waited for input and output"),
)


def _state(tables: DuckDBPyConnection, times: Sequence[tuple[float, float]]) -> _NodeStates:
    """Each node's counters as mean rates over these times, and its share of throttled GPU samples."""
    inside = " OR ".join(f"(unix_s > {begin!r} AND unix_s <= {_end(end)})" for begin, end in times)
    states: dict[int, dict[str, float]] = {}
    columns = sorted(recorded.columns(tables, "node") & _RATES)
    if columns:
        rates = ", ".join(
            f'sum(CASE WHEN d > 0 AND "{c}" >= "before_{c}" THEN "{c}" - "before_{c}" END) / '
            f'nullif(sum(CASE WHEN d > 0 AND "{c}" >= "before_{c}" THEN d END), 0)'
            for c in columns
        )
        lags = ", ".join(f'lag("{c}") OVER w AS "before_{c}"' for c in columns)
        query = f"""
            SELECT node, {rates} FROM (
                SELECT *, unix_s - lag(unix_s) OVER w AS d, {lags} FROM node
                WINDOW w AS (PARTITION BY node ORDER BY unix_s))
            WHERE {inside} GROUP BY node"""  # noqa: S608 - our own names and numbers
        for node, *values in tables.execute(query).fetchall():
            known = zip(columns, values, strict=True)
            states[node] = {name: value for name, value in known if value is not None}
    if "clock_reasons" in recorded.columns(tables, "gpu"):
        query = f"""
            SELECT node, avg(share) FROM (SELECT node, gpu,
                avg(CASE WHEN (clock_reasons::BIGINT & {THROTTLED}) > 0 THEN 1.0 ELSE 0.0 END) AS share
                FROM gpu WHERE clock_reasons IS NOT NULL AND ({inside}) GROUP BY ALL) GROUP BY node"""  # noqa: S608
        for node, share in tables.execute(query).fetchall():
            states.setdefault(node, {})["throttled"] = share
    return states


_RATES: Final = frozenset(
    {
        "cpu_busy_seconds_total",
        "job_cpu_seconds_total",
        "cpu_pressure_seconds_total",
        "infiniband_errors_total",
        *(column for _, column, _ in _SHARES),
    }
)


def _end(end_at: float) -> str:
    return repr(end_at) if math.isfinite(end_at) else "'inf'::DOUBLE"


def _causes(usual: _NodeStates, then: _NodeStates) -> Iterator[tuple[str, str]]:
    """Causes and their evidence, the most certain first."""
    for node, state in then.items():
        more = {name: value - usual.get(node, {}).get(name, math.inf) for name, value in state.items()}
        where = f" on node {node}" if len(then) > 1 else ""
        if more.get("throttled", 0) > MORE_WAITING:
            yield (
                "throttling",
                (
                    f"GPUs{where} were throttled {_percent(state['throttled'])} of the time, "
                    f"usually {_percent(usual[node]['throttled'])}"
                ),
            )
        for cause, column, description in _SHARES:
            if more.get(column, 0) > MORE_WAITING:
                yield (
                    cause,
                    (
                        f"{description}{where} {_percent(state[column])} of the time, "
                        f"usually {_percent(usual[node][column])}"
                    ),
                )
        others = _others(state) - _others(usual.get(node, {}))
        if others > OTHER_CORES and more.get("cpu_pressure_seconds_total", 0) > MORE_WAITING:
            yield (
                "other process",
                (
                    f"other processes{where} used {_others(state):.1f} CPUs, "
                    f"usually {_others(usual[node]):.1f}"
                ),
            )
        if more.get("infiniband_errors_total", 0) > 0:
            yield "network", f"InfiniBand ports{where} counted errors"


def _others(state: Mapping[str, float]) -> float:
    """CPUs that processes outside the job used; NaN, which exceeds nothing, if that is unknown."""
    return state.get("cpu_busy_seconds_total", math.nan) - state.get("job_cpu_seconds_total", math.nan)


def _percent(share: float) -> str:
    return f"{share * 100:.0f} %"
