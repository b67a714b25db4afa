"""Doubts about the machines, from what the probe and the program stated of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from assay.analyse.doubts.case import MOST_SHOWN, Case, CaseDoubtKind, Side, counted, probed
from assay.records import Result, Scalar

HOT_C = 83.0  # NVIDIA's data-centre GPUs begin to slow down between 83 and 90 °C, by model
_CLOCKS = re.compile(
    r"gpu\.\d+\.(power_limit_w|clock_max_hz|memory_clock_max_hz|pcie_generation_max|pcie_width)"
    r"|cpu\.(governor|boost|frequency_max_hz|smt)"
)
_TEMPERATURE = re.compile(r".*\.temperature_c")
_GPU_NAME = re.compile(r"gpu\.\d+\.name")
_VERSIONS = {"torch_version": "python.torch", "cuda_version": "python.torch_cuda"}  # program's → probe's


def clock_changed(case: Case) -> str | None:
    """Clocks or power settings that were not the same in all runs, a CPU that throttled, a GPU begun hot."""
    for side in case.sides:
        found = [*_throttled(side), *_varying(side), *_hot(side)]
        if found:
            return f"{side.name}: {', '.join(found[:MOST_SHOWN])}"
    return None


CLOCK_CHANGED = CaseDoubtKind(
    code="clock-changed",
    subject="machines",
    severity="biased",
    means=(
        "Governor, boost, clock limits, power limit or PCIe width of one node were not the same in all "
        "runs of a side, a CPU slowed down for heat between two runs of a session (the kernel's count, where "
        "none was taken while the runs ran), or a GPU began a run at 83 °C or more."
    ),
    effect=(
        "The runs were made by machines of different speed; a hot GPU lowers its clock while it is measured."
    ),
    remedy=(
        "Fix governor, boost, clocks and power limit (`assay doctor` names the commands), let GPUs cool "
        "between runs, and run again."
    ),
    evidence=clock_changed,
    looks_at="runs",
)


def _varying(side: Side) -> Iterator[str]:
    """Settings of one host with several values over the runs."""
    seen: dict[tuple[Scalar, str], dict[Scalar, None]] = {}
    for table in _tables(side):
        for name in _matching(_CLOCKS, tuple(table)):
            seen.setdefault((table.get("host"), name), {})[table[name]] = None
    for (host, name), values in sorted(seen.items(), key=lambda item: item[0][1]):
        if len(values) > 1:
            yield f"{name} of {host or 'a node'} was {' then '.join(map(str, values))}"


def _throttled(side: Side) -> Iterator[str]:
    """Nodes whose count of thermal slow-downs rose from the beginning of one run to that of a later one."""
    counts: dict[tuple[Scalar, Scalar, str], dict[int, str]] = {}
    for sample in side.group.samples:
        run = sample.result.run
        if any(node.heat_events is not None for node in run.nodes):
            continue  # what was counted while it ran tells more: `heat-throttled`
        for table in probed(sample.result):
            count = table.get("cpu.throttled_count_now")
            if isinstance(count, int):
                boot = (table.get("host"), table.get("boot_id"), run.session)
                counts.setdefault(boot, {}).setdefault(count, run.trial.id)
    for (host, _, _), seen in counts.items():
        least, most = min(seen), max(seen)
        if most > least:
            times = f"slowed down for heat {counted(most - least, 'time')}"
            yield f"{host or 'a node'} {times} between {seen[least]} and {seen[most]}"


def _hot(side: Side) -> Iterator[str]:
    hottest: dict[str, float] = {}
    for table in _tables(side):
        for name in _matching(_TEMPERATURE, tuple(table)):
            value = table[name]
            if isinstance(value, int | float) and value >= HOT_C:
                hottest[name] = max(hottest.get(name, 0.0), float(value))
    for name, celsius in sorted(hottest.items()):
        yield f"{name.removesuffix('.temperature_c')} began at {celsius:g} °C"


def _tables(side: Side) -> Iterator[Mapping[str, Scalar]]:
    """The probe's tables of a side's runs; those of runs that share one record once."""
    distinct = {id(sample.result.provenance): sample.result for sample in side.group.samples}
    for result in distinct.values():
        yield from probed(result)


@cache
def _matching(pattern: re.Pattern[str], names: tuple[str, ...]) -> tuple[str, ...]:
    """Those names that fit. The tables of thousands of runs have few sets of names."""
    return tuple(name for name in names if pattern.fullmatch(name))


def quota(case: Case) -> str | None:
    """A cgroup gives fewer cores' worth of time than the job has threads or may see cores."""
    for side in case.sides:
        for sample in side.group.samples:
            if any(node.throttled_s is not None for node in sample.result.run.nodes):
                continue  # whether it was stopped is known: `cpu-throttled`
            for table in probed(sample.result):
                cores, seen = table.get("cpu.quota"), _tasks(sample.result, table)
                if isinstance(cores, int | float) and seen is not None and cores < seen:
                    return (
                        f"{side.name}: a quota of {cores:g} cores' time for {seen:g} cores or threads in "
                        f"{sample.result.run.trial.id}"
                    )
    return None


CPU_QUOTA = CaseDoubtKind(
    code="cpu-quota",
    subject="machines",
    severity="biased",
    means=(
        "A cgroup gives the job fewer cores' worth of time than it has threads, or sees cores, and nobody "
        "counted whether it was stopped (where that was counted, `cpu-throttled` tells)."
    ),
    effect=(
        "Above its quota a job is stopped for tens of milliseconds at a time, on each node at another "
        "moment: every collective waits for the one that is stopped."
    ),
    remedy=(
        "Set the limit to whole cores and as many threads (`OMP_NUM_THREADS`), or set no CPU limit: above "
        "its quota a job is stopped for tens of milliseconds at a time."
    ),
    evidence=quota,
    looks_at="runs",
)


def busy_machine(case: Case) -> str | None:
    """More tasks wanted to run than there are CPUs, before the run's own ranks started."""
    busy: Counter[str] = Counter()
    worst: dict[str, tuple[float, float]] = {}
    for side in case.sides:
        for sample in side.group.samples:
            if any(node.busy_cpu_s is not None for node in sample.result.run.nodes):
                continue  # what others used while it ran is known: `busy-neighbours`
            loads = [pair for table in probed(sample.result) if (pair := _overload(sample.result, table))]
            if loads:
                busy[side.name] += 1
                worst[side.name] = max(worst.get(side.name, (0.0, 0.0)), *loads)
    if not busy:
        return None
    parts = [
        f"{name}: {counted(busy[name], 'run')} began at a load of up to {load:g} on {cpus:g} CPUs"
        for name, (load, cpus) in worst.items()
    ]
    return "; ".join(parts)


BUSY_MACHINE = CaseDoubtKind(
    code="busy-machine",
    subject="machines",
    severity="biased",
    means=(
        "More tasks wanted to run than there are CPUs, before the run's own ranks had started, and nobody "
        "counted what others used while they ran (where that was counted, `busy-neighbours` tells)."
    ),
    effect="Something else takes time from the run, and rarely the same on both sides.",
    remedy="Find what else runs there (`top`, other pods, other jobs of the node), and run again alone.",
    evidence=busy_machine,
    looks_at="runs",
)


def _overload(result: Result, table: Mapping[str, Scalar]) -> tuple[float, float] | None:
    """Load and CPUs, where the load is more than the CPUs and than a run of the same before it explains."""
    load, cpus = table.get("load.1min"), table.get("cpu.logical")
    if not isinstance(load, int | float) or not isinstance(cpus, int | float):
        return None
    own = _tasks(result, table) or 0.0
    return (float(load), float(cpus)) if load > max(cpus, own) else None


def _tasks(result: Result, table: Mapping[str, Scalar]) -> float | None:
    """Threads of the ranks on a node where the program states them, else the cores that the job may use."""
    threads = result.reading.facts.get("threads")
    if isinstance(threads, int | float) and result.reading.facts.get("device") == "cpu":
        nodes = 1 if result.provenance is None else max(1, len(result.provenance.nodes))
        return float(threads) * result.run.trial.shape.ranks / nodes
    allowed = table.get("cpu.allowed")
    return float(allowed) if isinstance(allowed, int | float) else None


def uneven_nodes(case: Case) -> str | None:
    """Nodes of one run that differ in what decides speed: the slowest sets the pace."""
    for side in case.sides:
        for sample in side.group.samples:
            found = _differences(probed(sample.result))
            if found:
                return f"{side.name}, {sample.result.run.trial.id}: {', '.join(found[:MOST_SHOWN])}"
    return None


UNEVEN_NODES = CaseDoubtKind(
    code="uneven-nodes",
    subject="machines",
    severity="biased",
    means="Nodes of one run differ in CPU, GPU, driver, kernel, governor or memory.",
    effect="The slowest node sets the pace of every collective, so the figure is its, not the cluster's.",
    remedy="Give the nodes of one job the same hardware, driver and settings (`assay diff`).",
    evidence=uneven_nodes,
    looks_at="runs",
)


_ALIKE = (
    "cpu.model",
    "cpu.governor",
    "kernel",
    "gpu.driver",
    "gpu.count",
    "gpu.0.name",
    "memory.total_bytes",
)


def _differences(tables: Sequence[Mapping[str, Scalar]]) -> list[str]:
    if len(tables) < 2:
        return []
    found = []
    for name in _ALIKE:
        values = list(dict.fromkeys(_rounded(table[name]) for table in tables if name in table))
        if len(values) > 1:
            found.append(f"{name} is {' and '.join(map(str, values[:3]))}")
    return found


def _rounded(value: Scalar) -> Scalar:
    """Sizes to two digits: the kernel keeps a little more or less for itself at each boot."""
    return float(f"{value:.2g}") if isinstance(value, int) and value > 10**6 else value


def contradicts_itself(case: Case) -> str | None:
    """What the program stated against what the probe found on the same node."""
    found: dict[str, int] = {}
    for side in case.sides:
        for sample in side.group.samples:
            for contradiction in contradictions(sample.result):
                text = f"{side.name}: {contradiction}"
                found[text] = found.get(text, 0) + 1
    if not found:
        return None
    shown = [f"{text} ({counted(runs, 'run')})" for text, runs in list(found.items())[:MOST_SHOWN]]
    return "; ".join(shown)


PROVENANCE_CONTRADICTS = CaseDoubtKind(
    code="provenance-contradicts",
    subject="machines",
    severity="invalid",
    means=(
        "What the program stated (ranks, versions, device) is not what the probe found on the same nodes, "
        "or more hosts reported than the shape has nodes."
    ),
    effect="The figure belongs to another configuration than the one that is shown beside it.",
    remedy=(
        "Find out which is true before using the provenance: another interpreter, container or node than "
        "believed took part."
    ),
    evidence=contradicts_itself,
    looks_at="runs",
)


def contradictions(result: Result) -> Iterator[str]:
    """Each way in which a run's program and its probe disagree, in words."""
    facts, tables = result.reading.facts, probed(result)
    ranks = facts.get("world_size")
    if isinstance(ranks, int) and ranks != result.run.trial.shape.ranks:
        yield (
            f"the program counts {ranks} ranks where the shape {result.run.trial.shape} has "
            f"{result.run.trial.shape.ranks}"
        )
    if not tables:
        return
    for fact, name in _VERSIONS.items():
        said = facts.get(fact)
        seen = set() if said is None else {table[name] for table in tables if name in table}
        if seen and said not in seen:
            yield f"the program says {fact} {said}, the probe {name} {'/'.join(sorted(map(str, seen)))}"
    if facts.get("device") == "cuda" and (device := facts.get("device_name")) is not None:
        names = {table[name] for table in tables for name in _matching(_GPU_NAME, tuple(table))}
        if names and device not in names:
            yield f"the program ran on {device}, the probe found {'/'.join(sorted(map(str, names)))}"
    nodes = result.run.trial.shape.nodes
    if nodes is None:
        return
    hosts = {table["host"] for table in tables if "host" in table}
    if len(hosts) > nodes:
        yield f"{counted(len(hosts), 'host')} reported where the shape has {counted(nodes, 'node')}"
