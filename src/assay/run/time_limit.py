"""Whether a trial that reached its time limit had the CPUs that it needed."""

from __future__ import annotations

from collections.abc import Sequence

from assay.analyse.points.encounters import others_cpus
from assay.records import NodeCounts
from assay.units import counted, percent


def cpu_use(nodes: Sequence[NodeCounts]) -> str:
    """What a job and others used of its CPUs' time, on the node where the job used least; "" if unknown.

    Time in which the job was suspended does not count; what others used then can't be told apart.

    >>> cpu_use([NodeCounts(elapsed_s=100.0, cpus=2, busy_cpu_s=200.0, job_cpu_s=50.0)])
    'it used 25 % of the time of its 2 CPUs, others 75 %'
    """
    known = [(node.job_cpu_s / _cpu_s(node), node) for node in nodes if node.job_cpu_s is not None]
    if not known:
        return ""
    own, node = min(known, key=lambda pair: pair[0])
    others = None if node.suspended_s else others_cpus(node)
    there = " on the node where it used least" if len(known) > 1 else ""
    beside = "" if others is None else f", others {percent(others / node.cpus)}"
    return f"it used {percent(own)} of the time of its {counted(node.cpus, 'CPU')}{there}{beside}"


def _cpu_s(node: NodeCounts) -> float:
    return node.cpus * (node.elapsed_s - (node.suspended_s or 0.0))
