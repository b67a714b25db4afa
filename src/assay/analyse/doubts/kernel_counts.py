"""Doubts about what happened on the nodes during the runs, from the kernels' counters.

Each problem is counted as a share, and raises its doubt if the mean over a side's runs is above half of
the margin. The worst of a run's nodes counts, because the others wait for it.

These counters do not bound what a side lost: ranks that wait for each other lose more than the share, and
it is unknown in which part of the run the measurement was taken. So a doubt reports what was counted and
which side was affected more. Verdicts allow for `lost_to_others`, a rule that docs/explanation/statistics.md
tests by simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from assay.analyse.doubts.case import Case, CaseDoubtKind, Side, counted, percent
from assay.analyse.doubts.encounters import encounter, evidence
from assay.records import DEFAULT_MARGIN, NodeCounts, Result
from assay.units import human

# A count in steps of 10 ms, cut off at both ends, has an error of at most 8 ms in 95 % of cases; a CPU's
# busy time is the sum of five.
COUNT_ERROR_S, BUSY_ERROR_S = 0.008, 0.018
SWAP_WAIT_S = 1e-4  # for one page from a flash disk, if the kernel does not count the waiting itself
PAGE_BYTES = 4096

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
    "waited, and above 20 % of its time the only verdict is `undecided` (docs/explanation/statistics.md). A "
    "requirement has this doubt only if that time could change its verdict."
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
    each = [encounter("", [sample.result], _nodes, suspended_share) for sample in side.group.samples]
    known = [one for one in each if one is not None]
    hit = [one for one in known if one.share >= matters]
    if not hit:
        return ""
    longest = max(hit, key=lambda one: one.worst.suspended_s or 0.0)
    pause, whole = human(longest.worst.suspended_s or 0.0, "s"), human(longest.worst.elapsed_s, "s")
    runs = f"{len(hit)} of {counted(len(known), 'run')}"
    return f"{side.name}: {runs}, the longest for {pause} of {whole} ({longest.worst_trial})"


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
        taken, met = (encounter("", results, _nodes, one) for one in (share, time))
        if taken is not None and met is not None and taken.share >= margin / 2:
            lost += met.share
    return min(1.0, lost)


def lost_by_run(results: Sequence[Result]) -> list[float | None]:
    """For each run, the share of its time that it may have lost to others; None if nobody counted it."""
    return [_lost_by(result) for result in results]


def _lost_by(result: Result) -> float | None:
    met = [encounter("", [result], _nodes, time) for time in (time_to_neighbours, time_stolen)]
    known = [one.share for one in met if one is not None]
    return min(1.0, math.fsum(known)) if known else None


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
    return evidence(case, what, _nodes, share, words)


def _nodes(result: Result) -> Sequence[NodeCounts]:
    return result.run.nodes
