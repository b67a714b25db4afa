"""Doubts about what the nodes' kernels counted while the runs ran."""

from __future__ import annotations

from assay.analyse.explanations.explanation import Explanation

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

EXPLANATIONS: dict[str, Explanation] = {
    "cpu-throttled": Explanation(
        "biased",
        "The kernel stopped the job because a cgroup had used up its CPU quota: time stopped, as a share of "
        "the CPU time that the job would otherwise have had." + _RULE,
        "The figure is that of the quota, not of the machine. A job is stopped for tens of milliseconds at a "
        "time, on each node at another moment: every collective waits for the one that is stopped." + _SIDES,
        "Raise the limit to whole cores for every thread, or take it away; else use fewer threads "
        "(`OMP_NUM_THREADS`).",
        "A count of the kernel's, not a test: without a quota, or below it, it is 0. It is the whole "
        "group's, so another process in the same container counts too.",
    ),
    "busy-neighbours": Explanation(
        "biased",
        "Other processes used CPUs that the job may run on, while it ran: busy time of those CPUs less the "
        "job's own CPU time, as a share of all CPU time that was used there, and no more than the share of "
        "time in which some task waited for a CPU, where the kernel counts it (pressure stall information, "
        "or the waiting times of its run queues)." + _RULE,
        "A job that wants more CPUs loses more to the same neighbours: two threads that want two CPUs of two "
        "wait, while one thread finds the other CPU free, and threads or ranks that wait for each other lose "
        "the time of the slowest. What the job wanted is not counted, so a side that got less CPU time than "
        "it wanted may look slower than it is." + _SIDES + _VERDICT + " Caches, memory bandwidth and clock "
        "that neighbours take are not in it.",
        "Find what else runs there (other pods, other jobs of the node), and run again alone.",
        "The kernel counts in steps of 10 ms, so 18 ms a CPU (two standard deviations of the sum) are taken "
        "off first: a run of 1 s shows neighbours from 2.8 % on, one of 60 s from 1.03 %. Assay itself uses "
        "0.4 % of one CPU while it follows a run, 1.3 % with its live line: on a machine of one CPU that "
        "alone is above 1 %, and the run may lose it.",
    ),
    "stolen-time": Explanation(
        "biased",
        "The machine is virtual, and its host withheld CPU time that it wanted: stolen time, as a share of "
        "the time that its CPUs wanted." + _RULE,
        "The figure is that of the machine's share of its host at that hour; the next hour has another."
        + _SIDES
        + _VERDICT,
        "Take a machine with CPUs of its own (dedicated, not burstable), and run again.",
        "A count of the kernel's in steps of 10 ms; 8 ms a CPU are taken off first. A host that does not "
        "tell its guest steals unseen.",
    ),
    "heat-throttled": Explanation(
        "biased",
        "A package of the job's CPUs was slowed down for heat while it ran: time slowed down, as a share of "
        "the run. Where the kernel counts only how often, once is enough." + _RULE,
        "The clock was lower than it will be in a cooler hour, and most at the end of a session, so the "
        "order of the runs decides who suffers." + _SIDES,
        "Mend the cooling, lower the room's temperature, or let the node cool down between runs.",
        "A count of the CPU's own (Intel; others don't tell it). None on a CPU that is cool enough.",
    ),
    "swapping": Explanation(
        "biased",
        "The node read memory back from its swap while the job ran, and some task waited for memory for this "
        "share of the time (without pressure stall information: 0.1 ms a page read back)." + _RULE,
        "A wait for the disk stands in the figure; which run meets it depends on what ran before." + _SIDES,
        "Free memory, take a smaller batch or fewer workers, or switch swap off so that a job too large "
        "fails instead.",
        "The wait is any task's of the node, not only the job's. Nothing read back from swap raises nothing.",
    ),
}
