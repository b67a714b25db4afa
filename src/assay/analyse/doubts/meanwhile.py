"""Doubts about what happened on the nodes while the runs ran, from what their kernels counted meanwhile.

Each trouble is counted as a share, and raises its doubt where the mean over a side's runs is above half of
the margin. Of a run's nodes the worst counts, because the others wait for it.

These counts give no bound on what a side lost: ranks that wait for each other lose more than the share, and
nobody knows in which part of the run it was measured. So a doubt says what was counted and which side met
more. What a verdict allows for is `lost_to_others`, a rule that docs/statistics.md tests by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import itemgetter

from assay.analyse.doubts.case import Case, Side, counted, percent
from assay.records import DEFAULT_MARGIN, Doubt, NodeCounts, Result
from assay.units import human

# A count in steps of 10 ms, cut off at both ends, is off by 8 ms or less in 95 % of cases; a CPU's busy time
# is the sum of five
COUNT_ERROR_S, BUSY_ERROR_S = 0.008, 0.018
SWAP_WAIT_S = 1e-4  # for one page from a flash disk, where the kernel does not count the waiting itself
PAGE_BYTES = 4096

Share = Callable[[NodeCounts], float | None]
"""Share of a run that a trouble may have cost on a node; None where its kernel does not count it."""


@dataclass(frozen=True)
class _Met:
    """What one side's runs met: the mean share over those that counted it, and the worst of them."""

    name: str
    share: float
    runs: int
    worst: NodeCounts
    worst_trial: str


def throttled(case: Case) -> Doubt | None:
    """A CPU quota stopped the job."""
    evidence = _evidence(case, "for {} of its CPU time a quota stopped it", throttled_share, _stops)
    if evidence is None:
        return None
    return Doubt(
        "cpu-throttled",
        evidence,
        "Raise the limit to whole cores for every thread, or take it away; else fewer threads "
        "(OMP_NUM_THREADS)",
    )


def busy_neighbours(case: Case) -> Doubt | None:
    """Other processes used CPUs that the job may run on."""
    evidence = _evidence(
        case, "other processes contended for {} of the CPU time", neighbours_share, _neighbours
    )
    if evidence is None:
        return None
    return Doubt(
        "busy-neighbours",
        evidence,
        "Find what else runs there (`top`, other pods, other jobs of the node), and run again alone",
    )


def stolen(case: Case) -> Doubt | None:
    """The host of a virtual machine gave its CPUs to others."""
    evidence = _evidence(
        case, "{} of its CPU time was withheld by the host of its virtual CPUs", stolen_share, _withheld
    )
    if evidence is None:
        return None
    return Doubt(
        "stolen-time",
        evidence,
        "Take a machine with CPUs of its own (dedicated, not burstable), and run again",
    )


def heat(case: Case) -> Doubt | None:
    """A CPU slowed down for heat."""
    evidence = _evidence(case, "for {} of the time its CPUs were slowed down for heat", heat_share, _heat)
    if evidence is None:
        return None
    return Doubt("heat-throttled", evidence, "Mend the cooling, or let the node cool down between runs")


def swapping(case: Case) -> Doubt | None:
    """The node read memory back from its swap."""
    evidence = _evidence(
        case, "for {} of the time it waited for memory, with swap in use", swap_share, _swapped
    )
    if evidence is None:
        return None
    return Doubt(
        "swapping",
        evidence,
        "Free memory, take a smaller batch or fewer workers, or switch swap off so that it fails instead",
    )


# Shares --------------------------------------------------------------------------------------------------


def throttled_share(node: NodeCounts) -> float | None:
    """Of the CPU time that the job would have had: for what part it was stopped."""
    if node.throttled_s is None or not node.job_cpu_s:
        return None
    return node.throttled_s / (node.throttled_s + node.job_cpu_s)


def others_cpus(node: NodeCounts) -> float | None:
    """CPUs' worth of time that processes other than the job's used, less what the counting may be off by."""
    if node.busy_cpu_s is None or node.job_cpu_s is None:
        return None
    own = node.job_cpu_s + (node.beside_cpu_s or 0.0)
    others = node.busy_cpu_s - own - BUSY_ERROR_S * node.cpus
    return max(0.0, others) / node.elapsed_s


def neighbours_share(node: NodeCounts) -> float | None:
    """What others used of the CPU time that they and the job used on the job's CPUs.

    Never more than the share of time in which the job can have waited for a CPU.
    """
    others = others_cpus(node)
    if not others:
        return others
    own = ((node.job_cpu_s or 0.0) + (node.beside_cpu_s or 0.0)) / node.elapsed_s
    return min(others / (others + own), _waiting_share(node))


def time_to_neighbours(node: NodeCounts) -> float | None:
    """Share of the time in which the job may have waited for a CPU that others used.

    Then others used at least one of its CPUs, all of them were busy, and some task waited: it is no more than
    the least of the three. Ranks or threads that wait for each other lose all of it.
    """
    others = others_cpus(node)
    return None if others is None else min(1.0, others, _waiting_share(node))


def _waiting_share(node: NodeCounts) -> float:
    """Share of the time in which a task of the job can have waited for a CPU, as far as the kernel counts it.

    Without a count of the waiting it is the share in which all CPUs can have been busy.
    """
    waits = [wait for wait in (node.cpu_wait_s, node.queue_wait_s) if wait is not None]
    all_busy_s = math.inf if node.busy_cpu_s is None else node.busy_cpu_s / node.cpus
    return min(1.0, min([all_busy_s, *waits]) / node.elapsed_s)


def stolen_share(node: NodeCounts) -> float | None:
    """Of the CPU time that the virtual machine wanted, what its host withheld."""
    if node.stolen_cpu_s is None or not node.busy_cpu_s:
        return None
    stolen_s = max(0.0, node.stolen_cpu_s - COUNT_ERROR_S * node.cpus)
    return stolen_s / (stolen_s + node.busy_cpu_s)


def time_stolen(node: NodeCounts) -> float | None:
    """Share of the time in which the host may have withheld a CPU: as if never two at once."""
    if node.stolen_cpu_s is None:
        return None
    return min(1.0, max(0.0, node.stolen_cpu_s - COUNT_ERROR_S * node.cpus) / node.elapsed_s)


def heat_share(node: NodeCounts) -> float | None:
    """Share of the time in which a package was slowed down; all of it where only the times are counted."""
    if node.heat_s is None:
        return None if node.heat_events is None else float(node.heat_events > 0)
    return min(1.0, node.heat_s / node.elapsed_s)


def swap_share(node: NodeCounts) -> float | None:
    """Share of the time in which some task waited for memory, where anything came back from swap."""
    if node.swapped_in_bytes is None:
        return None
    estimated_s = node.swapped_in_bytes / PAGE_BYTES * SWAP_WAIT_S
    waited_s = estimated_s if node.memory_wait_s is None else node.memory_wait_s
    return min(1.0, waited_s / node.elapsed_s) if node.swapped_in_bytes else 0.0


def lost_to_others(results: Sequence[Result], margin: float) -> float:
    """Share of its time that a side may have lost to others who used its CPUs: the mean over its runs.

    0 where nothing was counted, or no more than half of the margin went to others: that much is the noise of
    the system itself, and says nothing of which side is faster.
    """
    lost = 0.0
    for share, time in ((neighbours_share, time_to_neighbours), (stolen_share, time_stolen)):
        taken, met = _met("", results, share), _met("", results, time)
        if taken is not None and met is not None and taken.share >= margin / 2:
            lost += met.share
    return min(1.0, lost)


# Words ---------------------------------------------------------------------------------------------------


def _stops(node: NodeCounts) -> str:
    quota = "" if node.quota_cores is None else f" of {node.quota_cores:g} cores"
    return f"stopped in {node.throttled_periods} of {node.periods} periods{quota}"


def _neighbours(node: NodeCounts) -> str:
    own = ((node.job_cpu_s or 0.0) + (node.beside_cpu_s or 0.0)) / node.elapsed_s
    used = f"others used {others_cpus(node):.2g} of {counted(node.cpus, 'CPU')} and the job {own:.2g}"
    if node.cpu_wait_s is None:
        return used
    waited = min(1.0, node.cpu_wait_s / node.elapsed_s)
    return f"{used}; some task waited for a CPU {percent(waited)} of the time"


def _withheld(node: NodeCounts) -> str:
    return f"{human(node.stolen_cpu_s or 0.0, 's')} of CPU time in {human(node.elapsed_s, 's')}"


def _heat(node: NodeCounts) -> str:
    return f"{counted(node.heat_events or 0, 'time')} in {human(node.elapsed_s, 's')}"


def _swapped(node: NodeCounts) -> str:
    return f"{human(float(node.swapped_in_bytes or 0), 'B')} read back in {human(node.elapsed_s, 's')}"


def _evidence(case: Case, what: str, share: Share, words: Callable[[NodeCounts], str]) -> str | None:
    """What each side met, in figures, and whether both did; None where no side met what could matter."""
    matters = (case.margin or DEFAULT_MARGIN) / 2
    sides = [met for side in case.sides if (met := _met(side.name, _results(side), share)) is not None]
    if max((met.share for met in sides), default=0.0) < matters:
        return None
    told = [
        f"{met.name}: {what.format(percent(met.share))} over {counted(met.runs, 'run')} "
        f"(most in {met.worst_trial}: {words(met.worst)})"
        for met in sides
        if met.share >= matters
    ]
    told += [f"{met.name}: {percent(met.share)}" for met in sides if met.share < matters]
    if len(case.sides) > 1:
        told.append(_between(case, sides, matters))
    return "; ".join(told)


def _between(case: Case, sides: list[_Met], matters: float) -> str:
    """What it means for a comparison."""
    unknown = {side.name for side in case.sides} - {met.name for met in sides}
    if unknown:
        return f"of {', '.join(sorted(unknown))} nothing was counted"
    least, most = sorted(sides, key=lambda met: met.share)
    if least.share >= matters or most.share - least.share <= matters:
        return "both sides met it, and either may have lost more by it"
    return f"what {least.name} met hardly matters, what {most.name} met may have slowed it"


def _results(side: Side) -> list[Result]:
    return [sample.result for sample in side.group.samples]


def _met(name: str, results: Iterable[Result], share: Share) -> _Met | None:
    """A side's runs by their worst nodes; None where none of them counted it."""
    costs: list[float] = []
    worst: tuple[float, NodeCounts, str] | None = None
    for result in results:
        run = result.run
        known = [(cost, node) for node in run.nodes if (cost := share(node)) is not None]
        if not known:
            continue
        cost, node = max(known, key=itemgetter(0))
        costs.append(cost)
        if worst is None or cost > worst[0]:
            worst = (cost, node, run.trial.id)
    if worst is None:
        return None
    return _Met(name, math.fsum(costs) / len(costs), len(costs), *worst[1:])
