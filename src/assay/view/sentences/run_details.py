"""A run besides its figures, as text: nodes, places, what was expected, and confused classes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby

from assay.analyse import confusion
from assay.analyse.expectations.shares import PublishedRange, Usage
from assay.analyse.points import encounters
from assay.records import ConfusionMatrix, NodeCounts, Result
from assay.units import factor, human, percent, significant
from assay.view import figures

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


MOST_SHOWN = 6


def placement_lines(results: Iterable[Result]) -> Iterator[str]:
    """One line for each placement of a shape's runs; empty if no run recorded its placement."""
    counts = Counter((r.run.trial.shape, r.run.places) for r in results if r.run.places)
    ordered = sorted(
        counts.items(),
        key=lambda placement_runs: (
            placement_runs[0][0].ranks,
            str(placement_runs[0][0]),
            -placement_runs[1],
            placement_runs[0][1],
        ),
    )
    for (shape, places), runs in ordered[:MOST_SHOWN]:
        yield f"  {shape} ran {'once' if runs == 1 else f'{runs} times'} with {describe_placement(places)}"
    if len(ordered) > MOST_SHOWN:
        yield f"  and in {len(ordered) - MOST_SHOWN} more placements: --json lists the nodes of each run"


def describe_placement(places: Sequence[str]) -> str:
    """`rank 0 on node1, ranks 1 to 3 on node2`."""
    spans = []
    for node, members in groupby(range(len(places)), key=lambda rank: places[rank]):
        ranks = list(members)
        which = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"
        spans.append(f"{which} on {node or 'an unknown node'}")
    return ", ".join(spans)


_KINDS = {
    "mfu": "MFU",
    "arithmetic": "of peak arithmetic",
    "memory-bandwidth": "of peak memory bandwidth",
    "line-rate": "of line rate",
}


def describe_usages(usages: Sequence[Usage]) -> list[str]:
    """One line per measurement that can be judged, then each reason why others can't be, once."""
    lines = [line for usage in usages for line in _usage_lines(usage)]
    reasons: dict[str, list[str]] = {}
    for usage in usages:
        if usage.share is None:
            benchmarks = reasons.setdefault(usage.why, [])
            benchmarks += [] if usage.point.benchmark in benchmarks else [usage.point.benchmark]
    return lines + [f"{', '.join(benchmarks)}: {why}" for why, benchmarks in reasons.items()]


def _usage_lines(usage: Usage) -> list[str]:
    place = f"{usage.point.benchmark} {figures.metric(usage.point.metric)}, {figures.where(usage.point)}"
    lines = []
    if usage.share is not None:
        beyond = (
            " – this is impossible: look for an error in the measurement" if usage.share.value > 1 else ""
        )
        lines.append(
            f"{place}: {figures.share(usage.share)} {_KINDS[usage.kind]} ({usage.of}; {usage.source}){beyond}"
        )
    if usage.normal is not None:
        lines.append(f"{place}: {normal(usage.normal, usage.point.unit)}")
    return lines


def normal(published: PublishedRange, unit: str) -> str:
    """`within published results, 887.0 to 1,040.2 images/s per accelerator (…)`: is this normal?"""
    shown, (low, high) = figures.column([published.low, published.high], factor(unit)[1])
    reach = f"{low if low == high else f'{low} to {high}'} {shown}"
    sources = "; ".join(f"{r.what}: {r.source}" for r in published.references)
    each = " per accelerator" if published.each else ""
    return f"{published.verdict} published results, {reach}{each} ({sources})"


MOST_TOLD = 5


def most_confused(matrix: ConfusionMatrix) -> Iterator[str]:
    """The most frequent confusions, as `12 % of Sky predicted as Car`."""
    worst = confusion.most_confused(matrix, MOST_TOLD)
    if not worst:
        yield "no class was confused with another"
    for pair in worst:
        yield f"{figures.percent(pair.share)} of {pair.true} predicted as {pair.predicted}"
