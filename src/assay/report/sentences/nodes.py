"""The nodes' kernel counters during runs, as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from assay.analyse.points import encounters
from assay.records import NodeCounts, Result
from assay.units import human, percent, significant

Count = Callable[[NodeCounts], float | None]

_SHARES: tuple[tuple[str, Count], ...] = (
    ("throttled by a CPU quota {}", encounters.throttled_share),
    ("stolen by the host {}", encounters.stolen_share),
    ("thermally throttled {} of the time", encounters.heat_share),
    ("waiting for swap {} of the time", encounters.swap_share),
)


def describe_nodes(results: Sequence[Result]) -> str | None:
    """One line with means over the nodes of these runs; None if nothing was counted.

    A counter that stayed at zero is shown as `0 %`; a counter that was not read is not shown.
    """
    nodes = [node for result in results for node in result.run.nodes]
    means = list(_describe_means(nodes))
    return f"while the runs ran (mean): {', '.join(means)}" if means else None


def _describe_means(nodes: Sequence[NodeCounts]) -> Iterator[str]:
    own = _mean(nodes, lambda node: None if node.job_cpu_s is None else node.job_cpu_s / node.elapsed_s)
    others, cpus = _mean(nodes, encounters.others_cpus), _mean(nodes, lambda node: float(node.cpus))
    if own is not None:
        yield f"the job used {significant(own, 2)} of {cpus:g} CPUs"
    if others is not None:
        yield f"others {significant(others, 2)}"
    for sentence, share in _SHARES:
        mean = _mean(nodes, share)
        if mean is not None:
            yield sentence.format(percent(mean))
    faults = _mean(
        nodes, lambda node: None if node.job_major_faults is None else float(node.job_major_faults)
    )
    peaks = [float(node.peak_rss_bytes) for node in nodes if node.peak_rss_bytes is not None]
    if peaks:
        yield f"the largest process had up to {human(max(peaks), 'B')}"
    if faults:
        yield f"{human(faults, 'pages')} read from disk"


def _mean(nodes: Sequence[NodeCounts], count: Count) -> float | None:
    values = [value for node in nodes if (value := count(node)) is not None]
    return math.fsum(values) / len(values) if values else None
