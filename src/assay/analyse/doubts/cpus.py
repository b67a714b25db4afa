"""A doubt about sizes that are compared as if each rank had the same CPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assay.analyse.doubts.case_kinds import CaseDoubtKind, counted
from assay.analyse.points.case import Case
from assay.analyse.points.groups import probed
from assay.records import Result, Shape
from assay.units import significant

MORE = 1.25  # factor in CPUs used per rank: a smaller one is the waiting that a larger size has anyway
BUSY = 0.5  # share of its CPUs that a job kept busy: below, ranks hardly waited for each other


@dataclass(frozen=True)
class _Rank:
    """The CPU demand and supply of one rank of a shape, means over runs; None if unknown.

    threads  as the program states them
    used     CPUs, averaged over time
    cpus     shared by all ranks of its shape
    """

    shape: Shape
    threads: float | None
    used: float | None
    cpus: int | None

    @property
    def crowd(self) -> float:
        """Ranks per CPU if they kept the CPUs busy and outnumber them; else 1."""
        if self.used is None or not self.cpus or self.used * self.shape.ranks < BUSY * self.cpus:
            return 1.0
        return max(1.0, self.shape.ranks / self.cpus)

    def __str__(self) -> str:
        crowded = f"{self.shape.ranks} ranks on {counted(self.cpus or 0, 'CPU')}" if self.crowd > 1 else ""
        threads = "" if self.threads is None else f"{counted(int(self.threads), 'thread')} per rank"
        got = "" if self.used is None else f"{significant(self.used, 2)} CPUs used per rank"
        return f"{self.shape}: {', '.join(filter(None, (crowded, threads, got)))}"


def unequal_cpus(case: Case) -> str | None:
    """Ranks of one size had more threads, used more CPUs, or shared CPUs with fewer others, without GPUs."""
    if len(case.sides) < 2:
        return None
    results = [[sample.result for sample in side.group.samples] for side in case.sides]
    a, b = (_rank(of_side) for of_side in results)
    if a.shape.ranks == b.shape.ranks or not all(
        _on_cpus(result) for of_side in results for result in of_side
    ):
        return None
    if a.threads is not None and b.threads is not None:
        unequal = a.threads != b.threads
    else:  # a rank used several CPUs, and fewer in the larger size
        unequal = a.used is not None and b.used is not None and a.used > MORE * max(1.0, b.used)
    if not unequal and max(a.crowd, b.crowd) <= MORE * min(a.crowd, b.crowd):
        return None
    return f"{a}; {b}: efficiency counts ranks, but they did not have the same CPUs"


UNEQUAL_CPUS = CaseDoubtKind(
    code="unequal-cpus",
    subject="sides",
    severity="biased",
    means=(
        "On CPUs, for two sizes of one curve: the ranks have different numbers of threads (as the program "
        "states) or, if that is unknown, the ranks of the smallest size used more than one CPU each, and "
        "over 25 % more than those of the larger size. Or one size has more ranks than its nodes have CPUs, "
        "and kept half of these CPUs or more busy."
    ),
    effect=(
        "Efficiency is the speed-up divided by the ratio of ranks. If one rank already has all cores, two "
        "ranks that share them are no faster: the curve shows how cores are divided, not how a program "
        "scales. Without `OMP_NUM_THREADS` each rank gets its share of the cores, so this is the usual case."
    ),
    remedy=(
        "Set `OMP_NUM_THREADS` in the system's `env` to the number of cores divided by the ranks of the "
        "largest size, as `assay init` does: each rank then has the same number of threads at every size. "
        "Measure only sizes with at most as many ranks as CPUs."
    ),
    evidence=unequal_cpus,
    looks_at="runs",
)


def _rank(results: Sequence[Result]) -> _Rank:
    threads = [result.reading.facts.get("threads") for result in results]
    stated = [float(each) for each in threads if isinstance(each, int | float)]
    used = [cpus for result in results if (cpus := _used(result)) is not None]
    return _Rank(
        results[0].run.trial.shape,
        stated[0] if len(stated) == len(threads) and len(set(stated)) == 1 else None,
        math.fsum(used) / len(used) if used else None,
        min(filter(None, map(_cpus, results)), default=None),
    )


def _cpus(result: Result) -> int:
    """The CPUs that a run's ranks shared; 0 if unknown. Pods of one node can have the same CPUs."""
    sets = {node.cpu_set or str(index): node.cpus for index, node in enumerate(result.run.nodes)}
    return sum(sets.values())


def _used(result: Result) -> float | None:
    """Average number of CPUs that each rank of a run used."""
    nodes = result.run.nodes
    if not nodes or any(node.job_cpu_s is None for node in nodes):
        return None
    return (
        math.fsum((node.job_cpu_s or 0.0) / node.elapsed_s for node in nodes) / result.run.trial.shape.ranks
    )


def _on_cpus(result: Result) -> bool:
    """Whether the run computed on CPUs: as the program states, or else if the probe found no GPU."""
    device = result.reading.facts.get("device")
    if device is not None:
        return device == "cpu"
    return all(not table.get("gpu.count") for table in probed(result))
