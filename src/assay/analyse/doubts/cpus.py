"""A doubt about sizes that are compared as if each rank had the same CPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from assay.analyse.doubts.case import Case, CaseDoubtKind, counted, probed
from assay.records import Result, Shape
from assay.units import significant

MORE = 1.25  # of the CPUs that a rank used: less is the waiting that a larger size has anyway
BUSY = 0.5  # of its CPUs that a job kept busy: with less, ranks that share them hardly waited for each other


@dataclass(frozen=True)
class _Rank:
    """What one rank of a shape wanted and got, means over runs; None where it is not known.

    threads  that its program stated
    used     CPUs' worth of time
    cpus     that all ranks of its shape shared
    """

    shape: Shape
    threads: float | None
    used: float | None
    cpus: int | None

    @property
    def crowd(self) -> float:
        """Ranks to a CPU where they kept the CPUs busy and are more than these; else 1."""
        if self.used is None or not self.cpus or self.used * self.shape.ranks < BUSY * self.cpus:
            return 1.0
        return max(1.0, self.shape.ranks / self.cpus)

    def __str__(self) -> str:
        crowded = f"{self.shape.ranks} ranks on {counted(self.cpus or 0, 'CPU')}" if self.crowd > 1 else ""
        wanted = "" if self.threads is None else f"{counted(int(self.threads), 'thread')} a rank"
        got = "" if self.used is None else f"{significant(self.used, 2)} CPUs used a rank"
        return f"{self.shape}: {', '.join(filter(None, (crowded, wanted, got)))}"


def unequal_cpus(case: Case) -> str | None:
    """Ranks of one size had more threads, used more CPUs, or shared each with fewer others, on CPUs alone."""
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
    else:  # a rank that used several CPUs, and fewer of them in the larger size
        unequal = a.used is not None and b.used is not None and a.used > MORE * max(1.0, b.used)
    if not unequal and max(a.crowd, b.crowd) <= MORE * min(a.crowd, b.crowd):
        return None
    return f"{a}; {b}: efficiency counts ranks, and they did not have the same CPUs"


UNEQUAL_CPUS = CaseDoubtKind(
    code="unequal-cpus",
    subject="sides",
    severity="biased",
    means=(
        "Two sizes of one curve, on CPUs: a rank of one has another number of threads than a rank of the "
        "other (as its program states), or, where that is not known, the ranks of the smallest size used "
        "more than one CPU each, and over 25 % more than those of the larger. Or one size has more ranks "
        "than its nodes have CPUs, and they kept half of these or more busy."
    ),
    effect=(
        "Efficiency is the speed-up over the ratio of ranks. Where one rank has all cores already, two that "
        "share them bring no more: the curve shows how cores are divided, not how a program scales. Without "
        "`OMP_NUM_THREADS` each rank gets its share of the cores, so this is the usual case."
    ),
    remedy=(
        "Set `OMP_NUM_THREADS` in the system's `env` to the cores over the ranks of the largest size, as "
        "`assay init` does: each rank then has as many threads in every size. Measure sizes with no more "
        "ranks than CPUs."
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
    """The CPUs that a run's ranks shared; 0 where nobody looked. Pods of one node can have the same."""
    sets = {node.cpu_set or str(at): node.cpus for at, node in enumerate(result.run.nodes)}
    return sum(sets.values())


def _used(result: Result) -> float | None:
    """CPUs' worth of time that each rank of a run used."""
    nodes = result.run.nodes
    if not nodes or any(node.job_cpu_s is None for node in nodes):
        return None
    return (
        math.fsum((node.job_cpu_s or 0.0) / node.elapsed_s for node in nodes) / result.run.trial.shape.ranks
    )


def _on_cpus(result: Result) -> bool:
    """Whether it computed on CPUs: as its program states, else where the probe found no GPU."""
    device = result.reading.facts.get("device")
    if device is not None:
        return device == "cpu"
    return all(not table.get("gpu.count") for table in probed(result))
