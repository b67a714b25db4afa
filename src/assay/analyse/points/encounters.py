"""What affected runs while they ran, as a share of each run: the worst of a run's nodes or GPUs counts.

The kernels' counters do not bound what a run lost: ranks that wait for each other lose more than the share,
and it is unknown in which part of the run the measurement was taken. Verdicts allow for `lost_to_others`, a
rule that docs/explanation/statistics.md tests by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from statistics import variance
from typing import Generic, TypeVar

from assay.records import NodeCounts, Result

T = TypeVar("T")

# A count in steps of 10 ms, cut off at both ends, has an error of at most 8 ms in 95 % of cases; a CPU's
# busy time is the sum of five.
COUNT_ERROR_S, BUSY_ERROR_S = 0.008, 0.018
SWAP_WAIT_S = 1e-4  # for one page from a flash disk, if the kernel does not count the waiting itself
PAGE_BYTES = 4096
FEWEST_BLOCKS = 3  # that show how much the difference of two sides' losses varies


@dataclass(frozen=True)
class Encounter(Generic[T]):
    """What affected one side's runs: the mean share over runs with a count, and the worst of them."""

    name: str
    share: float
    runs: int
    worst: T
    worst_trial: str


def encounter(
    name: str,
    results: Iterable[Result],
    parts: Callable[[Result], Sequence[T]],
    share: Callable[[T], float | None],
) -> Encounter[T] | None:
    """A side's runs by the worst of their nodes or GPUs; None if none of them counted it.

    parts  of a run: its nodes, its GPUs
    share  of the run that a part was affected; None if nobody counted it
    """
    shares: list[float] = []
    worst: tuple[float, T, str] | None = None
    for result in results:
        known = [(part_share, part) for part in parts(result) if (part_share := share(part)) is not None]
        if not known:
            continue
        most, part = max(known, key=itemgetter(0))
        shares.append(most)
        if worst is None or most > worst[0]:
            worst = (most, part, result.run.trial.id)
    if worst is None:
        return None
    return Encounter(name, math.fsum(shares) / len(shares), len(shares), *worst[1:])


def throttled_share(node: NodeCounts) -> float | None:
    """The share of the CPU time that the job would have had for which it was stopped."""
    if node.throttled_s is None or not node.job_cpu_s:
        return None
    return node.throttled_s / (node.throttled_s + node.job_cpu_s)


def suspended_share(node: NodeCounts) -> float | None:
    """The share of the run in which the keeper or a rank was suspended."""
    return None if node.suspended_s is None else node.suspended_s / node.elapsed_s


def others_cpus(node: NodeCounts) -> float | None:
    """Average number of CPUs used by processes other than the job's, minus the counting error.

    Busy time is read a moment after the clock, and where CPUs are short, other tasks run in that moment: no
    more counts than the CPUs have in the time between the readings.
    """
    if node.busy_cpu_s is None or node.job_cpu_s is None:
        return None
    own = node.job_cpu_s + (node.beside_cpu_s or 0.0)
    others = min(node.busy_cpu_s - BUSY_ERROR_S * node.cpus, node.cpus * node.elapsed_s) - own
    return max(0.0, others) / node.elapsed_s


def neighbours_share(node: NodeCounts) -> float | None:
    """The share of the CPU time on the job's CPUs, as used by the job and others, that others used.

    Never more than the share of time in which the job can have waited for a CPU.
    """
    others = others_cpus(node)
    if not others:
        return others
    own = ((node.job_cpu_s or 0.0) + (node.beside_cpu_s or 0.0)) / node.elapsed_s
    return min(others / (others + own), _waiting_share(node))


def time_to_neighbours(node: NodeCounts) -> float | None:
    """Share of the time in which the job may have waited for a CPU that others used.

    In that time others used at least one of its CPUs, all of them were busy, and some task waited: the result
    is the minimum of the three. Ranks or threads that wait for each other lose all of it.
    """
    others = others_cpus(node)
    return None if others is None else min(1.0, others, _waiting_share(node))


def _waiting_share(node: NodeCounts) -> float:
    """Share of the time in which a task of the job can have waited for a CPU, as far as the kernel counts it.

    Without a count of waiting, this is the share in which all CPUs can have been busy.
    """
    waits = [wait for wait in (node.cpu_wait_s, node.queue_wait_s) if wait is not None]
    all_busy_s = math.inf if node.busy_cpu_s is None else node.busy_cpu_s / node.cpus
    return min(1.0, min([all_busy_s, *waits]) / node.elapsed_s)


def stolen_share(node: NodeCounts) -> float | None:
    """The share of the CPU time that the virtual machine wanted and its host did not give it."""
    if node.stolen_cpu_s is None or not node.busy_cpu_s:
        return None
    stolen_s = max(0.0, node.stolen_cpu_s - COUNT_ERROR_S * node.cpus)
    return stolen_s / (stolen_s + node.busy_cpu_s)


def time_stolen(node: NodeCounts) -> float | None:
    """Share of the time in which the host may have stolen a CPU, assuming never two at once."""
    if node.stolen_cpu_s is None:
        return None
    return min(1.0, max(0.0, node.stolen_cpu_s - COUNT_ERROR_S * node.cpus) / node.elapsed_s)


def heat_share(node: NodeCounts) -> float | None:
    """Share of the time in which a package was throttled; all of it if only events are counted."""
    if node.heat_s is None:
        return None if node.heat_events is None else float(node.heat_events > 0)
    return min(1.0, node.heat_s / node.elapsed_s)


def swap_share(node: NodeCounts) -> float | None:
    """Share of the time in which some task waited for memory, if anything was read back from swap."""
    if node.swapped_in_bytes is None:
        return None
    estimated_s = node.swapped_in_bytes / PAGE_BYTES * SWAP_WAIT_S
    waited_s = estimated_s if node.memory_wait_s is None else node.memory_wait_s
    return min(1.0, waited_s / node.elapsed_s) if node.swapped_in_bytes else 0.0


def lost_to_others(results: Sequence[Result], margin: float) -> float:
    """Share of its time that a side may have lost to others who used its CPUs: the mean over its runs.

    0 if nothing was counted, or if at most half of the margin went to others: that much is the noise of
    the system itself, and does not show which side is faster.
    """
    lost = 0.0
    for share, time in ((neighbours_share, time_to_neighbours), (stolen_share, time_stolen)):
        taken = encounter("", results, nodes_of, share)
        if taken is not None and taken.share >= margin / 2:
            waited = encounter("", results, nodes_of, time)
            lost += 0.0 if waited is None else waited.share
    return min(1.0, lost)


def lost_beyond_each_other(pairs: Sequence[tuple[Result, Result]]) -> tuple[float, float] | None:
    """Shares by which A and B of the same shuffled blocks may have lost more than the other.

    Sides that want as many CPUs as each other lose as much to the same neighbors, so that only a difference
    matters. It shows twice, and the shares allow for the sum of both: in the CPU time that a side got, and in
    the number of tasks that ran or waited on the CPUs, which is that of the neighbors plus what the side
    itself wanted. Each is a mean over the blocks plus its standard error: a choice that is tested by
    simulation (docs/explanation/statistics.md).

    None without three blocks, or without these counts of one node and one set of CPUs. What it can't see is
    that one side's threads wait for each other without giving up their CPU.
    """
    gets, wants = [], []
    for run_a, run_b in pairs:
        a, b = _share_of_cpus(run_a), _share_of_cpus(run_b)
        if a is None or b is None or a[0] != b[0]:
            return None
        gets.append(math.log(a[1] / b[1]))
        wants.append((a[2] - b[2]) / min(a[1], b[1]))
    if len(pairs) < FEWEST_BLOCKS:
        return None
    by_a = _above([-log for log in gets]) + _above(wants)
    by_b = _above(gets) + _above([-share for share in wants])
    return -math.expm1(-by_a), -math.expm1(-by_b)


def _share_of_cpus(result: Result) -> tuple[tuple[str, int], float, float] | None:
    """A run's CPUs, how many of them it got, and how many tasks ran or waited on them.

    None if it used several nodes, or if a kernel didn't count this.
    """
    node, *others = result.run.nodes or (None,)
    if node is None or others or node.cpu_set is None or node.busy_cpu_s is None:
        return None
    if node.queue_wait_s is None or not node.job_cpu_s:
        return None
    runnable = (node.busy_cpu_s + node.queue_wait_s) / node.elapsed_s
    return (node.cpu_set, node.cpus), node.job_cpu_s / node.elapsed_s, runnable


def _above(values: Sequence[float]) -> float:
    """The mean plus its standard error; 0 if that is less."""
    return max(0.0, math.fsum(values) / len(values) + math.sqrt(variance(values) / len(values)))


def lost_by_run(results: Sequence[Result]) -> list[float | None]:
    """For each run, the share of its time that it may have lost to others; None if nobody counted it."""
    return [_lost_by(result) for result in results]


def _lost_by(result: Result) -> float | None:
    met = [encounter("", [result], nodes_of, time) for time in (time_to_neighbours, time_stolen)]
    known = [encountered.share for encountered in met if encountered is not None]
    return min(1.0, math.fsum(known)) if known else None


def nodes_of(result: Result) -> Sequence[NodeCounts]:
    """What the kernels of a run's nodes counted."""
    return result.run.nodes
