"""Doubts about what happened on the nodes during the runs, from the kernels' counters.

Each problem is counted as a share, and raises its doubt if the mean over a side's runs is above half of
the margin. The worst of a run's nodes counts, because the others wait for it.

How much a side lost is unknown (`points/encounters.py`), so a doubt reports what was counted and which side
was affected more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from assay.analyse.doubts.case_kinds import CaseDoubtKind, counted, evidence
from assay.analyse.points.case import Case, Side
from assay.analyse.points.encounters import (
    encounter,
    heat_share,
    neighbours_share,
    nodes_of,
    others_cpus,
    stolen_share,
    suspended_share,
    swap_share,
    throttled_share,
)
from assay.analyse.points.groups import probed
from assay.records import DEFAULT_MARGIN, NodeCounts, Result, Shape
from assay.units import human, percent, significant

_RULE = (
    " Raised if the mean over a side's runs is above half of the margin (above 1 % if nothing is "
    "compared); the worst of a run's nodes counts."
)
_SIDES = (
    " How much a side lost is unknown: if both sides were affected, either may have lost more, even if both "
    "have the same share."
)
_VERDICT = (
    " Verdicts allow for it: they must hold whatever either side lost, up to the time that it may have "
    "waited, or by which it may have waited longer than the other side of the same blocks; above 20 % the "
    "only verdict is `undecided` (docs/explanation/statistics.md). A requirement has this doubt only if that "
    "time could change its verdict."
)

Share = Callable[[NodeCounts], float | None]
"""Share of a run that a problem may have cost on a node; None if the kernel does not count it."""


def throttled(case: Case) -> str | None:
    """A CPU quota stopped the job."""
    return _evidence(case, "a quota stopped it for {} of its CPU time", throttled_share, _stops)


CPU_THROTTLED = CaseDoubtKind(
    code="cpu-throttled",
    subject="meanwhile",
    severity="biased",
    means=(
        "The kernel stopped the job because a cgroup had used up its CPU quota: stopped time, as a share of "
        "the CPU time that the job would otherwise have had." + _RULE
    ),
    effect=(
        "The result is that of the quota, not of the machine. A job is stopped for tens of milliseconds at a "
        "time, at a different moment on each node: every collective waits for the one that is stopped."
        + _SIDES
    ),
    remedy=(
        "Raise the limit to whole cores for every thread, or remove it; otherwise use fewer threads "
        "(`OMP_NUM_THREADS`)."
    ),
    rates=(
        "This is a kernel counter, not a test: without a quota, or below it, it is 0. It covers the whole "
        "cgroup, so another process in the same container counts too."
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
        "Other processes used CPUs that the job may run on, while it ran: the busy time of those CPUs minus "
        "the job's own CPU time, as a share of all CPU time used there, but at most the share of time in "
        "which some task waited for a CPU, if the kernel counts it (pressure stall information, or the "
        "waiting times of its run queues)." + _RULE
    ),
    effect=(
        "A job that wants more CPUs loses more to the same neighbors: two threads that want two CPUs both "
        "wait, while one thread finds the other CPU free, and threads or ranks that wait for each other lose "
        "the time of the slowest. What the job wanted is not counted, so a side that got less CPU time than "
        "it wanted may look slower than it is." + _SIDES + _VERDICT + " Caches, memory bandwidth and clock "
        "speed that neighbors take are not included."
    ),
    remedy=(
        "Find what else runs there (`top`, other pods, other jobs of the node), and run again on an idle "
        "machine."
    ),
    rates=(
        "The kernel counts in steps of 10 ms, so 18 ms per CPU (two standard deviations of the sum) are "
        "subtracted first: a run of 1 s shows neighbors from 2.8 %, one of 60 s from 1.03 %. Assay itself "
        "uses 0.4 % of one CPU while it follows a run, 1.3 % with its live line: on a machine with one CPU, "
        "that alone exceeds 1 %, and the run may lose it."
    ),
    evidence=busy_neighbours,
    looks_at="runs",
)


def stolen(case: Case) -> str | None:
    """The host of a virtual machine gave its CPUs to others."""
    return _evidence(case, "the host of its virtual CPUs stole {} of its CPU time", stolen_share, _withheld)


STOLEN_TIME = CaseDoubtKind(
    code="stolen-time",
    subject="meanwhile",
    severity="biased",
    means=(
        "The machine is virtual, and its host did not give it CPU time that it wanted: steal time, as a "
        "share of the time that its CPUs wanted." + _RULE
    ),
    effect=(
        "The result depends on the machine's share of its host at that time, which changes from hour to hour."
        + _SIDES
        + _VERDICT
    ),
    remedy="Use a machine with its own CPUs (dedicated, not burstable), and run again.",
    rates=(
        "This is a kernel counter in steps of 10 ms; 8 ms per CPU are subtracted first. If a host does not "
        "report steal time to its guest, it goes unnoticed."
    ),
    evidence=stolen,
    looks_at="runs",
)


OTHERS_USED_ITS_CPUS = frozenset({BUSY_NEIGHBOURS.code, STOLEN_TIME.code})
"""The doubts about time that others took, for which verdicts allow."""


def heat(case: Case) -> str | None:
    """A CPU was thermally throttled."""
    return _evidence(case, "its CPUs were thermally throttled for {} of the time", heat_share, _heat)


HEAT_THROTTLED = CaseDoubtKind(
    code="heat-throttled",
    subject="meanwhile",
    severity="biased",
    means=(
        "A package of the job's CPUs was thermally throttled while it ran: throttled time, as a share of "
        "the run. If the kernel counts only events, one event is enough." + _RULE
    ),
    effect=(
        "The clock was lower than it is when the room is cooler, and lowest at the end of a session, so the "
        "order of the runs decides which side is affected." + _SIDES
    ),
    remedy="Fix the cooling, lower the room's temperature, or let the node cool down between runs.",
    rates="A CPU counter (Intel only; others don't report it). It stays at 0 on a CPU that is cool enough.",
    evidence=heat,
    looks_at="runs",
)


def swapping(case: Case) -> str | None:
    """The node read memory back from its swap."""
    return _evidence(case, "it waited for memory for {} of the time, with swap in use", swap_share, _swapped)


SWAPPING = CaseDoubtKind(
    code="swapping",
    subject="meanwhile",
    severity="biased",
    means=(
        "The node read memory back from its swap while the job ran, and some task waited for memory for this "
        "share of the time (without pressure stall information: 0.1 ms per page read back)." + _RULE
    ),
    effect=(
        "The result includes a wait for the disk; which run is affected depends on what ran before." + _SIDES
    ),
    remedy=(
        "Free memory, use a smaller batch or fewer workers, or switch swap off so that a job that is too "
        "large fails instead."
    ),
    rates=(
        "The wait is that of any task on the node, not only the job's. If nothing is read back, nothing is "
        "raised."
    ),
    evidence=swapping,
    looks_at="runs",
)


def suspended(case: Case) -> str | None:
    """Somebody suspended the job for a while."""
    matters = (case.margin or DEFAULT_MARGIN) / 2
    sides = [_suspended_runs(side, matters) for side in case.sides]
    return "; ".join(filter(None, sides)) or None


SUSPENDED = CaseDoubtKind(
    code="suspended",
    subject="meanwhile",
    severity="biased",
    means=(
        "The job's processes were suspended while it ran: by a batch system, a control group's freezer, a "
        "stop signal, or with the whole machine. Raised if that took more than half of the margin of a run's "
        "time (more than 1 % if nothing is compared) in any run; the worst of a run's nodes counts."
    ),
    effect=(
        "What such a run measured contains the pause, and ranks on other nodes waited for it: a rate is too "
        "low, a duration too long. The mean and the interval contain it, too."
    ),
    remedy=(
        "Find out who suspends jobs (Slurm's `scontrol suspend` and gang scheduling, `bstop`, a freezer, "
        "SIGSTOP, a virtual machine that was paused), and repeat the runs without it."
    ),
    rates=(
        "The keeper wakes four times a second. A wait that ends at least 1 s late counts as a pause, without "
        "the time for which the keeper waited for a CPU, which the kernel counts: a busy machine is no "
        "pause. Shorter pauses of a whole job go unnoticed. If a rank alone is stopped, any pause counts, "
        "but not that of a process that the rank started."
    ),
    evidence=suspended,
    looks_at="runs",
)


def _suspended_runs(side: Side, matters: float) -> str:
    """Which of a side's runs were suspended, and for how long, as text; "" if none was."""
    each = [encounter("", [sample.result], nodes_of, suspended_share) for sample in side.group.samples]
    known = [met for met in each if met is not None]
    hit = [met for met in known if met.share >= matters]
    if not hit:
        return ""
    longest = max(hit, key=lambda met: met.worst.suspended_s or 0.0)
    pause, whole = human(longest.worst.suspended_s or 0.0, "s"), human(longest.worst.elapsed_s, "s")
    runs = f"{len(hit)} of {counted(len(known), 'run')}"
    return f"{side.name}: {runs}, the longest for {pause} of {whole} ({longest.worst_trial})"


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


def _evidence(case: Case, what: str, share: Share, describe: Callable[[NodeCounts], str]) -> str | None:
    return evidence(case, what, nodes_of, share, describe)


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
    results = [side.group.results for side in case.sides]
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
