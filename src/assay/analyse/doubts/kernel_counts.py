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

from assay.analyse.doubts.case import Case, CaseDoubtKind, Side, counted, percent
from assay.records import DEFAULT_MARGIN, NodeCounts, Result
from assay.units import human

# A count in steps of 10 ms, cut off at both ends, is off by 8 ms or less in 95 % of cases; a CPU's busy time
# is the sum of five
COUNT_ERROR_S, BUSY_ERROR_S = 0.008, 0.018
SWAP_WAIT_S = 1e-4  # for one page from a flash disk, where the kernel does not count the waiting itself
PAGE_BYTES = 4096

_RULE = (
    " Raised where the mean over a side's runs is above half of the margin (above 1 % where nothing is "
    "compared); of a run's nodes the worst counts."
)
_SIDES = (
    " How much a side lost by it is not known: where both met it, either may have lost more, even if both "
    "met as much."
)
_VERDICT = (
    " Verdicts allow for it: they have to hold whatever either side lost, up to the time that it may have "
    "waited, and above 20 % of its time there is no verdict but `undecided` (docs/statistics.md)."
)

Share = Callable[[NodeCounts], float | None]
"""Share of a run that a trouble may have cost on a node; None where its kernel does not count it."""


@dataclass(frozen=True)
class _Encounter:
    """What one side's runs met: the mean share over those that counted it, and the worst of them."""

    name: str
    share: float
    runs: int
    worst: NodeCounts
    worst_trial: str


def throttled(case: Case) -> str | None:
    """A CPU quota stopped the job."""
    return _evidence(case, "for {} of its CPU time a quota stopped it", throttled_share, _stops)


CPU_THROTTLED = CaseDoubtKind(
    code="cpu-throttled",
    subject="meanwhile",
    severity="biased",
    means=(
        "The kernel stopped the job because a cgroup had used up its CPU quota: time stopped, as a share of "
        "the CPU time that the job would otherwise have had." + _RULE
    ),
    effect=(
        "The figure is that of the quota, not of the machine. A job is stopped for tens of milliseconds at a "
        "time, on each node at another moment: every collective waits for the one that is stopped." + _SIDES
    ),
    remedy=(
        "Raise the limit to whole cores for every thread, or remove it; else use fewer threads "
        "(`OMP_NUM_THREADS`)."
    ),
    rates=(
        "A count of the kernel's, not a test: without a quota, or below it, it is 0. It is the whole "
        "group's, so another process in the same container counts too."
    ),
    evidence=throttled,
    looks_at="runs",
)


def busy_neighbours(case: Case) -> str | None:
    """Other processes used CPUs that the job may run on."""
    return _evidence(case, "other processes contended for {} of the CPU time", neighbours_share, _neighbours)


BUSY_NEIGHBOURS = CaseDoubtKind(
    code="busy-neighbours",
    subject="meanwhile",
    severity="biased",
    means=(
        "Other processes used CPUs that the job may run on, while it ran: busy time of those CPUs less the "
        "job's own CPU time, as a share of all CPU time that was used there, and no more than the share of "
        "time in which some task waited for a CPU, where the kernel counts it (pressure stall information, "
        "or the waiting times of its run queues)." + _RULE
    ),
    effect=(
        "A job that wants more CPUs loses more to the same neighbours: two threads that want two CPUs of two "
        "wait, while one thread finds the other CPU free, and threads or ranks that wait for each other lose "
        "the time of the slowest. What the job wanted is not counted, so a side that got less CPU time than "
        "it wanted may look slower than it is." + _SIDES + _VERDICT + " Caches, memory bandwidth and clock "
        "that neighbours take are not in it."
    ),
    remedy="Find what else runs there (`top`, other pods, other jobs of the node), and run again alone.",
    rates=(
        "The kernel counts in steps of 10 ms, so 18 ms a CPU (two standard deviations of the sum) are taken "
        "off first: a run of 1 s shows neighbours from 2.8 % on, one of 60 s from 1.03 %. Assay itself uses "
        "0.4 % of one CPU while it follows a run, 1.3 % with its live line: on a machine of one CPU that "
        "alone is above 1 %, and the run may lose it."
    ),
    evidence=busy_neighbours,
    looks_at="runs",
)


def stolen(case: Case) -> str | None:
    """The host of a virtual machine gave its CPUs to others."""
    return _evidence(
        case, "{} of its CPU time was withheld by the host of its virtual CPUs", stolen_share, _withheld
    )


STOLEN_TIME = CaseDoubtKind(
    code="stolen-time",
    subject="meanwhile",
    severity="biased",
    means=(
        "The machine is virtual, and its host withheld CPU time that it wanted: stolen time, as a share of "
        "the time that its CPUs wanted." + _RULE
    ),
    effect=(
        "The figure is that of the machine's share of its host at that hour; the next hour has another."
        + _SIDES
        + _VERDICT
    ),
    remedy="Take a machine with its own CPUs (dedicated, not burstable), and run again.",
    rates=(
        "A count of the kernel's in steps of 10 ms; 8 ms a CPU are taken off first. A host that does not "
        "tell its guest steals unseen."
    ),
    evidence=stolen,
    looks_at="runs",
)


def heat(case: Case) -> str | None:
    """A CPU slowed down for heat."""
    return _evidence(case, "for {} of the time its CPUs were slowed down for heat", heat_share, _heat)


HEAT_THROTTLED = CaseDoubtKind(
    code="heat-throttled",
    subject="meanwhile",
    severity="biased",
    means=(
        "A package of the job's CPUs was slowed down for heat while it ran: time slowed down, as a share of "
        "the run. Where the kernel counts only how often, once is enough." + _RULE
    ),
    effect=(
        "The clock was lower than it will be in a cooler hour, and most at the end of a session, so the "
        "order of the runs decides who suffers." + _SIDES
    ),
    remedy="Fix the cooling, lower the room's temperature, or let the node cool down between runs.",
    rates="A count of the CPU's own (Intel; others don't tell it). None on a CPU that is cool enough.",
    evidence=heat,
    looks_at="runs",
)


def swapping(case: Case) -> str | None:
    """The node read memory back from its swap."""
    return _evidence(case, "for {} of the time it waited for memory, with swap in use", swap_share, _swapped)


SWAPPING = CaseDoubtKind(
    code="swapping",
    subject="meanwhile",
    severity="biased",
    means=(
        "The node read memory back from its swap while the job ran, and some task waited for memory for this "
        "share of the time (without pressure stall information: 0.1 ms a page read back)." + _RULE
    ),
    effect=(
        "A wait for the disk stands in the figure; which run meets it depends on what ran before." + _SIDES
    ),
    remedy=(
        "Free memory, take a smaller batch or fewer workers, or switch swap off so that a job too large "
        "fails instead."
    ),
    rates=(
        "The wait is any task's of the node, not only the job's. Nothing read back from swap raises nothing."
    ),
    evidence=swapping,
    looks_at="runs",
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


def _between(case: Case, sides: list[_Encounter], matters: float) -> str:
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


def _met(name: str, results: Iterable[Result], share: Share) -> _Encounter | None:
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
    return _Encounter(name, math.fsum(costs) / len(costs), len(costs), *worst[1:])
