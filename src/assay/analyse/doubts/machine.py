"""Doubts about the machines, from what the probe and the program reported about them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from assay.analyse.doubts.case_kinds import MOST_SHOWN, CaseDoubtKind, counted
from assay.analyse.points.case import Case, Side
from assay.analyse.points.groups import probed
from assay.records import Result, Scalar

HOT_C = 83.0  # NVIDIA's data-center GPUs begin to throttle between 83 and 90 °C, depending on the model
_CLOCKS = re.compile(
    r"gpu\.\d+\.(power_limit_w|clock_max_hz|memory_clock_max_hz|pcie_generation_max|pcie_width)"
    r"|cpu\.(governor|boost|frequency_max_hz|smt)"
)
_TEMPERATURE = re.compile(r".*\.temperature_c")
_GPU_NAME = re.compile(r"gpu\.\d+\.name")
_VERSIONS = {"torch_version": "python.torch", "cuda_version": "python.torch_cuda"}  # program's → probe's


def clock_changed(case: Case) -> str | None:
    """Clocks or power settings that varied between runs, a CPU that throttled, or a GPU that started hot."""
    for side in case.sides:
        changes = [*_throttled(side), *_varying(side), *_hot(side)]
        if changes:
            return f"{side.name}: {', '.join(changes[:MOST_SHOWN])}"
    return None


CLOCK_CHANGED = CaseDoubtKind(
    code="clock-changed",
    subject="machines",
    severity="biased",
    means=(
        "Governor, boost, clock limits, power limit or PCIe width of one node were not the same in all "
        "runs of a side, a CPU was throttled between two runs of a session (by the kernel's count, if "
        "nothing was counted during the runs), or a GPU started a run at 83 °C or more."
    ),
    effect=(
        "The runs were made at different machine speeds; a hot GPU lowers its clock during the measurement."
    ),
    remedy=(
        "Fix governor, boost, clocks and power limit (`assay doctor` lists the commands), let GPUs cool "
        "between runs, and run again."
    ),
    evidence=clock_changed,
    looks_at="runs",
)


def _varying(side: Side) -> Iterator[str]:
    """Settings of one host that have several values over the runs."""
    seen: dict[tuple[Scalar, str], dict[Scalar, None]] = {}
    for table in _tables(side):
        for name in _matching(_CLOCKS, tuple(table)):
            seen.setdefault((table.get("host"), name), {})[table[name]] = None
    for (host, name), values in sorted(seen.items(), key=lambda item: item[0][1]):
        if len(values) > 1:
            yield f"{name} of {host or 'a node'} was {' then '.join(map(str, values))}"


def _throttled(side: Side) -> Iterator[str]:
    """Nodes whose count of thermal throttling events rose between the starts of two runs."""
    counts: dict[tuple[Scalar, Scalar, str], dict[int, str]] = {}
    for sample in side.group.samples:
        run = sample.result.run
        if any(node.heat_events is not None for node in run.nodes):
            continue  # the count during the run is more informative: `heat-throttled`
        for table in probed(sample.result):
            count = table.get("cpu.throttled_count_now")
            if isinstance(count, int):
                boot = (table.get("host"), table.get("boot_id"), run.session)
                counts.setdefault(boot, {}).setdefault(count, run.trial.id)
    for (host, _, _), seen in counts.items():
        least, most = min(seen), max(seen)
        if most > least:
            times = f"was thermally throttled {counted(most - least, 'time')}"
            yield f"{host or 'a node'} {times} between {seen[least]} and {seen[most]}"


def _hot(side: Side) -> Iterator[str]:
    hottest: dict[str, float] = {}
    for table in _tables(side):
        for name in _matching(_TEMPERATURE, tuple(table)):
            value = table[name]
            if isinstance(value, int | float) and value >= HOT_C:
                hottest[name] = max(hottest.get(name, 0.0), float(value))
    for name, celsius in sorted(hottest.items()):
        yield f"{name.removesuffix('.temperature_c')} started at {celsius:g} °C"


def _tables(side: Side) -> Iterator[Mapping[str, Scalar]]:
    """The probe's tables of a side's runs; tables of runs that share one record appear once."""
    distinct = {id(sample.result.provenance): sample.result for sample in side.group.samples}
    for result in distinct.values():
        yield from probed(result)


@cache
def _matching(pattern: re.Pattern[str], names: tuple[str, ...]) -> tuple[str, ...]:
    """The names that match. The tables of thousands of runs have few distinct sets of names."""
    return tuple(name for name in names if pattern.fullmatch(name))


def quota(case: Case) -> str | None:
    """A cgroup quota that grants less CPU time than the job has threads, or sees cores."""
    for side in case.sides:
        for sample in side.group.samples:
            if any(node.throttled_s is not None for node in sample.result.run.nodes):
                continue  # whether the job was stopped is known: `cpu-throttled`
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
        "A cgroup grants the job less CPU time than it has threads, or sees cores, and nobody "
        "counted whether it was stopped (if that was counted, see `cpu-throttled`)."
    ),
    effect=(
        "Above its quota a job is stopped for tens of milliseconds at a time, at a different moment on each "
        "node: every collective waits for the one that is stopped."
    ),
    remedy=(
        "Set the limit to whole cores and to the number of threads (`OMP_NUM_THREADS`), or set no CPU limit: "
        "above its quota a job is stopped for tens of milliseconds at a time."
    ),
    evidence=quota,
    looks_at="runs",
)


def busy_machine(case: Case) -> str | None:
    """More tasks were runnable than there are CPUs, before the run's own ranks started."""
    busy: Counter[str] = Counter()
    worst: dict[str, tuple[float, float]] = {}
    for side in case.sides:
        for sample in side.group.samples:
            if any(node.busy_cpu_s is not None for node in sample.result.run.nodes):
                continue  # what others used during the run is known: `busy-neighbours`
            loads = [pair for table in probed(sample.result) if (pair := _overload(sample.result, table))]
            if loads:
                busy[side.name] += 1
                worst[side.name] = max(worst.get(side.name, (0.0, 0.0)), *loads)
    if not busy:
        return None
    parts = [
        f"{name}: {counted(busy[name], 'run')} started at a load of up to {load:g} on {cpus:g} CPUs"
        for name, (load, cpus) in worst.items()
    ]
    return "; ".join(parts)


BUSY_MACHINE = CaseDoubtKind(
    code="busy-machine",
    subject="machines",
    severity="biased",
    means=(
        "More tasks were runnable than there are CPUs, before the run's own ranks had started, and nobody "
        "counted what others used during the run (if that was counted, see `busy-neighbours`)."
    ),
    effect="Something else takes time from the run, and rarely the same amount on both sides.",
    remedy=(
        "Find what else runs there (`top`, other pods, other jobs of the node), and run again on an idle "
        "machine."
    ),
    evidence=busy_machine,
    looks_at="runs",
)


def _overload(result: Result, table: Mapping[str, Scalar]) -> tuple[float, float] | None:
    """Load and CPUs, if the load exceeds the CPUs and what an earlier run of the same kind explains."""
    load, cpus = table.get("load.1min"), table.get("cpu.logical")
    if not isinstance(load, int | float) or not isinstance(cpus, int | float):
        return None
    own = _tasks(result, table) or 0.0
    return (float(load), float(cpus)) if load > max(cpus, own) else None


def _tasks(result: Result, table: Mapping[str, Scalar]) -> float | None:
    """Threads of the ranks on a node if the program states them, else the cores that the job may use."""
    threads = result.reading.facts.get("threads")
    if isinstance(threads, int | float) and result.reading.facts.get("device") == "cpu":
        nodes = 1 if result.provenance is None else max(1, len(result.provenance.nodes))
        return float(threads) * result.run.trial.shape.ranks / nodes
    allowed = table.get("cpu.allowed")
    return float(allowed) if isinstance(allowed, int | float) else None


def uneven_nodes(case: Case) -> str | None:
    """Nodes of one run that differ in what determines speed: the slowest sets the pace."""
    for side in case.sides:
        for sample in side.group.samples:
            differences = _differences(probed(sample.result))
            if differences:
                return f"{side.name}, {sample.result.run.trial.id}: {', '.join(differences[:MOST_SHOWN])}"
    return None


UNEVEN_NODES = CaseDoubtKind(
    code="uneven-nodes",
    subject="machines",
    severity="biased",
    means="Nodes of one run differ in CPU, GPU, driver, kernel, governor or memory.",
    effect=(
        "The slowest node sets the pace of every collective, so the result is that node's, not the cluster's."
    ),
    remedy="Give all nodes of a job the same hardware, driver and settings (`assay diff`).",
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
    differences = []
    for name in _ALIKE:
        values = list(dict.fromkeys(_rounded(table[name]) for table in tables if name in table))
        if len(values) > 1:
            differences.append(f"{name} is {' and '.join(map(str, values[:3]))}")
    return differences


def _rounded(value: Scalar) -> Scalar:
    """Sizes to two digits: the kernel reserves a slightly different amount at each boot."""
    return float(f"{value:.2g}") if isinstance(value, int) and value > 10**6 else value


def contradicts_itself(case: Case) -> str | None:
    """What the program reported compared with what the probe found on the same node."""
    runs_by_text: dict[str, int] = {}
    for side in case.sides:
        for sample in side.group.samples:
            for contradiction in contradictions(sample.result):
                text = f"{side.name}: {contradiction}"
                runs_by_text[text] = runs_by_text.get(text, 0) + 1
    if not runs_by_text:
        return None
    shown = [f"{text} ({counted(runs, 'run')})" for text, runs in list(runs_by_text.items())[:MOST_SHOWN]]
    return "; ".join(shown)


PROVENANCE_CONTRADICTS = CaseDoubtKind(
    code="provenance-contradicts",
    subject="machines",
    severity="invalid",
    means=(
        "What the program reported (ranks, versions, device) is not what the probe found on the same nodes, "
        "or more hosts reported than the shape has nodes."
    ),
    effect="The result belongs to a configuration other than the one shown next to it.",
    remedy=(
        "Find out which is correct before you use the provenance: another interpreter, container or node "
        "than expected took part."
    ),
    evidence=contradicts_itself,
    looks_at="runs",
)


def contradictions(result: Result) -> Iterator[str]:
    """Each way in which a run's program and its probe disagree, as text."""
    facts, tables = result.reading.facts, probed(result)
    ranks = facts.get("world_size")
    if isinstance(ranks, int) and ranks != result.run.trial.shape.ranks:
        yield (
            f"the program reports {ranks} ranks but the shape {result.run.trial.shape} has "
            f"{result.run.trial.shape.ranks}"
        )
    if not tables:
        return
    for fact, name in _VERSIONS.items():
        reported = facts.get(fact)
        seen = set() if reported is None else {table[name] for table in tables if name in table}
        if seen and reported not in seen:
            versions = "/".join(sorted(map(str, seen)))
            yield f"the program reports {fact} {reported}, the probe {name} {versions}"
    if facts.get("device") == "cuda" and (device := facts.get("device_name")) is not None:
        names = {table[name] for table in tables for name in _matching(_GPU_NAME, tuple(table))}
        if names and device not in names:
            yield f"the program ran on {device}, the probe found {'/'.join(sorted(map(str, names)))}"
    nodes = result.run.trial.shape.nodes
    if nodes is None:
        return
    hosts = {table["host"] for table in tables if "host" in table}
    if len(hosts) > nodes:
        yield f"{counted(len(hosts), 'host')} reported, but the shape has {counted(nodes, 'node')}"
